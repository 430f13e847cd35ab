"""The recorded outcomes: what held when the report was last made."""

from __future__ import annotations

import json
from collections.abc import Mapping

from .judging import Outcome
from .programs import CORPUS

RECORD = CORPUS / "outcomes.json"


def record(results: Mapping[str, Outcome]) -> None:
    """Write the outcomes of all cases."""
    lines = (f"{json.dumps(name)}: {json.dumps(results[name].as_json())}" for name in sorted(results))
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def recorded() -> dict[str, Outcome]:
    """Read the outcomes."""
    if not RECORD.exists():
        return {}
    return {name: Outcome(**entry) for name, entry in json.loads(RECORD.read_text(encoding="utf-8")).items()}
