"""Where a rank stands: the places of the user's functions at work, and what the innermost one calls."""

from __future__ import annotations

from types import FrameType
from typing import Any

from drygrad.worker.lines import Instruction, Lines

_SERVING = ("distributed_c10d", "c10d_logger", "_contextlib")
"""Files of torch's between a user's call of a collective and the group."""
_CALLS = ("Module._call_impl", "Module._wrapped_call_impl", "_call_impl", "_wrapped_call_impl")


def chain_here(lines: Lines, frame: FrameType | None) -> list[list[Any]]:
    """Return the places of the user's functions that are at work, the outermost first."""
    found: list[list[Any]] = []
    while frame is not None:
        if lines.is_user(frame.f_code):
            place = lines.place(Instruction(frame.f_code, frame.f_lasti))
            if place is not None:
                found.append([*place])
        frame = frame.f_back
    return found[::-1]


def name_of_call(lines: Lines, frame: FrameType | None, op: str) -> str:
    """Return what the user's line calls: a collective of torch's by its name, or one inside something else."""
    called, own = "", False
    while frame is not None and not lines.is_user(frame.f_code):
        code = frame.f_code
        if "drygrad" not in code.co_filename:
            name = getattr(code, "co_qualname", code.co_name)
            if name in _CALLS:
                name = type(frame.f_locals.get("self")).__name__
            own = code.co_filename.rpartition("/")[2].partition(".")[0] in _SERVING
            if not own or code.co_name not in ("wrapper", "decorate_context"):
                called = name
        frame = frame.f_back
    if not called or frame is None:
        return f"{op}()"
    return f"{called}()" if own else f"{op} in `{called}()`"
