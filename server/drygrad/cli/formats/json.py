"""One JSON object for machines; its schema is stable and carries a version."""

from __future__ import annotations

import json
from typing import Any

from drygrad.cli.report import Item, Ran, Report
from drygrad.model import Edit, Fix, Position, Related
from drygrad.notebook import Notebook

VERSION = 1


def render(report: Report, *, coloured: bool) -> str:
    """Return the findings and the runs, of which a check has none."""
    del coloured
    findings = [finding(item) for item in report.items]
    runs = [run_entry(ran) for ran in report.runs]
    return json.dumps({"version": VERSION, "findings": findings, "runs": runs}, indent=1) + "\n"


def run_entry(ran: Ran) -> dict[str, Any]:
    """Return one run, or why there was none."""
    from drygrad.dryrun.plan import Missing  # noqa: PLC0415 - a check needs nothing of dry runs
    from drygrad.dryrun.report import missing_json, run_json  # noqa: PLC0415

    if isinstance(ran.outcome, Missing):
        said = missing_json(ran.outcome, ran.path)
    else:
        said = run_json(ran.outcome, ran.refuted, ran.path)
    return _in_cells(said, ran, ran.cells) if ran.cells else said


def _in_cells(run: dict[str, Any], ran: Ran, cells: Notebook) -> dict[str, Any]:
    """Return a run of a notebook with its lines counted in cells, which it names."""
    placed: dict[str, Any] = {}
    for name in ("shapes", "syncs", "memory_by_line", "refuted"):
        places = [cells.cell_number(entry["line"]) for entry in run[name]]
        placed[name] = [
            {**entry, "cell": cell, "line": line} for entry, (cell, line) in zip(run[name], places, strict=True)
        ]
    inputs = [{**given, "source": ran.said(given["source"])} for given in run["inputs"]]
    return {**run, **placed, "inputs": inputs, "notes": [ran.said(note) for note in run["notes"]]}


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
