"""Dry runs of notebooks: lenses in their cells, results in the cells that they are about; the runs are faked."""

from __future__ import annotations

from pathlib import Path

import pytest
from dry_run_client import answering, finished, ran, run
from lsp_client import Client, Start
from notebook_client import Notebook

CELLS = ("import torch\n%matplotlib inline", "!ls\n\ndef step(x):\n    y = tensor()\n    fault()", "leak()\n")


@pytest.fixture
def client(start: Start, tmp_path: Path) -> Client:
    given = {"debounce": 0, "trusted": True}
    client = start(settings=answering(given))
    client.initialize(tmp_path, options=given)
    return client


@pytest.fixture
def notebook(client: Client, tmp_path: Path) -> Notebook:
    return Notebook(client, "book", *CELLS, folder=tmp_path.as_uri())


def titles(notebook: Notebook, number: int) -> list[tuple[int, str]]:
    lenses = notebook.client.lenses(notebook.cell(number))
    return [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in lenses]


def test_a_cell_has_the_lenses_of_its_functions_and_what_they_do_works(client: Client, notebook: Notebook) -> None:
    offered = [(2, "▶ Dry-run"), (2, "▶ Forecast"), (2, "⋯")]
    assert [titles(notebook, number) for number in range(3)] == [[], offered, []]
    lens, *_ = client.lenses(notebook.cell(1))
    finished(client, client.command(lens["command"]["command"], *lens["command"]["arguments"])["runId"])
    shown = notebook.wait_until({1: ["DG102"], 2: ["DG101"]})
    (fault,) = shown[notebook.cell(1)]
    assert fault["range"]["start"] == {"line": 4, "character": 4}
    (related,) = fault["relatedInformation"]
    assert (related["location"]["uri"], related["location"]["range"]["start"]["line"]) == (notebook.cell(1), 2)
    assert titles(notebook, 1)[3] == (2, "● pinned")
    (hint,) = client.hints(notebook.cell(1))
    assert hint["position"] == {"line": 3, "character": len("    y = tensor()")}
    assert client.hints(notebook.cell(0)) == []
    assert "y: float32" in client.hover(notebook.cell(1), 3, 5)["contents"]["value"].replace("`", "")
    (fix, *_) = client.actions(notebook.cell(1), [fault])
    assert fix["edit"]["documentChanges"][0]["textDocument"]["uri"] == notebook.cell(1)


def test_lines_in_sentences_are_those_of_cells(client: Client, notebook: Notebook) -> None:
    ran(client, notebook.cell(1), "step")
    facts = client.hover(notebook.cell(1), 2, 9)["contents"]["value"]
    assert "from the call in line 5" in facts, "line 9 of the module"


def test_results_move_with_their_cell_and_what_is_pinned_runs_when_the_notebook_is_saved(
    client: Client, notebook: Notebook
) -> None:
    ran(client, notebook.cell(1), "step")
    notebook.wait_until({1: ["DG102"], 2: ["DG101"]})
    notebook.splice(0, 0, "# a new cell\n\n")
    notebook.wait_until({1: ["DG102"], 2: ["DG101"]})
    notebook.edit(notebook.cell(1), CELLS[1].replace("fault()", "pass"))
    notebook.wait_until({2: ["DG101"]})
    notebook.save()
    assert finished(client, "run-2")["outcome"] == "passed"
    assert (2, "✓ passed on sim, 0.12 s") in titles(notebook, 1)


def test_what_stands_at_a_place_of_a_cell_is_run(client: Client, notebook: Notebook) -> None:
    place = {"line": 3, "character": 0}
    assert finished(client, run(client, notebook.cell(1), position=place))["target"] == "step"
