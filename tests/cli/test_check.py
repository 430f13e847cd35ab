"""``drygrad check``: what is reported, with which status, and what is said when it cannot be done."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from cli_harness import Cli


@pytest.mark.parametrize(
    ("text", "options", "status"),
    [
        ("x = 1\n", [], 0),
        ("bad\n", [], 1),
        ("worse\n", [], 1),
        ("meh\n", [], 0),
        ("meh\n", ["--fail-on", "hint"], 1),
        ("bad\n", ["--fail-on", "error"], 0),
        ("bad\n", ["--ignore", "DG904"], 0),
        ("bad\n", ["--select", "DG906"], 0),
        ("bad\n", ["--ignore", "DG0"], 2),
        ("bad\n", ["--fail-on", "never"], 2),
        ("bad\n", ["--jobs", "0"], 2),
        ("bad\n", ["--diff", "--output-format", "json"], 2),
    ],
)
def test_the_exit_status(cli: Cli, text: str, options: list[str], status: int) -> None:
    cli.write("a.py", text)
    assert cli("check", "a.py", *options).status == status


def test_without_paths_the_folder_is_checked(cli: Cli) -> None:
    cli.write("pkg/a.py", "bad\n")
    assert [f["path"] for f in cli("check", "--output-format", "json").findings] == ["pkg/a.py"]


def test_a_file_given_twice_is_checked_once(cli: Cli) -> None:
    cli.write("a.py", "bad\n")
    assert len(cli("check", "a.py", ".", "a.py", "--output-format", "json").findings) == 1


def test_syntax_errors_are_findings(cli: Cli) -> None:
    cli.write("a.py", "x = (\n")
    outcome = cli("check", "a.py", "--output-format", "json")
    assert outcome.status == 1
    assert [(f["code"], f["severity"], f["start"]) for f in outcome.findings] == [
        ("DG906", "error", {"line": 1, "column": 5})
    ]
    assert cli("check", "a.py", "--ignore", "DG906").status == 0


def test_settings_of_the_nearest_project_hold(cli: Cli) -> None:
    cli.write("pyproject.toml", '[tool.drygrad]\nignore = ["DG904"]\nper-file-ignores = { "gen.py" = ["DG906"] }\n')
    cli.write("a.py", "bad\nworse\n")
    cli.write("gen.py", "worse\n")
    cli.write("inner/pyproject.toml", '[tool.drygrad]\nseverity = { DG904 = "info" }\n')
    cli.write("inner/b.py", "bad\n")
    found = cli("check", ".", "--output-format", "json").findings
    assert [(f["path"], f["code"], f["severity"]) for f in found] == [
        ("a.py", "DG906", "error"),
        ("inner/b.py", "DG904", "info"),
    ]


def test_broken_settings_are_said_where_they_stand_and_the_files_are_checked(cli: Cli) -> None:
    cli.write("pyproject.toml", "[tool.drygrad]\nselekt = []\n")
    cli.write("a.py", "bad\n")
    outcome = cli("check", "a.py")
    assert outcome.status == 2
    assert "pyproject.toml:2:1: unknown setting `selekt`; did you mean `select`?" in outcome.err
    assert "the word bad" in outcome.out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.py", None, "no such file or folder"),
        ("binary.py", b"\x7fELF\x00\x01", "this is a binary file"),
        ("latin.py", b"x = '\xff'\n", "cannot decode"),
        ("cookie.py", b"# coding: klingon\n", "cannot decode"),
        ("huge.py", b"x = 1\n" * 1_700_000, "drygrad reads up to"),
        ("nested.py", b"x = " + b"-" * 100_000 + b"1\n", "nested too deeply"),
        ("deep.py", b"deep\n", "nested too deeply"),
        ("crash.py", b"crash\n", "internal error, please report it: ValueError: a bug in a rule"),
        ("broken.ipynb", b"{", "not a notebook"),
        ("old.ipynb", b'{"worksheets": []}', "not a notebook of format 4"),
    ],
)
def test_what_cannot_be_checked_is_said_and_the_rest_is_checked(
    cli: Cli, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        cli.write(name, content)
    cli.write("other.py", "bad\n")
    outcome = cli("check", name, "other.py")
    assert outcome.status == 2
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"drygrad: {name}: ")
    assert message in line
    assert "Traceback" not in outcome.err
    assert "other.py:1:1: warning[DG904]" in outcome.out
    assert "in 1 file;" in outcome.out or name == "missing.py"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(cli: Cli) -> None:
    cli.write("a.py", "bad\n").chmod(0)
    assert "cannot read: Permission denied" in cli("check", "a.py").err


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no endless file here")
def test_an_endless_file_is_refused(cli: Cli) -> None:
    assert "/dev/zero: cannot read: not a regular file" in cli("check", "/dev/zero").err


def test_a_huge_file_is_refused(cli: Cli) -> None:
    with cli.write("a.py", "").open("wb") as file:
        file.truncate((64 << 20) + 1)
    assert "more than 64 MiB" in cli("check", "a.py").err


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are no files there")
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_pipe_keeps_nobody_waiting(cli: Cli, command: str) -> None:
    os.mkfifo(cli.folder / "a.py")
    os.mkfifo(cli.folder / ".gitignore")
    outcome = cli(command, "a.py")
    assert (outcome.status, "a.py: cannot read: not a regular file" in outcome.err) == (2, True)
    assert cli("check", ".").out.startswith("Found nothing in 0 files")


@pytest.mark.parametrize("encoding", ["undefined", "idna", "punycode", "rot13", "hex", "zlib", "nonsense"])
@pytest.mark.parametrize("command", ["check", "run"])
def test_an_encoding_that_decodes_nothing(cli: Cli, command: str, encoding: str) -> None:
    cli.write("a.py", f"# coding: {encoding}\nbad = '\xe4'\n".encode("latin-1"))
    outcome = cli(command, "a.py")
    assert outcome.status == 2
    assert outcome.err.startswith("drygrad: a.py: cannot decode: ")


def test_a_broken_link_is_said(cli: Cli) -> None:
    (cli.folder / "a.py").symlink_to("nowhere.py")
    outcome = cli("check", "a.py")
    assert (outcome.status, "cannot read" in outcome.err) == (2, True)


def test_stdin_has_the_name_and_the_settings_it_is_given(cli: Cli) -> None:
    cli.write("pyproject.toml", '[tool.drygrad]\nper-file-ignores = { "gen.py" = ["DG9"] }\n')
    named = cli("check", "-", "--stdin-filename", "a.py", "--output-format", "json", stdin=b"bad\n")
    assert (named.status, [f["path"] for f in named.findings]) == (1, ["a.py"])
    assert cli("check", "-", "--stdin-filename", "gen.py", stdin=b"bad\n").status == 0
    assert "<stdin>:1:1" in cli("check", "-", stdin=b"bad\n").out


def test_many_files_in_processes_give_the_same_report_as_one_by_one(cli: Cli) -> None:
    for number in range(40):
        cli.write(f"f{number:02}.py", "bad\n" if number % 3 else "worse = (\n")
    one = cli("check", ".", "--jobs", "1", "--output-format", "json")
    two = cli("check", ".", "--jobs", "2", "--output-format", "json")
    assert one.status == two.status == 1
    assert one.out == two.out
    assert [f["path"] for f in one.findings] == sorted(f"f{number:02}.py" for number in range(40))


def test_quiet_says_nothing_of_nothing(cli: Cli) -> None:
    cli.write("a.py", "x = 1\n")
    assert cli("check", "a.py", "-q").out == ""
    assert cli("check", "a.py").out == "Found nothing in 1 file.\n"


def test_a_folder_without_files_is_mentioned_with_what_leaves_them_out(cli: Cli) -> None:
    cli.write("pkg/made/a.py", "bad\n")
    cli.write("pkg/third/b.py", "bad\n")
    cli.write("bare/c.txt", "bad\n")
    cli.write(".git/HEAD", "")
    cli.write(".gitignore", "made/\n")
    cli.write("pyproject.toml", '[tool.drygrad]\nexclude = ["third"]\n')
    empty = cli("check", "pkg")
    assert (empty.status, empty.out) == (0, "Found nothing in 0 files.\n")
    assert empty.err == (
        "drygrad: pkg: no Python file or notebook to check; "
        "left out by .gitignore (--no-gitignore) and `exclude` in pyproject.toml\n"
    )
    assert cli("check", "pkg", "-q").err == ""
    assert cli("check", "pkg", "--no-gitignore").err == ""
    assert cli("check", "bare").err == "drygrad: bare: no Python file or notebook to check\n"


def test_what_is_named_is_checked_unless_exclusion_is_forced(cli: Cli) -> None:
    cli.write("third/a.py", "bad\n")
    cli.write("pyproject.toml", '[tool.drygrad]\nexclude = ["third"]\n')
    for named in ("third", "third/a.py"):
        assert cli("check", named).status == 1
        forced = cli("check", named, "--force-exclude")
        assert (forced.status, forced.out) == (0, "Found nothing in 0 files.\n")
        assert "left out by `exclude` in pyproject.toml" in forced.err
        assert cli("check", named, "--force-exclude", "--quiet").err == ""


def test_baseline_leaves_out_what_it_knows(cli: Cli) -> None:
    cli.write("pkg/a.py", "def f():\n    bad\n    bad\n")
    assert cli("check", ".", "--write-baseline").status == 2
    written = cli("check", ".", "--write-baseline", "--baseline", "known.json")
    assert (written.status, "2 known findings written" in written.err) == (0, True)
    known = cli("check", ".", "--baseline", "known.json")
    assert (known.status, known.out) == (0, "Found nothing in 1 file; 2 known from the baseline.\n")
    cli.write("pkg/a.py", "\n\n\ndef g():\n  bad\n  bad\n  bad\n  bad, 1\n")
    again = cli("check", ".", "--baseline", "known.json", "--output-format", "json")
    assert [f["start"]["line"] for f in again.findings] == [7, 8]
    cli.write("pyproject.toml", '[tool.drygrad]\nbaseline = "known.json"\n')
    assert len(cli("check", "pkg/a.py", "--output-format", "json").findings) == 2
    assert len(cli("check", "pkg/a.py", "--output-format", "json", "--no-baseline").findings) == 4


def test_a_baseline_is_sorted_and_written_where_the_setting_says(cli: Cli) -> None:
    cli.write("pyproject.toml", '[tool.drygrad]\nbaseline = "known.json"\n')
    cli.write("b.py", "bad\n")
    cli.write("a.py", "worse\nbad\n")
    assert cli("check", ".", "--write-baseline").status == 0
    entries = json.loads((cli.folder / "known.json").read_text())["findings"]
    assert [(e["path"], e["code"], e["count"]) for e in entries] == [
        ("a.py", "DG904", 1),
        ("a.py", "DG906", 1),
        ("b.py", "DG904", 1),
    ]
    before = (cli.folder / "known.json").read_text()
    assert cli("check", ".", "--write-baseline").status == 0
    assert (cli.folder / "known.json").read_text() == before


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 1}', '{"version": 9, "findings": []}', '{"version": 1, "findings": [1]}']
)
def test_a_broken_baseline_is_said(cli: Cli, text: str) -> None:
    cli.write("known.json", text)
    cli.write("a.py", "bad\n")
    outcome = cli("check", "a.py", "--baseline", "known.json")
    assert (outcome.status, outcome.err.startswith("drygrad: known.json: ")) == (2, True)


def test_known_findings_are_not_fixed(cli: Cli) -> None:
    path: Path = cli.write("a.py", "bad\n")
    cli("check", "a.py", "--write-baseline", "--baseline", "known.json")
    cli("check", "a.py", "--fix", "--baseline", "known.json")
    assert path.read_text() == "bad\n"
