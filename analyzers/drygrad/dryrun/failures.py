"""Failures of the worker's instruments: errors of ours, kept apart so that nobody can miss them.

Where the environment names a file, each is added to it, whichever of drygrad's processes has received the result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLE = "DRYGRAD_INSTRUMENT_FAILURES"
"""Names the file."""


def record(result: Mapping[str, Any]) -> None:
    """Add what a worker's result says of instruments that failed to the file that the environment names."""
    failures, name = result.get("instrument_failures"), os.environ.get(VARIABLE)
    if failures and name:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(failures) + "\n")
