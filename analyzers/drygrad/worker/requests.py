"""What a request must be for the processes that start runs, and that others need, too; the rest is the run's matter."""

from __future__ import annotations

from typing import Any, cast

_FIELDS: dict[str, tuple[type, ...]] = {
    "path": (str,),
    "text": (str,),
    "device": (str, type(None)),
    "devices": (int, type(None)),
    "gpu_memory": (int, type(None)),
    "memory_limit": (int, type(None)),
    "timeout": (int, float, type(None)),
    "root": (str, type(None)),
    "sys_path": (list, type(None)),
    "buffers": (dict, type(None)),
}


def problem(plan: object) -> str | None:
    """Say why a plan cannot be carried out, where its sender has sent something else."""
    if not isinstance(plan, dict):
        return "the request has no plan"
    fields = cast("dict[str, Any]", plan)
    wrong = (name for name, kinds in _FIELDS.items() if not isinstance(fields.get(name), kinds))
    name = next(wrong, None)
    return None if name is None else f"the request has no {name} that can be used"
