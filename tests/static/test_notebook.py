"""Cells as one module, and the module taken apart again."""

from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drygrad.magics import as_python
from drygrad.model import Edit, Fix, Span
from drygrad.notebook import Notebook, is_editable, join
from drygrad.static.source import Source, SourceError

CELLS = [
    "x = 1",
    "%matplotlib inline\nx = 2\n",
    "",
    "%%bash\necho hi\n\nls\n",
    "if x:\n    !pip install torch\n    y = x\n",
    "files = !ls\n",
    "z = (x\n % 2)\n",
    "print?\n",
    "%%time\ny = 1\n",
]


def test_a_module_of_cells_parses_and_comes_apart_as_it_was() -> None:
    module = join(CELLS)
    ast.parse(module.text)
    assert module.split(module.text) == CELLS


@given(st.lists(st.text(alphabet="ax=1 %!?#\n\"'(", max_size=20), max_size=5))
def test_any_cells_come_apart_as_they_were(cells: list[str]) -> None:
    module = join(cells)
    assert module.split(module.text) == cells


@pytest.mark.parametrize(
    ("cell", "left"),
    [
        ("!python infer.py --path model.pt \\\n  --task audio \\\n  --out out/\nx = 1\n", "x = 1"),
        ("%run train.py \\\n  --lr 1\ny = 2", "y = 2"),
        ("files['all'] = !ls | grep \\\n  .pt\nz = 3", "z = 3"),
        ("%time y = f(1, \\\n  2)\nz = 4", "2)\nz = 4"),
        ("%time !ls\nz = 5", "z = 5"),
        ("%timeit -n 10 f(x)", "f(x)"),
        ("pip install -q torch\nz = 6", "z = 6"),
        ("?print\nprint??\nz = 7", "z = 7"),
        ("if x:\n    !ls \\\n      -la\n    z = 8", "z = 8"),
    ],
)
def test_what_ipython_adds_is_left_out(cell: str, left: str) -> None:
    python = as_python(cell)
    assert python is not None
    ast.parse(python)
    assert python.endswith(left.rstrip("\n") + "\n" * cell.endswith("\n"))
    assert python.count("\n") == cell.count("\n")


@pytest.mark.parametrize("cell", ["%%bash\nif [ -f x ]; then\n  ls\nfi", "%%! ls\nrm x y", "%%writefile a.py\nx = (\n"])
def test_a_cell_of_another_language_is_blank(cell: str) -> None:
    assert as_python(cell) == "\n" * cell.count("\n")


@pytest.mark.parametrize("cell", ["x = (\n", "def f(:\n    pass\n", "for x in y\n    pass\n", "cat = 1 2\n"])
def test_what_is_no_python_stays_for_the_parser(cell: str) -> None:
    assert as_python(cell) is None


def test_every_line_knows_its_cell() -> None:
    module = join(CELLS)
    lines = module.text.split("\n")
    assert [module.locate(lines.index(text) + 1) for text in ("x = 1", "x = 2", "    y = x")] == [
        (0, 1),
        (1, 2),
        (4, 3),
    ]


def test_changes_stay_in_their_cells() -> None:
    module = join(CELLS)
    changed = module.split(module.text.replace("x = 2", "x = 3\nw = 4"))
    assert changed == [cell.replace("x = 2", "x = 3\nw = 4") for cell in CELLS]


@pytest.mark.parametrize("mark", ["# <drygrad cell 1>\n", "pass  # <drygrad line 0>"])
def test_a_change_of_a_mark_is_refused(mark: str) -> None:
    module = join(CELLS)
    assert mark in module.text
    assert module.split(module.text.replace(mark, "")) is None


@pytest.mark.parametrize(
    ("span", "editable"),
    [
        (Span.of(2, 0, 2, 1), True),
        (Span.of(2, 0, 3, 0), True),
        (Span.of(2, 0, 3, 1), False),
        (Span.of(1, 0, 1, 0), False),
        (Span.of(4, 0, 4, 0), False),
    ],
)
def test_fixes_leave_marks_alone(span: Span, editable: bool) -> None:
    source = Source(join(["x = 1\n", "%time y\n"]).text)
    assert is_editable(source, Fix("f", (Edit(span, ""),))) == editable


def document(source: object, **metadata: object) -> str:
    cells = [{"cell_type": "markdown", "source": "text"}, {"cell_type": "code", "source": source}]
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4}, indent=2)


@pytest.mark.parametrize("source", ["x = 1\ny", ["x = 1\n", "y"]])
def test_a_rewritten_notebook_keeps_its_shape(source: object) -> None:
    notebook = Notebook.load(document(source))
    assert notebook.cell_number(3) == (2, 2)
    assert notebook.rewritten(notebook.module.text) == notebook.original
    changed = notebook.rewritten(notebook.module.text.replace("x = 1", "x = 2"))
    assert changed == notebook.original.replace("x = 1", "x = 2")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"cells": 3}', '{"worksheets": []}', "[" * 100_000])
def test_what_is_no_notebook_is_said_to_be_none(text: str) -> None:
    with pytest.raises(SourceError, match="not a notebook"):
        Notebook.load(text)


@pytest.mark.parametrize("metadata", [{"language_info": {"name": "R"}}, {"kernelspec": {"language": "julia"}}])
def test_cells_of_other_languages_are_left_out(metadata: dict[str, object]) -> None:
    assert Notebook.load(document("x <- 1", **metadata)).module.text == ""
