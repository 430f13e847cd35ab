"""The outputs of a check; each format is a module with ``render(report, coloured=...)``."""

from __future__ import annotations

import importlib
import os
import re
from typing import TextIO

from drygrad.cli.report import Report
from drygrad.cli.terminal import coloured, plain
from drygrad.documentation import page_of

_PAINTED_CODE = re.compile(r"(?<=\[)DG\d{3}(?=\]\x1b\[0m)")
"""Only we paint: what users write has no escapes by then."""
_LINKING = frozenset("iTerm.app WezTerm vscode ghostty Hyper mintty xterm-kitty xterm-ghostty foot alacritty".split())
_FIRST_VTE = 5000


def render(report: Report, name: str, stream: TextIO) -> str:
    """Return a report in one of the formats: text, summary, json, sarif, github; nothing in it steers a terminal."""
    module = importlib.import_module(f"{__name__}.{name}")
    in_colour = wants_colour(stream)
    rendered: str = module.render(report, coloured=in_colour)
    if not in_colour:
        return plain(rendered)
    shown = coloured(rendered)
    return _PAINTED_CODE.sub(_linked, shown) if wants_links(stream) else shown


def _linked(code: re.Match[str]) -> str:
    return f"\x1b]8;;{page_of(code[0])}\x1b\\{code[0]}\x1b]8;;\x1b\\"


def diffs(report: Report, stream: TextIO) -> str:
    """Return what fixing changes: byte for byte for ``patch``, made plain for a terminal."""
    text = "".join(result.diff for result in report.results)
    return plain(text) if stream.isatty() else text


def wants_colour(stream: TextIO) -> bool:
    """Say whether a stream is a terminal whose user has not asked for plain text, or one has asked for colours."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def wants_links(stream: TextIO) -> bool:
    """Say whether a stream is a terminal that is known to show links (OSC 8); ``FORCE_HYPERLINK`` says it, or 0."""
    if forced := os.environ.get("FORCE_HYPERLINK"):
        return forced != "0"
    of = os.environ.get
    if not stream.isatty() or of("TMUX") or of("CI") or of("TERM", "").startswith(("screen", "tmux")):
        return False
    vte = of("VTE_VERSION", "0")
    return (
        of("TERM_PROGRAM") in _LINKING
        or of("TERM") in _LINKING
        or any(map(of, ("WT_SESSION", "KONSOLE_VERSION", "DOMTERM")))
        or (vte.isdigit() and int(vte) >= _FIRST_VTE)
    )
