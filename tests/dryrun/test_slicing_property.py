"""A slice of a generated program consists of its statements, in order, and runs to the same value as the whole."""

from __future__ import annotations

import ast
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from drygrad.dryrun.slicing import Imports, backward_slice, steps_before

NAMES = st.sampled_from("a b c d e".split())
LINES = st.one_of(
    st.builds("{} = [{}]".format, NAMES, st.integers(0, 9)),
    st.builds("{} = [*{}, 1]".format, NAMES, NAMES),
    st.builds("{} = list(f(*{}))".format, NAMES, NAMES),
    st.builds("{}[0] = {}[0] + 1".format, NAMES, NAMES),
    st.builds("{}[0], {} = {}[0], {}".format, NAMES, NAMES, NAMES, NAMES),
    st.builds("{}.append(7)".format, NAMES),
    st.builds("{} += {}".format, NAMES, NAMES),
    st.builds("{} = {}".format, NAMES, NAMES),
    st.builds("{}, {} = {}, {}".format, NAMES, NAMES, NAMES, NAMES),
    st.builds("if {}[0] > 4: {} = {}".format, NAMES, NAMES, NAMES),
    st.builds("if {}[0] > 4: {} = [0]".format, NAMES, NAMES),
    st.builds("for {} in [[1], [2]]: {} = [3]".format, NAMES, NAMES),
    st.builds("def f(*x): return (*x, *{})".format, NAMES),
    st.builds("with open_nothing(): {} = [5]".format, NAMES),
)
PRELUDE = """\
from contextlib import nullcontext as open_nothing
a, b, c, d, e = [0], [0], [0], [0], [0]
def f(*x): return x
"""


def executed(statements: list[ast.stmt]) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(compile(ast.Module(statements, []), "program", "exec"), namespace)
    return namespace


@given(st.lists(LINES, max_size=12), NAMES)
def test_a_slice_computes_what_the_program_computes(lines: list[str], name: str) -> None:
    tree = ast.parse(
        PRELUDE.replace("a = b = c = d = e = [0]", "\n".join(f"{n} = [0]" for n in "abcde")) + "\n".join(lines)
    )
    imports = Imports(tree)
    found = backward_slice(steps_before(tree.body, (), imports), {name}, (), imports)
    taken = [step for step in found.steps if isinstance(step, ast.stmt)]
    positions = [tree.body.index(step) for step in taken]
    assert positions == sorted(set(positions))
    assert found.unresolved == ()
    assert executed(taken)[name] == executed(tree.body)[name]
