"""Notebooks: the cells as one module, findings and fixes back in the cells."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drygrad.lsp.modules import Module, Part
from drygrad.magics import as_python
from drygrad.model import Edit, Finding, Fix, Related, Span
from drygrad.static.source import Source

PYTHON_CELLS = ["x = 1", "x = 1\n", "def f():\n    pass\n\n", "", "\n\n", "y = '''\n'''", "# c", "\r\nz = 2\r\n"]
OTHER_CELLS = [
    "%%bash\nls -l\n",
    "!pip install torch",
    "%matplotlib inline\nx = 1",
    "files = !ls\n",
    "x?",
    "(",
    "if x:",
]


def module(*cells: str) -> Module:
    return Module.of_cells([Part(f"cell:{n}", n, Source(text)) for n, text in enumerate(cells)])


@given(st.lists(st.sampled_from(PYTHON_CELLS + OTHER_CELLS), min_size=1, max_size=6))
def test_each_line_of_a_cell_has_its_place_in_the_module(cells: list[str]) -> None:
    whole = module(*cells)
    ast.parse(whole.source.text)
    for number, cell in enumerate(cells):
        for line in range(1, len(Source(cell).lines) + 1):
            span = Span.of(line, 0, line, 0)
            part, local = whole.locate(span.shifted(whole.first_lines[number]))
            assert (part.uri, local) == (f"cell:{number}", span)
            if cell in PYTHON_CELLS:
                assert whole.source.line_text(line + whole.first_lines[number]) == part.source.line_text(line)


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("x = 1", "x = 1"),
        ("%%bash\nls\n", "\n\n"),
        ("%%time\nx = f()", "\nx = f()"),
        ("!pip install torch\nx = 1", "pass\nx = 1"),
        ("if x:\n    !ls\n", "if x:\n    pass\n"),
        ("%time y = f(x)", "pass ;y = f(x)"),
        ("%timeit -n 10 f(x)", "pass ;        f(x)"),
        ("files = !ls", "files = _"),
        ("torch.add?\nx", "pass\nx"),
        ("x = (1\n     % 2)", "x = (1\n     % 2)"),
        ('"""\n%matplotlib\n!ls\n"""', '"""\n%matplotlib\n!ls\n"""'),
        ("await f()", "await f()"),
        ("x = (", None),
        ("return = 1", None),
    ],
)
def test_magics_leave_the_columns_of_python_alone(cell: str, python: str | None) -> None:
    assert as_python(cell) == python


def finding(span: Span, *edits: Edit, related: Span | None = None) -> Finding:
    fixes = (Fix("fix", edits, "safe"),) if edits else ()
    return Finding("DG1", "n", "m", "error", span, (Related("r", related),) if related else (), fixes)


def test_findings_edits_and_related_places_go_to_their_cells() -> None:
    whole = module("a = 1\n", "b = a")
    first, second = (Span.of(line + 1, 0, line + 1, 5) for line in whole.first_lines)
    edits = Edit(second, "c"), Edit(first, "d")
    (found,) = whole.localised([finding(second, *edits, related=first)])["cell:1"]
    local = Span.of(1, 0, 1, 5)
    assert found.span == local
    assert found.related == (Related("r", local, "cell:0"),)
    assert found.fixes[0].edits == (Edit(local, "c"), Edit(local, "d", "cell:0"))


def test_a_fix_that_reaches_over_a_border_is_not_offered() -> None:
    whole = module("a = 1", "b = a")
    first, second = whole.first_lines
    (found,) = whole.localised(
        [finding(Span.of(first + 1, 0, second + 1, 2), Edit(Span.of(first + 1, 0, second + 1, 2), ""))]
    )["cell:0"]
    assert found.span == Span.of(1, 0, 1, 5)
    assert found.fixes == ()


def test_a_broken_cell_does_not_silence_the_others() -> None:
    whole = module("x = (", "y = 1")
    assert whole.left_out == {"cell:0"}
    assert "y = 1" in whole.source.text


def test_a_document_is_its_own_module() -> None:
    source = Source("x\n")
    whole = Module.of_document(Part("file:///a.py", 1, source))
    one = finding(Span.of(1, 0, 5, 0))
    assert whole.source is source
    assert whole.localised([one]) == {"file:///a.py": [one]}
    assert whole.pieces("y\n") == ["y\n"]
