"""The texts of the extension of VS Code: those that can be translated, and those that stand outside by mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

EXTENSION = Path(__file__).resolve().parents[1] / "editor-client" / "vscode"

_SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_TRANSLATED = re.compile(r"\bt\(\s*$")
_FOR_US = re.compile(r"\blog\.\w+\($|\bnew Error\($|\bclass: [^,]*$")
_NAMES = frozenset({"Scripts"})
"""Of folders and the like."""
_PROSE = re.compile(r"[A-Za-z]{2,}[,.:;]? +[a-z(]+|^[A-Z][a-z]+[ …]*$|^[a-z]{3,} $|^ [a-z]{3,} ?$")
_CODE = ("<!doctype html>", "<link ", "import ")

Literal = tuple[str, str]
"""The code before a literal on its way from the last one, and its text."""


def sources() -> list[Path]:
    """Return the extension's own sources."""
    return sorted((EXTENSION / "src").rglob("*.ts"))


def texts() -> dict[str, str]:
    """Return the bundle of English: each text by itself."""
    literals = (literal for path in sources() for literal in _literals(path.read_text(encoding="utf-8")))
    return {text: text for text in sorted({_plain(text) for before, text in literals if _TRANSLATED.search(before)})}


def loose(code: str) -> list[str]:
    """Return what reads like a text for users and is not given to be translated."""
    shown = ((b, text) for b, text in _literals(code) if not (_TRANSLATED.search(b) or _FOR_US.search(b)))
    return [text for _, text in shown if _PROSE.search(text) and text not in _NAMES and not text.startswith(_CODE)]


def _plain(text: str) -> str:
    return text.replace('\\"', '"').replace("\\n", "\n")


def _literals(code: str) -> Iterator[Literal]:
    """Yield the string literals, and what templates say around their values; the values are code again."""
    before = at = 0
    while at < len(code):
        if skipped := _SKIPPED.match(code, at):
            at = skipped.end()
        elif quoted := _QUOTED.match(code, at):
            yield code[before:at], quoted[0][1:-1]
            before = at = quoted.end()
        elif code[at] == "`":
            end, text, values = _template(code, at + 1)
            yield code[before:at], text
            for value in values:
                yield from _literals(value)
            before = at = end
        else:
            at += 1


def _template(code: str, at: int) -> tuple[int, str, list[str]]:
    """Return where a template ends, its text without values, and the values."""
    text: list[str] = []
    values: list[str] = []
    while at < len(code) and code[at] != "`":
        if code.startswith("${", at):
            end = _value_end(code, at + 2)
            values.append(code[at + 2 : end])
            at = end + 1
        else:
            text.append(code[at])
            at += 1
    return at + 1, "".join(text), values


def _value_end(code: str, at: int) -> int:
    """Return where the braces of a value close."""
    depth = 1
    while at < len(code):
        if code[at] == "`":
            at = _template(code, at + 1)[0]
            continue
        if quoted := _QUOTED.match(code, at):
            at = quoted.end()
            continue
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return at
        at += 1
    return at
