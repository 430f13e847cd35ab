"""One JSON object for machines; its schema is stable and carries a version."""

from __future__ import annotations

import json
from typing import Any

from drygrad.cli.report import Item, Report
from drygrad.model import Edit, Fix, Position, Related

VERSION = 1


def render(report: Report, *, coloured: bool) -> str:
    """Return the findings; ``runs`` is empty, for a check runs nothing."""
    del coloured
    findings = [finding(item) for item in report.items]
    return json.dumps({"version": VERSION, "findings": findings, "runs": []}, indent=1) + "\n"


def finding(item: Item) -> dict[str, Any]:
    """Return one finding; lines and columns from 1, columns in characters, the end exclusive."""
    found = item.finding
    return {
        "code": found.code,
        "name": found.name,
        "message": found.message,
        "detail": found.detail,
        "severity": found.severity,
        "path": item.path,
        "cell": item.cell,
        "start": _position(found.span.start),
        "end": _position(found.span.end),
        "witness": found.witness,
        "status": found.status,
        "run": found.run,
        "related": [_related(related, item.path) for related in found.related],
        "fixes": [_fix(fix, item.path) for fix in found.fixes],
    }


def _position(position: Position) -> dict[str, int]:
    return {"line": position.line, "column": position.column + 1}


def _related(related: Related, path: str) -> dict[str, Any]:
    return {
        "message": related.message,
        "path": related.path or path,
        "start": _position(related.span.start),
        "end": _position(related.span.end),
    }


def _fix(fix: Fix, path: str) -> dict[str, Any]:
    edits = [_edit(edit, path) for edit in fix.edits]
    return {"title": fix.title, "safety": fix.safety, "verified": fix.verified, "edits": edits}


def _edit(edit: Edit, path: str) -> dict[str, Any]:
    return {
        "path": edit.path or path,
        "start": _position(edit.span.start),
        "end": _position(edit.span.end),
        "new_text": edit.new_text,
    }
