"""``--fix``, ``--unsafe-fixes`` and ``--diff``: what is written, and what stays as it was."""

from __future__ import annotations

import codecs
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from cli_harness import Cli

from drygrad.files import write_atomically


def test_safe_fixes_are_applied_and_counted(cli: Cli) -> None:
    path = cli.write("a.py", "bad, worse\n")
    outcome = cli("check", "a.py", "--fix")
    assert path.read_text() == "good, worse\n"
    assert outcome.status == 1
    assert "Applied 1 fix. Found 1 error in 1 file; 1 fixable with --unsafe-fixes." in outcome.out


def test_unsafe_fixes_are_applied_on_request(cli: Cli) -> None:
    path = cli.write("a.py", "bad, worse\n")
    assert cli("check", "a.py", "--unsafe-fixes").status == 0
    assert path.read_text() == "good, better\n"


def test_fixing_twice_is_fixing_once(cli: Cli) -> None:
    path = cli.write("a.py", "bad\nbad\n")
    cli("check", "a.py", "--fix")
    once, changed = path.read_bytes(), path.stat().st_mtime_ns
    assert cli("check", "a.py", "--fix").out == "Found nothing in 1 file.\n"
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (once, changed)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"x = 1\r\nbad\r\n", b"x = 1\r\ngood\r\n"),
        (codecs.BOM_UTF8 + b"bad\n", codecs.BOM_UTF8 + b"good\n"),
        (b"# coding: latin-1\ny = '\xe9', bad", b"# coding: latin-1\ny = '\xe9', good"),
        ("z = '😀', bad\n".encode(), "z = '😀', good\n".encode()),
        (b"x = 1\rbad\r", b"x = 1\rgood\r"),
        (b"\x0cx = 1\nbad\n", b"\x0cx = 1\ngood\n"),
    ],
)
def test_line_ends_encoding_and_bom_stay(cli: Cli, before: bytes, after: bytes) -> None:
    path = cli.write("a.py", before)
    cli("check", "a.py", "--fix")
    assert path.read_bytes() == after


def test_permissions_and_links_stay(cli: Cli) -> None:
    real = cli.write("real.py", "bad\n")
    real.chmod(0o754)
    link = cli.folder / "link.py"
    link.symlink_to("real.py")
    cli("check", "link.py", "--fix")
    assert link.is_symlink()
    assert real.read_text() == "good\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o754
    assert sorted(path.name for path in cli.folder.iterdir()) == ["link.py", "real.py"]


@pytest.mark.parametrize("link", ["link.py", "."])
def test_a_link_out_of_the_project_is_not_written_through(
    cli: Cli, tmp_path_factory: pytest.TempPathFactory, link: str
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "settings.py"
    outside.write_text("bad\n")
    (cli.folder / "link.py").symlink_to(outside)
    outcome = cli("check", link, "--fix")
    assert outside.read_text() == "bad\n"
    assert outcome.status == 2
    assert f"link.py: cannot write: it is a link to {outside.resolve()}, outside of the project" in outcome.err
    assert "link.py:1:1: warning[DG904]" in outcome.out, "what was found is shown all the same"


def test_a_file_that_cannot_be_written_stays_whole(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = cli.write("a.py", "bad\n")
    monkeypatch.setattr(Path, "chmod", fail)  # what is written is whole by then, and lies beside the file
    outcome = cli("check", "a.py", "--fix")
    assert (outcome.status, "a.py: cannot write: No space left on device" in outcome.err) == (2, True)
    assert path.read_text() == "bad\n"
    assert [entry.name for entry in cli.folder.iterdir()] == ["a.py"]


def test_a_fix_that_breaks_the_syntax_is_not_written(cli: Cli) -> None:
    path = cli.write("a.py", "del bad, x\nif x: worse\n")
    path.write_text("class A:\n    def good(bad, good): pass\n    bad\n")
    before = path.read_text()
    cli("check", "a.py", "--fix")
    compile(path.read_text(), "a.py", "exec", dont_inherit=True, flags=0x400)
    assert path.read_text() != before


def test_diff_writes_nothing_and_shows_what_would_change(cli: Cli) -> None:
    path = cli.write("a.py", "x = 1\nbad")
    outcome = cli("check", "a.py", "--diff")
    assert path.read_text() == "x = 1\nbad"
    assert outcome.status == 1
    assert outcome.err.startswith("Would apply 1 fix; nothing is written. Found 1 warning in 1 file;")
    assert outcome.out == (
        "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x = 1\n-bad\n\\ No newline at end of file\n"
        "+good\n\\ No newline at end of file\n"
    )


def test_diff_of_nothing_is_empty(cli: Cli) -> None:
    cli.write("a.py", "x = 1\n")
    outcome = cli("check", "a.py", "--diff")
    assert (outcome.status, outcome.out) == (0, "")


def test_stdin_is_fixed_to_stdout(cli: Cli) -> None:
    outcome = cli("check", "-", "--fix", stdin=b"bad\r\n")
    assert (outcome.status, outcome.out) == (0, "good\r\n")
    assert "Applied 1 fix" in outcome.err
    assert cli("check", "-", "--fix", stdin=b"x = 1\n").out == "x = 1\n"


def notebook(*sources: str | list[str], **metadata: Any) -> str:
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "metadata": {}, "source": "# bad"}]
    for source in sources:
        cells.append({"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source})
    document = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def test_findings_of_a_notebook_are_in_their_cells(cli: Cli) -> None:
    cli.write("a.ipynb", notebook("x = 1\n", ["%matplotlib inline\n", "y = 'é', bad"], "%%bash\nbad\n"))
    (found,) = cli("check", ".", "--output-format", "json").findings
    assert (found["cell"], found["start"], found["end"]) == (3, {"line": 2, "column": 10}, {"line": 2, "column": 13})
    assert found["fixes"][0]["edits"][0]["start"] == {"line": 2, "column": 10}
    assert found["related"][0]["message"].endswith("(in cell 2)")
    text = cli("check", ".").out
    assert "a.ipynb:cell 3:2:10: warning[DG904]" in text
    assert "2 | y = 'é', bad\n" in text


def test_a_notebook_is_fixed_cell_by_cell_and_nothing_else_changes(cli: Cli) -> None:
    sources = ["!pip install bad\nbad", ["if 1:\n", "    %time bad\n", "    bad\n"], "x = !bad\n", "é"]
    path = cli.write("a.ipynb", notebook(*sources, kernelspec={"language": "python"}))
    before = path.read_text()
    cli("check", "a.ipynb", "--fix")
    assert path.read_text() == before.replace('bad\\nbad"', 'bad\\ngood"').replace('"    bad\\n"', '"    good\\n"')
    left = cli("check", "a.ipynb").out
    assert left.startswith(
        "a.ipynb:cell 3:2:11: warning[DG904]: the word bad (bad-word)\n2 |     %time bad\n  |           ^^^\n"
    )


def test_notebooks_in_other_languages_are_passed_over(cli: Cli) -> None:
    cli.write("a.ipynb", notebook("bad\n", language_info={"name": "R"}))
    assert cli("check", "a.ipynb").status == 0


def test_atomic_writing_keeps_the_old_file_until_the_new_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    inode = path.stat().st_ino
    write_atomically(path, b"new", within=tmp_path)
    assert path.read_bytes() == b"new"
    assert path.stat().st_ino != inode


def test_a_file_that_may_not_be_written_stays(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cli.write("a.py", "bad\n")
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", _refuse)  # root may write everything
    outcome = cli("check", "a.py", "--fix")
    assert (outcome.status, path.read_text()) == (2, "bad\n")
    assert "a.py: cannot write: Permission denied" in outcome.err


def _refuse(*_: object) -> bool:
    return False
