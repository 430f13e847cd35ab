"""Notebooks on the wire: each finding in its cell, and gone where the cell has gone."""

from __future__ import annotations

import pytest
from lsp_client import Client, apply_edits, span
from notebook_client import Notebook


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
