"""Markdown made of what runs and programs say: it is shown, and means nothing.

A picture's address is fetched as soon as a hover opens: whatever a run read could leave the machine with it.
"""

from __future__ import annotations

import re

_MEANS_SOMETHING = re.compile(r"[\\`<]|(?<=!)\[|(?<=\])[(\[:]")
"""Begins code, HTML, a picture, a link's address. Brackets alone, as around sizes, stay readable in plain editors."""

_BACKTICKS = re.compile(r"`+")


def escaped(text: str) -> str:
    """Return a text as one line of Markdown that shows it."""
    return _MEANS_SOMETHING.sub(r"\\\g<0>", _one_line(text))


def code(text: str) -> str:
    """Return a text as inline code."""
    shown = _one_line(text)
    fence = "`" * (1 + max((len(ticks) for ticks in _BACKTICKS.findall(shown)), default=0))
    room = " " if "`" in shown else ""
    return f"{fence}{room}{shown}{room}{fence}"


def with_code(sentence: str) -> str:
    """Return a sentence as Markdown; what stands between two backticks is code, and the rest is text."""
    return "".join(
        (code(part) if part else "") if n % 2 else escaped(part) for n, part in enumerate(sentence.split("`"))
    )


def _one_line(text: str) -> str:
    return " ".join(text.split("\n")).replace("\r", " ")
