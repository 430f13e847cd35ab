"""What the pages of the site show is what the program prints: their files are written, their commands are run."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from cli_harness import ROOT, run_program

PAGES = ("tutorial.md",)
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
LEFT_OUT = "...\n"
TAKEN = re.compile(r" in \d+(?:\.\d+)? m?s\b")
"""What runs took; it is not compared."""


def options(command: str, shown: str) -> list[str]:
    """Return a shown command's arguments, with this interpreter, no GPU, and time on a busy machine."""
    words = shlex.split(command)
    if words[0] != "run":
        return words
    times = ["--experiment-time", "60" if "  held " in shown else "0", "--verify-time", "60", "--timeout", "60"]
    return ["run", "--device", "sim", "--python", sys.executable, *times, *words[1:]]


def pattern(shown: str) -> str:
    """Return a regular expression of an output, whose lines may be left out where it says ``...``."""
    return (
        re.escape(TAKEN.sub(" in N s", shown)).replace(re.escape(LEFT_OUT), "(?s:.*?)").replace("2\\.13\\.0", r"[\d.]+")
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_what_its_commands_print(name: str, tmp_path: Path) -> None:
    compared = 0
    for language, file, text in BLOCK.findall((ROOT / "docs" / name).read_text(encoding="utf-8")):
        if file:
            (tmp_path / file).write_text(text, encoding="utf-8")
        elif language == "console" and text.startswith("$ drygrad "):
            command, _, shown = text.removeprefix("$ drygrad ").partition("\n")
            printed = TAKEN.sub(" in N s", run_program(*options(command, shown), cwd=tmp_path).out)
            assert re.fullmatch(pattern(shown), printed), printed
            compared += 1
    assert compared


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))]
    assert [link for link in links if link and "://" not in link and not (page.parent / link).exists()] == []
