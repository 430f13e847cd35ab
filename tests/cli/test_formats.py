"""The outputs: text with marks, JSON, SARIF, annotations."""

from __future__ import annotations

import io
import json

import pytest
from cli_harness import Cli

from drygrad.cli.formats import wants_colour
from drygrad.cli.formats.text import WIDEST, Block, mark
from drygrad.cli.report import Item
from drygrad.model import Finding, Fix, Related, Span


def test_text_shows_the_line_the_mark_what_is_related_and_the_fixes(cli: Cli) -> None:
    cli.write("a.py", "first = 1\nx = bad\nmeh\n")
    assert cli("check", "a.py").out == (
        "a.py:2:5: warning[DG904]: the word bad (bad-word)\n"
        "2 | x = bad\n"
        "  |     ^^^\n"
        "  = it begins here:\n"
        "1 | first = 1\n"
        "  | -\n"
        "  = fix (safe, --fix): Write good\n"
        "\n"
        "a.py:3:1: hint[DG904]: the word meh (meh-word)\n"
        "3 | meh\n"
        "  | ^^^\n"
        "  = it begins here:\n"
        "1 | first = 1\n"
        "  | -\n"
        "\n"
        "Found 1 warning, 1 hint in 1 file; 1 fixable with --fix.\n"
    )


@pytest.mark.parametrize(
    ("line", "start", "end", "shown", "offset", "width"),
    [
        ("x = bad", 4, 7, "x = bad", 4, 3),
        ("\tx = bad", 5, 8, "    x = bad", 8, 3),
        ("ab\tbad", 3, 6, "ab  bad", 4, 3),
        ("日本 = bad", 5, 8, "日本 = bad", 7, 3),
        ("x = '日本'", 4, 8, "x = '日本'", 4, 6),
        ("e\u0301 = bad", 5, 8, "e\u0301 = bad", 4, 3),
        ("x\x1b[31m = bad", 9, 12, "x·[31m = bad", 9, 3),
        ("x", 1, 1, "x", 1, 1),
    ],
)
def test_marks_stand_under_what_they_mark(line: str, start: int, end: int, shown: str, offset: int, width: int) -> None:
    assert mark(line, start, end) == (shown, offset, width)


def test_long_lines_are_cut_around_the_mark() -> None:
    line = "x" * 2_500 + "bad" + "y" * 2_500
    shown, offset, width = mark(line, 2_500, 2_503)
    assert len(shown) <= WIDEST + 2
    assert shown[offset : offset + width] == "bad"
    assert (shown[0], shown[-1]) == ("…", "…")


def test_a_mark_longer_than_the_window_is_cut() -> None:
    shown, offset, width = mark("x" * 5_000, 10, 4_990)
    assert offset + width <= len(shown)


def test_what_lies_in_other_files_is_named() -> None:
    related = (Related("defined here", Span.of(3, 0, 3, 4), "b.py"),)
    fix = Fix("Do it", (), "unsafe", verified=True)
    finding = Finding("DG101", "x", "m", "error", Span.of(1, 0, 2, 1), related, (fix,), detail="torch\nsaid so")
    lines = list(Block(Item("a.py", finding, None, "x = (", (None,)), coloured=False).lines())
    assert "1 | x = (" in lines
    assert "  | ^^^^^" in lines
    assert "  = b.py:3:1: defined here" in lines
    assert "  = said so" in lines
    assert "  = fix (verified, unsafe, --unsafe-fixes): Do it" in lines


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour(Terminal())
    assert not wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())


def test_coloured_text_says_the_same() -> None:
    finding = Finding("DG101", "x", "m", "error", Span.of(1, 0, 1, 1))
    item = Item("a.py", finding, None, "x")
    coloured = "\n".join(Block(item, coloured=True).lines())
    assert "\x1b[1;31m" in coloured


def test_json_keeps_its_schema(cli: Cli) -> None:
    cli.write("a.py", "x = '😀', bad\n")
    outcome = cli("check", "a.py", "--output-format", "json")
    place = {"path": "a.py", "start": {"line": 1, "column": 10}, "end": {"line": 1, "column": 13}}
    begin = {"path": "a.py", "start": {"line": 1, "column": 1}, "end": {"line": 1, "column": 2}}
    assert json.loads(outcome.out) == {
        "version": 1,
        "findings": [
            {
                "code": "DG904",
                "name": "bad-word",
                "message": "the word bad",
                "detail": None,
                "severity": "warning",
                **place,
                "cell": None,
                "witness": "static",
                "status": "possible",
                "run": None,
                "related": [{"message": "it begins here", **begin}],
                "fixes": [
                    {
                        "title": "Write good",
                        "safety": "safe",
                        "verified": None,
                        "edits": [{**place, "new_text": "good"}],
                    }
                ],
            }
        ],
        "runs": [],
    }


def test_json_of_nothing_is_an_object(cli: Cli) -> None:
    cli.write("a.py", "")
    assert json.loads(cli("check", "a.py", "--output-format", "json").out) == {"version": 1, "findings": [], "runs": []}


def test_github_commands_are_escaped(cli: Cli) -> None:
    cli.write("a,b.py", "x\nbad\n")
    assert cli("check", ".", "--output-format", "github").out == (
        "::warning file=a%2Cb.py,line=2,endLine=2,col=1,endColumn=3,title=DG904 bad-word::the word bad\n"
    )


def test_sarif_refers_to_rules_files_and_places(cli: Cli) -> None:
    cli.write("my file.py", "bad, worse\n")
    document = json.loads(cli("check", ".", "--output-format", "sarif").out)
    (run,) = document["runs"]
    assert document["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["DG904", "DG906"]
    first, second = run["results"]
    assert (first["ruleId"], first["ruleIndex"], first["level"]) == ("DG904", 0, "warning")
    assert (second["ruleIndex"], second["level"]) == (1, "error")
    location = first["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "my%20file.py"
    assert location["region"] == {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 4}
    change = first["fixes"][0]["artifactChanges"][0]
    assert change["replacements"][0]["insertedContent"] == {"text": "good"}
