"""The JSON Schema of ``--output-format json``, which ``docs/report.schema.json`` and the tools of agents publish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from drygrad.dryrun.result import Outcome
from drygrad.model import SEVERITIES, Safety

from .json import VERSION

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NONE: Schema = {"type": ["string", "null"]}
_NUMBER_OR_NONE: Schema = {"type": ["number", "null"]}
_WHOLE: Schema = {"type": "integer"}
_WHOLE_OR_NONE: Schema = {"type": ["integer", "null"]}


def report_schema() -> Schema:
    """Return the schema of a whole report."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "drygrad report",
        **_object({"version": {"const": VERSION}, "findings": _list(_finding()), "runs": _list(_run())}),
    }


def _finding() -> Schema:
    place = {"path": _TEXT, "start": _position(), "end": _position()}
    edit = _object({**place, "new_text": _TEXT})
    fix = _object(
        {
            "title": _TEXT,
            "safety": {"enum": [*get_args(Safety)]},
            "verified": {
                "type": ["boolean", "null"],
                "description": "Whether a run verified the fix; null: not tried.",
            },
            "edits": _list(edit),
        }
    )
    return _object(
        {
            "code": _TEXT,
            "name": _TEXT,
            "message": _TEXT,
            "detail": {**_TEXT_OR_NONE, "description": "torch's own error message."},
            "severity": {"enum": [*SEVERITIES]},
            **place,
            "cell": {**_WHOLE_OR_NONE, "description": "In a notebook: the cell (from 1) in which lines are counted."},
            "witness": {"enum": ["static", "dry-run"]},
            "status": {"enum": ["possible", "confirmed"]},
            "run": {**_TEXT_OR_NONE, "description": "The id of the run that saw it."},
            "related": _list(_object({"message": _TEXT, **place})),
            "fixes": _list(fix),
        }
    )


def _run() -> Schema:
    relation = {
        "code": _TEXT,
        "name": _TEXT,
        "outcome": {"enum": ["held", "not-tried", "broken"]},
        "why": _TEXT_OR_NONE,
        "seconds": {"type": "number"},
    }
    shape = {
        "line": _WHOLE,
        "name": _TEXT,
        "shape": _list(_WHOLE),
        "dtype": _TEXT,
        "device": _TEXT,
    }
    covered = _object({"ran": _WHOLE, "lines": _WHOLE, "missed": _list(_WHOLE)})
    return _object(
        {
            "id": _TEXT_OR_NONE,
            "target": _TEXT,
            "device": _TEXT_OR_NONE,
            "tensors_on": _TEXT_OR_NONE,
            "seed": _WHOLE_OR_NONE,
            "inputs": _list(_object({"name": _TEXT, "value": _TEXT, "source": _TEXT})),
            "comment": {**_TEXT_OR_NONE, "description": "The `# dry-run:` comment that gives the same inputs."},
            "outcome": {"enum": sorted({*get_args(Outcome)})},
            "reason": _TEXT_OR_NONE,
            "coverage": {"anyOf": [covered, {"type": "null"}]},
            "seconds": _NUMBER_OR_NONE,
            "peak_memory_bytes": _WHOLE_OR_NONE,
            "peak_by_phase": {"type": "object", "additionalProperties": _WHOLE},
            "memory_by_line": _list(_object({"path": _TEXT, "line": _WHOLE, "bytes": _WHOLE, "what": _TEXT})),
            "forecast": {"anyOf": [_forecast(), {"type": "null"}]},
            "gradients": _list(_object({"name": _TEXT, "norm": _NUMBER_OR_NONE, "shape": _list(_WHOLE)})),
            "syncs": _list(_object({"path": _TEXT, "line": _WHOLE, "kind": _TEXT, "op": _TEXT, "count": _WHOLE})),
            "shapes": _list(_object(shape)),
            "experiments": _list(_object(relation)),
            "refuted": _list(_object({"code": _TEXT, "line": _WHOLE})),
            "notes": _list(_TEXT),
            "torch": _TEXT_OR_NONE,
            "interpreter": _TEXT_OR_NONE,
        }
    )


def _forecast() -> Schema:
    return _object(
        {
            "peak_allocated": _WHOLE,
            "peak_reserved": _WHOLE,
            "line": _WHOLE_OR_NONE,
            "fits": {"type": ["boolean", "null"]},
            "room": _list(_TEXT),
            "lower_bound": {"type": "boolean"},
        }
    )


def _position() -> Schema:
    return _object({"line": {"type": "integer", "minimum": 1}, "column": {"type": "integer", "minimum": 1}})


def _object(properties: Mapping[str, Any]) -> Schema:
    """Return the schema of an object that has all of these; readers must expect others beside them."""
    return {"type": "object", "properties": dict(properties), "required": [*properties]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}
