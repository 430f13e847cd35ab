"""SARIF 2.1.0, which code hosts and security tools read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from drygrad.cli.formats.json import run_entry
from drygrad.cli.report import Item, Report
from drygrad.documentation import page_of
from drygrad.model import Edit, Fix, Related, Rule, Severity, Span
from drygrad.static.registry import rule_by_code
from drygrad.version import __version__

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note", "hint": "note"}


def render(report: Report, *, coloured: bool) -> str:
    """Return one run with the rules that found something."""
    del coloured
    codes = sorted({item.finding.code for item in report.items})
    rules = [_rule(rule) for code in codes if (rule := rule_by_code(code))]
    driver = {"name": "drygrad", "version": __version__, "rules": rules}
    results = [_result(item, codes) for item in report.items]
    run: dict[str, Any] = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    if report.runs:
        run["properties"] = {"runs": [run_entry(ran) for ran in report.runs]}  # what held is no result of SARIF's
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rule(rule: type[Rule]) -> dict[str, Any]:
    documentation = rule.documentation()
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": documentation.summary or rule.name},
        "helpUri": page_of(rule.code),
        "help": {"text": documentation.text, "markdown": documentation.text},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(item: Item, codes: list[str]) -> dict[str, Any]:
    found = item.finding
    result: dict[str, Any] = {
        "ruleId": found.code,
        "ruleIndex": codes.index(found.code),
        "level": _LEVELS[found.severity],
        "message": {"text": f"cell {item.cell}: {found.message}" if item.cell else found.message},
        "locations": [{"physicalLocation": _location(item.path, found.span)}],
    }
    if found.related:
        result["relatedLocations"] = [_related(n, related, item.path) for n, related in enumerate(found.related, 1)]
    if found.fixes:
        result["fixes"] = [_fix(fix, item.path) for fix in found.fixes]
    return result


def _related(number: int, related: Related, path: str) -> dict[str, Any]:
    place = _location(related.path or path, related.span)
    return {"id": number, "message": {"text": related.message}, "physicalLocation": place}


def _location(path: str, span: Span) -> dict[str, Any]:
    return {"artifactLocation": _artifact(path), "region": _region(span)}


def _artifact(path: str) -> dict[str, str]:
    pure = Path(path)
    return {"uri": pure.as_uri() if pure.is_absolute() else quote(os.fsencode(pure.as_posix()))}


def _region(span: Span) -> dict[str, int]:
    start, end = span
    return {
        "startLine": start.line,
        "startColumn": start.column + 1,
        "endLine": end.line,
        "endColumn": end.column + 1,
    }


def _fix(fix: Fix, path: str) -> dict[str, Any]:
    by_path: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        by_path.setdefault(edit.path or path, []).append(edit)
    changes = [_change(changed, edits) for changed, edits in by_path.items()]
    return {"description": {"text": f"{fix.title} ({fix.safety})"}, "artifactChanges": changes}


def _change(path: str, edits: list[Edit]) -> dict[str, Any]:
    replacements = [{"deletedRegion": _region(e.span), "insertedContent": {"text": e.new_text}} for e in edits]
    return {"artifactLocation": _artifact(path), "replacements": replacements}
