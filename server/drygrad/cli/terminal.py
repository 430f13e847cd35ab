"""Text on a terminal: what a program, a file name or a run brought must not steer it.

Control characters can clear the screen, set its title or hide lines; directional ones can show code in another order
than it runs in. They are shown as Python would spell them.
"""

from __future__ import annotations

import re
from pathlib import Path

_OURS = re.compile(r"(\x1b\[(?:0|34|1|1;3[1-6])m)")
"""The colours that the formats themselves write."""

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029"
_DIRECTION = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_STEERS = re.compile(f"[{_CONTROL}{_DIRECTION}]")
_STEERS_OR_ENDS = re.compile(f"[{_CONTROL}{_DIRECTION}\n]")


def painted(text: str, style: str) -> str:
    """Return a text in a terminal's colour."""
    return f"\x1b[{style}m{text}\x1b[0m"


def plain(text: str) -> str:
    """Return a text with every character that steers a terminal spelt out; lines and tabs stay."""
    return _STEERS.sub(_spelt, text)


def one_line(text: str) -> str:
    """Return a text, such as a file's name, with its line ends spelt out, too."""
    return _STEERS_OR_ENDS.sub(_spelt, text)


def coloured(text: str) -> str:
    """Return a text of which nothing steers a terminal but the colours that ``painted`` gave it."""
    pieces = _OURS.split(text)
    return "".join(piece if number % 2 else plain(piece) for number, piece in enumerate(pieces))


def from_here(path: Path) -> str:
    """Return a path as users see it who are in the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def steers(character: str) -> bool:
    """Say whether a character steers a terminal."""
    return _STEERS.match(character) is not None


def _spelt(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")
