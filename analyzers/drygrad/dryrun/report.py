"""A run as users read it in JSON: the entry of ``runs`` on the command line, and the editor's ``drygrad/run``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from drygrad.dryrun.costs import syncs
from drygrad.dryrun.coverage import executed
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Missing
from drygrad.dryrun.result import Result
from drygrad.dryrun.short_forecast import short_forecast
from drygrad.dryrun.targets import Target
from drygrad.model import Finding

_LISTS = ("inputs", "memory_by_line", "gradients", "syncs", "shapes", "experiments", "refuted")


def run_json(record: Record, refuted: Sequence[Finding] = (), path: str | None = None) -> dict[str, Any]:
    """Return a run; ``refuted`` are the static findings that it disproved, ``path`` the file as the user named it."""
    result = record.result
    memory = _object(result.data.get("memory"))
    short = short_forecast(record)
    return {
        "id": record.run_id,
        "target": target_name(path or str(record.plan.path), record.plan.target),
        "device": result.device,
        "tensors_on": result.tensors_on,
        "seed": result.seed,
        "inputs": [{"name": i.name, "value": i.value, "source": i.source} for i in result.inputs],
        "comment": record.comment,
        "outcome": result.outcome,
        "reason": result.reason,
        "coverage": _coverage(result),
        "seconds": result.seconds,
        "peak_memory_bytes": result.peak_bytes,
        "peak_by_phase": _object(memory.get("by_phase")),
        "memory_by_line": memory.get("by_line") or [],
        "forecast": short.as_json() if short else None,
        "gradients": result.data.get("gradients") or [],
        "syncs": syncs(result),
        "shapes": [
            {"line": s.line, "name": s.name, "shape": list(s.shape), "dtype": s.dtype, "device": s.device}
            for s in result.shapes
        ],
        "experiments": [tried.as_json() for tried in record.result.tried],
        "refuted": [{"code": finding.code, "line": finding.span.start.line} for finding in refuted],
        "notes": list(result.notes),
        "torch": result.torch,
        "interpreter": result.interpreter,
    }


def panel_json(record: Record) -> dict[str, Any]:
    """Return a run with what a panel shows beyond it: the text that ran, the findings, gradients, memory, output."""
    data = record.result.data
    memory = _object(data.get("memory"))
    return {
        **run_json(record),
        "path": str(record.plan.path),
        "text": record.plan.source.text,
        "given": _given(record),
        "ran": [list(lines) for lines in executed(record.plan, record.result)],
        "findings": [_finding(finding) for finding in record.findings],
        "memory_over_time": memory.get("over_time") or [],
        "output": data.get("output"),
    }


def _coverage(result: Result) -> dict[str, Any] | None:
    covered = result.coverage
    if covered is None:
        return None
    return {"ran": len(covered.ran), "lines": covered.lines, "missed": sorted(covered.missed)}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "detail": finding.detail,
        "severity": finding.severity,
        "line": finding.span.start.line,
        "fixes": [{"title": f.title, "safe": f.safety == "safe", "verified": f.verified} for f in finding.fixes],
    }


def _given(record: Record) -> str | None:
    """Return the inputs of a run as one would write them; None where that cannot be said."""
    if record.comment:
        return record.comment.removeprefix("# dry-run:").strip()
    arguments = (*filter(None, [record.plan.receiver]), *record.plan.arguments)
    if record.plan.elsewhere or record.plan.program or not all(a.name for a in arguments):
        return None
    return ", ".join(f"{argument.name}={argument.text}" for argument in arguments) or None


def missing_json(missing: Missing, path: str) -> dict[str, Any]:
    """Return the entry of a target that could not be run."""
    empty: dict[str, list[object]] = {key: [] for key in _LISTS}
    unknown = dict.fromkeys(
        ("id", "device", "tensors_on", "seed", "coverage", "seconds", "peak_memory_bytes", "forecast", "torch")
    )
    return {
        **unknown,
        **empty,
        "target": target_name(path, missing.target),
        "comment": None,
        "interpreter": None,
        "outcome": "no-inputs",
        "reason": None,
        "peak_by_phase": {},
        "notes": [missing.message],
    }


def target_name(path: str, target: Target) -> str:
    """Return the target as one types it: ``train.py::Net.forward``, or the file alone for its script."""
    return f"{path}::{target.qualname}" if target.qualname else path


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
