"""Garbage is collected while nobody waits."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Iterator

import pytest

from drygrad.lsp.tidying import Tidying


class Knot:
    """What only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def only_when_told() -> Iterator[None]:
    """Keep Python from collecting by itself."""
    gc.disable()
    yield
    gc.enable()


async def test_garbage_is_collected_after_a_pause() -> None:
    tidying, knot = Tidying(0.05), Knot()
    gone = asyncio.Event()
    reference = weakref.ref(knot, lambda _: gone.set())
    tidying.checked(None)
    del knot
    assert reference() is not None
    await asyncio.wait_for(gone.wait(), 180)


async def test_not_while_results_come(monkeypatch: pytest.MonkeyPatch) -> None:
    tidying, reference = Tidying(0.2), weakref.ref(Knot())
    loop, now = asyncio.get_running_loop(), time.monotonic()
    for number in range(7):
        monkeypatch.setattr(loop, "time", lambda passed=0.05 * number: now + passed)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if number < 6:
            tidying.checked(None)
    assert reference() is not None
    monkeypatch.setattr(loop, "time", lambda: now + 1.0)
    while reference() is not None:
        await asyncio.sleep(0)
