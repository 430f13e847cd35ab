"""``drygrad completion``, ``drygrad rules`` with a choice, and what a terminal is shown."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_harness import Cli, run_here

from drygrad.cli.formats import render, wants_colour, wants_links
from drygrad.cli.main import COMMANDS
from drygrad.cli.report import FileResult, Item, Report
from drygrad.documentation import page_of
from drygrad.model import Finding, Span

VARIABLES = "NO_COLOR FORCE_COLOR FORCE_HYPERLINK TMUX CI TERM_PROGRAM VTE_VERSION WT_SESSION KONSOLE_VERSION DOMTERM"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in VARIABLES.split():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return monkeypatch


def completed(script: str, line: str, folder: Path) -> set[str]:
    """Return what bash offers at the end of a line."""
    words = line.split(" ")
    ask = f"COMP_WORDS=({' '.join(words[:-1])} '{words[-1]}'); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'"
    program = f'{script}\n{ask}; COMP_POINT={len(line)}; _shtab_drygrad; printf "%s\\n" "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(["bash"], input=program, cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash_completes_commands_options_choices_and_files(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    script = run_here("completion", "bash", cwd=tmp_path).out
    assert completed(script, "drygrad ch", tmp_path) == {"check"}
    assert {"--select", "--seed", "--search-time"} == completed(script, "drygrad run --se", tmp_path)
    assert completed(script, "drygrad check --output-format s", tmp_path) == {"sarif"}
    assert completed(script, "drygrad run tr", tmp_path) == {"train.py"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_each_shell_is_told_of_each_command(cli: Cli, shell: str) -> None:
    outcome = cli("completion", shell)
    assert outcome.status == 0
    assert [name for name in COMMANDS if name not in outcome.out] == []


def test_rules_are_chosen_by_code_and_by_words(cli: Cli) -> None:
    def codes(*options: str) -> list[str]:
        return [rule["code"] for rule in json.loads(cli("rules", "--output-format", "json", *options).out)]

    assert codes("--select", "DG101,DG30") == [code for code in codes() if code == "DG101" or code.startswith("DG30")]
    found = codes("--search", "Softmax CROSS_ENTROPY")
    assert "DG304" in found
    assert len(found) < len(codes("--search", "softmax")) < len(codes())
    assert codes("--search", "softmax", "--select", "DG304") == ["DG304"]
    assert cli("rules", "--select", "DX").status == 2


@pytest.mark.parametrize(
    ("variables", "stream", "wanted"),
    [
        ({}, Terminal, True),
        ({}, io.StringIO, False),
        ({"FORCE_COLOR": "1"}, io.StringIO, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, Terminal, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, Terminal, False),
        ({"FORCE_COLOR": ""}, io.StringIO, False),
        ({"TERM": "dumb"}, Terminal, False),
    ],
)
def test_who_gets_colours(
    bare: pytest.MonkeyPatch, variables: dict[str, str], stream: type[io.StringIO], wanted: bool
) -> None:
    for name, value in variables.items():
        bare.setenv(name, value)
    assert wants_colour(stream()) == wanted


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"TERM_PROGRAM": "vscode"}, True),
        ({"TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"VTE_VERSION": "7200"}, True),
        ({"VTE_VERSION": "4800"}, False),
        ({"VTE_VERSION": "7200", "TMUX": "/tmp/x"}, False),
        ({"WT_SESSION": "1", "CI": "true"}, False),
        ({"FORCE_HYPERLINK": "1"}, True),
        ({"FORCE_HYPERLINK": "0", "TERM_PROGRAM": "vscode"}, False),
    ],
)
def test_which_terminals_get_links(bare: pytest.MonkeyPatch, variables: dict[str, str], wanted: bool) -> None:
    for name, value in variables.items():
        bare.setenv(name, value)
    assert wants_links(Terminal()) == wanted


def test_a_code_leads_to_its_page_and_nothing_else_is_a_link(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("FORCE_HYPERLINK", "1")
    text = "x  # drygrad: ignore[DG304]"
    finding = Finding("DG101", "a-name", "[DG102] is no code of ours", "error", Span.of(1, 0, 1, 1))
    report = Report((FileResult("a.py", (Item("a.py", finding, None, text, ()),)),))
    shown = render(report, "text", Terminal())
    assert f"\x1b]8;;{page_of('DG101')}\x1b\\DG101\x1b]8;;\x1b\\" in shown
    assert shown.count("\x1b]8;;http") == 1
    assert "\x1b]8" not in render(report, "text", io.StringIO())
