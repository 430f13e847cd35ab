"""Work on texts, off the event loop, one piece at a time: Python would not do two of them sooner."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_TURN = threading.RLock()


async def in_turn(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function returns in a thread, when nothing else has its turn."""

    def alone() -> T:
        with _TURN:
            return function(*args, **kwargs)

    return await asyncio.to_thread(alone)
