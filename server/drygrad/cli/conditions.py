"""The conditions of a command's runs: its options, else what the project sets for dry runs, else the defaults."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from typing import Any

from drygrad.settings import RunSettings

_GIBIBYTE = 1 << 30


@dataclass(frozen=True)
class Conditions:
    """Where runs happen, for how many seconds, with how many bytes."""

    device: str = "auto"
    timeout: float = 30.0
    search_time: float = 2.0
    program_time: float = 10.0
    experiment_time: float = 5.0
    verify_time: float = 10.0
    memory_limit: int | None = None
    gpu_memory: int | None = None


def conditions(arguments: argparse.Namespace, runs: RunSettings) -> Conditions:
    """Return what holds for a file of a project."""
    chosen: dict[str, Any] = {}
    for name in (field.name for field in fields(Conditions)):
        given, set_for_all = getattr(arguments, name), getattr(runs, name)
        if given is None and set_for_all is not None and name in ("memory_limit", "gpu_memory"):
            set_for_all = int(set_for_all * _GIBIBYTE) or None
        value = set_for_all if given is None else given
        if value is not None:
            chosen[name] = value
    return Conditions(**chosen)
