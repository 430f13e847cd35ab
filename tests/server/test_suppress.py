"""The comment that silences a finding stands where Python allows one."""

from __future__ import annotations

import pytest

from drygrad.fixing import apply_edits
from drygrad.lsp.suppress import ignore_edit
from drygrad.model import Position
from drygrad.static.source import Source

NEW = "# drygrad: ignore[DG101]"


@pytest.mark.parametrize(
    ("text", "line", "result"),
    [
        ("f()\n", 1, f"f()  {NEW}\n"),
        ("f()", 1, f"f()  {NEW}"),
        ("f()\r\ng()\r\n", 2, f"f()\r\ng()  {NEW}\r\n"),
        ("f()  # why\n", 1, f"f()  # why  {NEW}\n"),
        ("f()  # drygrad: ignore[DG102] because\n", 1, "f()  # drygrad: ignore[DG102, DG101] because\n"),
        ("f()  # drygrad: ignore[]\n", 1, f"f()  {NEW}\n"),
        ("f(\n    x,\n)\n", 1, f"f(  {NEW}\n    x,\n)\n"),
        ("x = f() + \\\n    1\n", 1, f"x = f() + \\\n    1  {NEW}\n"),
        ('f("""a\n# b\n""")\n', 1, f'f("""a\n# b\n""")  {NEW}\n'),
        ("f(\"\"\"a\n# b\n\"\"\", g(), '''\n''')\n", 3, f"f(\"\"\"a\n# b\n\"\"\", g(), '''\n''')  {NEW}\n"),
        ('f("#")\n', 1, f'f("#")  {NEW}\n'),
        ('f("\\"#")\n', 1, f'f("\\"#")  {NEW}\n'),
        ("f('it') # it's\n", 1, f"f('it') # it's  {NEW}\n"),
        ('f("a \\\n b")\n', 1, f'f("a \\\n b")  {NEW}\n'),
        ('"""never ended\nf()\n', 2, f'"""never ended\nf()  {NEW}\n'),
    ],
)
def test_where_the_comment_goes(text: str, line: int, result: str) -> None:
    source = Source(text)
    edit = ignore_edit(source, Position(line, 0), "DG101")
    assert apply_edits(source, [edit]) == result
