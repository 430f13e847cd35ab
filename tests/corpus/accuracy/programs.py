"""The programs of the corpus, and what their comments say of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1]
HELD_OUT = "heldout"
SETS = ("blind", "informed", HELD_OUT)

HEADER = re.compile(r"^# (?P<key>target|gpu-memory|source|truth): (?P<value>.*)$")
CONTINUED = re.compile(r"^#   (?P<value>\S.*)$")
TRUTH = re.compile(r"\s*# (?:error: (?P<codes>DG\d{3}(?:\|DG\d{3})*)|fault: no rule)$")
ALLOWED = re.compile(r"\s*# allowed: (?P<codes>DG\d{3}(?:, DG\d{3})*)(?: \(.+\))?$")

SCRIPT = "script"
"""The target that is the whole file: all of its functions that get inputs, then the script."""


@dataclass(frozen=True)
class Program:
    """A program as it is examined: its text without the comments about it, lines as they were."""

    path: Path
    text: str
    target: str | None
    gpu_memory: int | None
    allowed: frozenset[tuple[int, str]]


@dataclass(frozen=True)
class Case:
    """A faulty program with its repaired twin, and the truth: the culprit's line, and the codes that describe it.

    No codes: no rule describes the fault.
    """

    name: str
    faulty: Program
    fixed: Program
    line: int
    codes: frozenset[str]
    truth: str

    @property
    def family(self) -> str:
        """The kind of fault, as its author sorted it."""
        return self.name.split("/")[1]

    @property
    def origin(self) -> str:
        """The set that the case belongs to."""
        return self.name.split("/")[0]


def cases(corpus: Path = CORPUS) -> list[Case]:
    """Return all cases, in the order of the report."""
    return [_case(path, corpus) for origin in SETS for path in _faulty(corpus / origin)]


def _faulty(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("*/*.py")) if not path.stem.endswith("_fixed"))


def _case(path: Path, corpus: Path) -> Case:
    lines = path.read_text(encoding="utf-8").splitlines()
    marked = [(number, found) for number, line in enumerate(lines, 1) if (found := TRUTH.search(line))]
    if len(marked) != 1:
        raise ValueError(f"{path}: {len(marked)} lines say what the fault is, expected 1")
    [(line, found)] = marked
    codes = frozenset((found["codes"] or "").split("|")) - {""}
    return Case(
        path.relative_to(corpus).with_suffix("").as_posix(),
        _program(path),
        _program(path.with_name(f"{path.stem}_fixed.py")),
        line,
        codes,
        _header(lines)["truth"],
    )


def _program(path: Path) -> Program:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    header = _header(lines)
    if "target" not in header:
        raise ValueError(f"{path}: no comment names the target")
    target = header["target"]
    allowed = {
        (number, code)
        for number, line in enumerate(lines, 1)
        if (found := ALLOWED.search(line))
        for code in found["codes"].split(", ")
    }
    return Program(
        path,
        _plain(lines),
        None if target == SCRIPT else target,
        _bytes(header.get("gpu-memory")),
        frozenset(allowed),
    )


def _bytes(size: str | None) -> int | None:
    return int(size[:-3]) << {"MiB": 20, "GiB": 30}[size[-3:]] if size else None


def _header(lines: list[str]) -> dict[str, str]:
    """Return what the comments at the top say, by their keys."""
    header: dict[str, str] = {}
    key = ""
    for line in lines:
        if found := HEADER.match(line):
            key = found["key"]
            header[key] = found["value"]
        elif key and (more := CONTINUED.match(line)):
            header[key] += f" {more['value']}"
        else:
            break
    return header


def _plain(lines: list[str]) -> str:
    """Return a program without what the corpus says of it; no line moves."""
    length = 0
    while length < len(lines) and (HEADER.match(lines[length]) or (length and CONTINUED.match(lines[length]))):
        length += 1
    body = (ALLOWED.sub("", TRUTH.sub("", line)) for line in lines[length:])
    return "".join(f"{line}\n" for line in (*[""] * length, *body))
