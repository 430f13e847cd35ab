"""Nothing that a program, a file name or a run brings steers the terminal that shows it."""

from __future__ import annotations

import io
import re

import pytest
from cli_harness import Cli
from hypothesis import given
from hypothesis import strategies as st

from drygrad.cli.formats import diffs, render
from drygrad.cli.report import FileResult, Item, Report
from drygrad.cli.terminal import coloured, one_line, painted, plain
from drygrad.model import Finding, Fix, Related, Span

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\r\u202e\u2066 \x1b[8m"
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report() -> Report:
    span = Span.of(1, 0, 1, 3)
    finding = Finding(
        "DG904",
        HOSTILE,
        HOSTILE,
        "warning",
        span,
        related=(Related(HOSTILE, span), Related(HOSTILE, span, path=HOSTILE)),
        fixes=(Fix(HOSTILE, ()),),
        detail=HOSTILE,
    )
    item = Item(f"a\n{HOSTILE}.py", finding, None, f"x = '{HOSTILE}'", (HOSTILE, None))
    return Report((FileResult(f"{HOSTILE}.py", (item,), diff=f"+{HOSTILE}\n"),))


@pytest.mark.parametrize("name", ["text", "summary", "github", "json", "sarif"])
@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_no_format_lets_through_what_steers_a_terminal(
    name: str, stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = render(report(), name, stream())
    rest = COLOUR.sub("", shown)
    assert not STEERING.search(rest)
    assert {*COLOUR.findall(shown)} <= {"\x1b[0m", "\x1b[1m", "\x1b[1;33m", "\x1b[34m"}
    assert stream is Terminal or shown == rest


def test_a_name_or_a_message_cannot_begin_a_line_of_its_own() -> None:
    first = render(report(), "text", io.StringIO()).splitlines()[0]
    assert first.startswith("a\\n")
    assert "warning[DG904]" in first


def test_a_difference_is_exact_for_patch_and_plain_on_a_terminal() -> None:
    assert diffs(report(), io.StringIO()) == f"+{HOSTILE}\n"
    assert not STEERING.search(diffs(report(), Terminal()))


def test_a_problem_is_told_with_the_name_of_the_file_spelt_out(cli: Cli) -> None:
    cli.write("a\x1b[2J\nb.py", b"\x00")
    problem = cli("check", ".").err
    assert problem == "drygrad: a\\x1b[2J\\nb.py: this is a binary file\n"


@given(st.text())
def test_only_our_own_colours_stay(text: str) -> None:
    kept = coloured(f"{painted('a', '1;31')}{text}")
    assert not STEERING.search(COLOUR.sub("", kept))
    assert plain(text).count("\n") == text.count("\n")
    assert "\n" not in one_line(text)
