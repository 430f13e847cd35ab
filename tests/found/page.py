"""Read docs/found.md: each section has a fault, the program that proves it, and what mends it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "found.md"
_HEADING = re.compile(
    r"^### (?P<package>\S+) (?P<version>\S+), `(?P<path>[^`]+)` line (?P<lines>\d+(?:(?:, | and )\d+)*)$"
)
_SAID = re.compile(r"^\[(?P<code>DG\d+)\]\(rules/DG\d+\.md\): \*(?P<message>.+)\*$", re.MULTILINE)
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NEEDS = re.compile(r"^# needs: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Proof:
    """One section of the page."""

    package: str
    version: str
    path: str
    lines: tuple[int, ...]
    code: str
    message: str
    program: str
    ends_with: str
    """The error by which the program ends, or the beginning of it."""
    diff: str
    """What mends it; empty where the fix that drygrad offers does."""

    @property
    def name(self) -> str:
        """Return what tells it from the others."""
        return f"{self.package} {self.path}:{self.lines[0]}"

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the requirements of this program alone, which others could not live with."""
        found = _NEEDS.search(self.program)
        return tuple(found.group(1).split()) if found else ()


def proofs(page: str) -> list[Proof]:
    """Return what the page proves, in its order."""
    return [_proof(section) for section in re.split(r"^(?=### )", page, flags=re.MULTILINE)[1:]]


def _proof(section: str) -> Proof:
    heading, said = _HEADING.match(section.splitlines()[0]), _SAID.search(section)
    blocks = {block["language"]: block["text"] for block in _BLOCK.finditer(section)}
    if heading is None or said is None or not {"python", "text"} <= blocks.keys():
        raise ValueError(f"not the form of a proof: {section.splitlines()[0]}")
    lines = tuple(int(number) for number in re.findall(r"\d+", heading["lines"]))
    return Proof(
        package=heading["package"],
        version=heading["version"],
        path=heading["path"],
        lines=lines,
        code=said["code"],
        message=said["message"],
        program=blocks["python"],
        ends_with=blocks["text"].strip(),
        diff=blocks.get("diff", ""),
    )


def mended(text: str, diff: str) -> str:
    """Return the text with each removed piece of the diff, whole lines, replaced by the added one that follows it."""
    pieces = re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)*)", diff, re.MULTILINE)
    for removed, added in pieces:
        old, new = _without_marks(removed), _without_marks(added)
        text, times = re.subn("^" + re.escape(old), new.replace("\\", r"\\"), text, flags=re.MULTILINE)
        if not times:
            raise ValueError(f"the text has no {old!r}")
    return text


def _without_marks(lines: str) -> str:
    return "".join(line[1:] for line in lines.splitlines(keepends=True))
