"""A notebook as a language client keeps it."""

from __future__ import annotations

from typing import Any

import pytest
from lsp_client import JSON, Client


class Notebook:
    """A notebook as a client keeps it."""

    def __init__(self, client: Client, name: str, *cells: str, folder: str = "file:///nowhere") -> None:
        self.client, self.uri, self.version = client, f"{folder}/{name}.ipynb", 1
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

    def save(self) -> None:
        self.client.notify("notebookDocument/didSave", {"notebookDocument": {"uri": self.uri}})

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
