"""The outputs of a check; each format is a module with ``render(report, coloured=...)``."""

from __future__ import annotations

import importlib
import os
from typing import TextIO

from drygrad.cli.report import Report
from drygrad.cli.terminal import coloured, plain


def render(report: Report, name: str, stream: TextIO) -> str:
    """Return a report in one of the formats: text, summary, json, sarif, github; nothing in it steers a terminal."""
    module = importlib.import_module(f"{__name__}.{name}")
    in_colour = wants_colour(stream)
    rendered: str = module.render(report, coloured=in_colour)
    return coloured(rendered) if in_colour else plain(rendered)


def diffs(report: Report, stream: TextIO) -> str:
    """Return what fixing changes: byte for byte for ``patch``, made plain for a terminal."""
    text = "".join(result.diff for result in report.results)
    return plain(text) if stream.isatty() else text


def wants_colour(stream: TextIO) -> bool:
    """Say whether a stream is a terminal whose user has not asked for plain text."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
