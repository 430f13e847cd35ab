"""Work on texts, off the event loop, one piece at a time.

Before 3.12, Python's parser cannot build two syntax trees at once ("AST constructor recursion depth mismatch"): what
parses goes one by one. It is work for one core in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from drygrad.static.source import PARSING

P = ParamSpec("P")
T = TypeVar("T")


async def in_turn(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function returns in a thread, when nothing else is parsed."""

    def alone() -> T:
        with PARSING:
            return function(*args, **kwargs)

    return await asyncio.to_thread(alone)
