"""The comment that gives inputs."""

from __future__ import annotations

import pytest
from plan_harness import arguments, missing, plan, plans, source_of

from drygrad.dryrun.inputs.arguments import Problem
from drygrad.dryrun.inputs.comment import comments_above, comments_of_script, read_flag
from drygrad.dryrun.plan import RunOptions

TWO = """
    import torch

    # Adds.
    # dry-run: x=torch.ones(3,
    #     device="cpu"), y=2  # in two lines
    # dry-run: y=torch.zeros(3), x=y
    @torch.no_grad()
    def add(x, y): return x + y
"""


def test_several_comments_are_several_runs_and_may_go_over_lines() -> None:
    found = plans(TWO, "add")
    assert isinstance(found, list)
    assert [arguments(p) for p in found] == [
        [("x", '(torch.ones(3,\n      device="cpu"))'), ("y", "2")],
        [("y", "torch.zeros(3)"), ("x", "y")],
    ]
    assert [(a.line, a.column, a.source) for a in found[0].arguments] == [(4, 13, "comment"), (5, 23, "comment")]


@pytest.mark.parametrize(
    ("comment", "message", "at"),
    [
        ("# dry-run: x=torch.ones(3", "unbalanced brackets", (1, 0, 1, 25)),
        ("# dry-run: x=1 y=2", "cannot be parsed", None),
        ("# dry-run: torch.ones(3)", "`torch.ones(3)` has no name", (1, 11, 1, 24)),
        ("# dry-run: x=1) + (2", "not call arguments", (1, 0, 1, 20)),
    ],
)
def test_a_comment_that_cannot_be_read(comment: str, message: str, at: tuple[int, int, int, int] | None) -> None:
    found = missing(f"{comment}\ndef f(x): ...\n", "f")
    assert message in found.message
    assert found.span.start.line == 1
    if at:
        assert (*found.span.start, *found.span.end) == at


def test_columns_count_characters_also_after_wide_ones() -> None:
    comment = comments_above(source := source_of('# dry-run: a="ü€", b=2\ndef f(a, b): ...\n'), source.tree.body[0])[0]
    read = comment.arguments()
    assert not isinstance(read, Problem)
    assert [(a.name, a.column) for a in read] == [("a", 13), ("b", 21)]


def test_an_unknown_parameter_is_named_with_its_like() -> None:
    found = missing("# dry-run: taget=1\ndef f(target): ...\n", "f")
    assert found.message == "`f` has no parameter `taget`; did you mean `target`?"
    assert found.span == ((1, 11), (1, 16))


def test_what_a_comment_leaves_out_or_leaves_blank() -> None:
    assert missing("# dry-run: x=1\ndef f(x, y, z=1, *, w): ...\n", "f").message == "the inputs are missing `y` and `w`"
    assert missing("# dry-run: x=...\ndef f(x): ...\n", "f").message == "fill in `x` in the inputs"
    assert missing("# dry-run: x=ones(3)\ndef f(x): ...\n", "f").message.startswith("the inputs use `ones`")


def test_extra_keywords_where_the_function_takes_them() -> None:
    found = plan("# dry-run: x=1, y=2, **{'z': 3}\ndef f(x, **others): ...\n", "f")
    assert arguments(found) == [("x", "1"), ("y", "2"), (None, "**{'z': 3}")]


def test_a_comment_inside_a_string_or_further_away_is_none() -> None:
    text = '"""\n# dry-run: x=1\n"""\n\n# dry-run: x=2\n\ndef f(x): ...\n'
    assert missing(text, "f").names == ("x",)


def test_the_head_of_a_file_speaks_of_the_script() -> None:
    source = source_of('"""Docs."""\n# dry-run: loader=[1]\nimport torch\nfor x in loader: pass\n')
    assert [c.text for c in comments_of_script(source)] == ["loader=[1]"]
    assert arguments(plan(source.text, None)) == [("loader", "[1]")]
    assert missing(source.text.replace("loader=", "other="), None).message.startswith("the script uses `loader`")
    function_first = source_of("# dry-run: x=1\ndef f(x): ...\n")
    assert comments_of_script(function_first) == []


def test_the_flag_has_the_same_grammar_and_wins() -> None:
    found = plan("# dry-run: x=1\ndef f(x): ...\n", "f", RunOptions(inputs="x=2"))
    assert [(a.text, a.source, a.line) for a in found.arguments] == [("2", "flag", None)]
    wrong = missing("def f(x): ...\n", "f", RunOptions(inputs="x=(2"))
    assert wrong.in_flag
    assert isinstance(read_flag("x=("), Problem)
