from __future__ import annotations

from collections.abc import Iterator

import pytest
from simulated import Simulated


@pytest.fixture(scope="session")
def sim() -> Iterator[Simulated]:
    simulated = Simulated()
    yield simulated
    simulated.close()


@pytest.fixture(scope="session")
def two() -> Iterator[Simulated]:
    """Two devices of 1 MiB."""
    simulated = Simulated(devices=2, total_memory=1 << 20)
    yield simulated
    simulated.close()
