"""Annotations of a pull request, as GitHub's workflow commands."""

from __future__ import annotations

from drygrad.cli.report import Item, Report
from drygrad.model import Severity

_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice", "hint": "notice"}


def render(report: Report, *, coloured: bool) -> str:
    """Return one command a line."""
    del coloured
    return "".join(_command(item) + "\n" for item in report.items)


def _command(item: Item) -> str:
    found = item.finding
    start, end = found.span
    properties: dict[str, object] = {"file": item.path}
    if item.cell is None:
        properties |= {"line": start.line, "endLine": end.line}
        if start.line == end.line:  # GitHub takes columns within one line only
            properties |= {"col": start.column + 1, "endColumn": max(end.column, start.column + 1)}
    properties["title"] = f"{found.code} {found.name}"
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    place = f"cell {item.cell}, line {start.line}: " if item.cell else ""
    return f"::{_COMMANDS[found.severity]} {written}::{_escaped(place + found.message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _escaped(str(value)).replace(":", "%3A").replace(",", "%2C")
