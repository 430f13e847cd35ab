"""Notebooks on the wire: each finding in its cell, and gone where the cell has gone."""

from __future__ import annotations

from typing import Any

import pytest
from lsp_client import JSON, Client, apply_edits, span


class Notebook:
    """A notebook as a client keeps it."""

    def __init__(self, client: Client, name: str, *cells: str) -> None:
        self.client, self.uri, self.version = client, f"file:///nowhere/{name}.ipynb", 1
        self.texts = {self.cell(n): text for n, text in enumerate(cells)}
        params = {"notebookDocument": {**self._identity(), "notebookType": "jupyter-notebook", "cells": self._cells()}}
        client.notify("notebookDocument/didOpen", {**params, "cellTextDocuments": [self._item(u) for u in self.texts]})

    def cell(self, number: int) -> str:
        return f"vscode-notebook-cell:{self.uri[7:]}#W{number}"

    def _identity(self) -> JSON:
        return {"uri": self.uri, "version": self.version}

    def _cells(self) -> list[JSON]:
        return [{"kind": 2, "document": uri} for uri in self.texts]

    def _item(self, uri: str) -> JSON:
        return {
            "uri": uri,
            "languageId": "python",
            "version": self.client.versions.setdefault(uri, 1),
            "text": self.texts[uri],
        }

    def change(self, **cells: Any) -> None:
        self.version += 1
        self.client.notify(
            "notebookDocument/didChange", {"notebookDocument": self._identity(), "change": {"cells": cells}}
        )

    def edit(self, uri: str, text: str) -> int:
        self.texts[uri] = text
        self.client.versions[uri] += 1
        version = self.client.versions[uri]
        document = {"uri": uri, "version": version}
        self.change(textContent=[{"document": document, "changes": [{"text": text}]}])
        return version

    def splice(self, start: int, remove: int, *added: str) -> None:
        uris = list(self.texts)
        gone, texts = uris[start : start + remove], dict(self.texts)
        new = {self.cell(100 + self.version + n): text for n, text in enumerate(added)}
        order = [*uris[:start], *new, *uris[start + remove :]]
        self.texts = {uri: {**texts, **new}[uri] for uri in order}
        array = {"start": start, "deleteCount": remove, "cells": [{"kind": 2, "document": uri} for uri in new]}
        opened, closed = [self._item(uri) for uri in new], [{"uri": uri} for uri in gone]
        self.change(structure={"array": array, "didOpen": opened, "didClose": closed})

    def shown(self) -> dict[str, list[JSON]]:
        """What the client shows now."""
        shown: dict[str, list[JSON]] = {}
        for params in self.client.sent("textDocument/publishDiagnostics"):
            shown[params["uri"]] = params["diagnostics"]
        return {uri: items for uri, items in shown.items() if items and self.uri[7:] in uri}

    def wait_until(self, codes: dict[int, list[str]]) -> dict[str, list[JSON]]:
        """Wait until exactly these codes are shown, by the number of the cell."""
        wanted = {self.cell(number): found for number, found in codes.items()}

        def reached(_: JSON) -> bool:
            return {uri: [i["code"] for i in items] for uri, items in self.shown().items()} == wanted

        try:
            self.client.wait(reached)
        except TimeoutError:
            pytest.fail(f"shown: {self.shown()}")
        return self.shown()


@pytest.fixture
def name(uri: str) -> str:
    return uri.rpartition("/")[2].removesuffix(".py")


def test_findings_are_in_their_cells(shared: Client, name: str) -> None:
    notebook = Notebook(
        shared, name, "import torch\n", "%matplotlib inline\nx = leak()", "%%bash\nleak()\n", "!ls\nrisk()\n"
    )
    shown = notebook.wait_until({1: ["DG101"], 3: ["DG102"]})
    assert shown[notebook.cell(1)][0]["range"] == span(1, 4, 1, 10)
    assert shown[notebook.cell(3)][0]["range"] == span(1, 0, 1, 6)


def test_cells_come_move_and_go(shared: Client, name: str) -> None:
    notebook = Notebook(shared, name, "x = 1", "leak()", "risk()")
    notebook.wait_until({1: ["DG101"], 2: ["DG102"]})
    notebook.splice(0, 0, "note()")
    notebook.wait_until({1: ["DG101"], 2: ["DG102"], 101: ["DG104"]})
    notebook.splice(2, 1)
    notebook.wait_until({2: ["DG102"], 101: ["DG104"]})
    notebook.edit(notebook.cell(0), "pair()")
    notebook.wait_until({0: ["DG103"], 2: ["DG102"], 101: ["DG104"]})
    cells = [{"uri": uri} for uri in notebook.texts]
    shared.notify("notebookDocument/didClose", {"notebookDocument": {"uri": notebook.uri}, "cellTextDocuments": cells})
    notebook.wait_until({})


def test_a_cell_turned_to_markdown_shows_nothing(shared: Client, name: str) -> None:
    notebook = Notebook(shared, name, "leak()", "risk()")
    notebook.wait_until({0: ["DG101"], 1: ["DG102"]})
    notebook.change(data=[{"kind": 1, "document": notebook.cell(0)}])
    notebook.wait_until({1: ["DG102"]})


def test_a_half_typed_cell_keeps_its_findings_and_spares_the_others(shared: Client, name: str) -> None:
    notebook = Notebook(shared, name, "x = 1\nleak()", "risk()")
    notebook.wait_until({0: ["DG101"], 1: ["DG102"]})
    version = notebook.edit(notebook.cell(0), "x = (\n\nleak()")
    (kept,) = shared.published(notebook.cell(0), version)
    assert kept["range"] == span(2, 0, 2, 6)
    notebook.edit(notebook.cell(1), "risk()\nnote()")
    notebook.wait_until({0: ["DG101"], 1: ["DG102", "DG104"]})


def test_fixes_land_in_the_right_cell(shared: Client, name: str) -> None:
    notebook = Notebook(shared, name, "!ls\nleak()\nleak()", "x = leak()")
    shown = notebook.wait_until({0: ["DG101", "DG101"], 1: ["DG101"]})
    cell = notebook.cell(1)
    keep, ignore = shared.actions(cell, shown[cell])
    (change,) = keep["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": cell, "version": 1}
    assert apply_edits("x = leak()", change["edits"]) == "x = keep()"
    (change,) = ignore["edit"]["documentChanges"]
    assert apply_edits("x = leak()", change["edits"]) == "x = leak()  # drygrad: ignore[DG101]"
    titles = [action["title"] for action in shared.actions(notebook.cell(0), shown[notebook.cell(0)])]
    assert "Fix all DG101 in this cell" in titles


def test_fix_all_is_the_notebooks(shared: Client, name: str) -> None:
    texts = ["!ls\nleak()", "%%bash\nleak()", "x = (", "def f():\n    return leak()\n"]
    notebook = Notebook(shared, name, *texts)
    notebook.wait_until({0: ["DG101"], 3: ["DG101"]})
    assert shared.actions(notebook.cell(0), [], ["source.fixAll"]) == []
    (action,) = shared.actions(notebook.cell(0), [], ["notebook.source.fixAll"])
    changes = {c["textDocument"]["uri"]: c["edits"] for c in action["edit"]["documentChanges"]}
    after = [apply_edits(text, changes.get(notebook.cell(n), [])) for n, text in enumerate(texts)]
    assert after == ["!ls\nkeep()", texts[1], texts[2], "def f():\n    return keep()\n"]
