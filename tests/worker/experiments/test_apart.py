"""Work in a process of its own: what it tells, and how it ended where it told nothing."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from drygrad.worker.search.isolated import Apart

LONG = 300.0


def died(number: int) -> dict[str, Any]:
    os.kill(os.getpid(), number)
    return {}


@pytest.mark.parametrize(
    ("work", "answer", "status"),
    [
        (lambda: {"told": 1}, {"told": 1}, None),
        (lambda: died(signal.SIGKILL), None, -signal.SIGKILL),
        (lambda: dict[str, Any]()["missing"], None, 1),
    ],
    ids=["an answer", "a signal", "an error of ours"],
)
def test_what_ends_is_told_with_its_status(work: Any, answer: Any, status: int | None) -> None:
    process = Apart(work, time.monotonic() + LONG)
    while not Apart.ended_of([process]):
        pass
    assert (process.answer, process.status) == (answer, status)


def test_what_does_not_end_is_left() -> None:
    process = Apart(lambda: time.sleep(LONG) or {}, time.monotonic())
    assert Apart.ended_of([process]) == [process]
    assert (process.answer, process.status) == (None, None)
