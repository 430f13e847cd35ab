"""The outputs of a check; each format is a module with ``render(report, coloured=...)``."""

from __future__ import annotations

import importlib
import os
from typing import TextIO

from drygrad.cli.report import Report


def render(report: Report, name: str, stream: TextIO) -> str:
    """Return a report in one of the formats: text, summary, json, sarif, github."""
    module = importlib.import_module(f"{__name__}.{name}")
    rendered: str = module.render(report, coloured=wants_colour(stream))
    return rendered


def wants_colour(stream: TextIO) -> bool:
    """Say whether a stream is a terminal whose user has not asked for plain text."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
