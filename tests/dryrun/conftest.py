"""What tests of dry runs share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from verify_lab import Lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One worker for all tests of a file."""
    loop = asyncio.new_event_loop()
    lab = Lab(tmp_path_factory.mktemp("verify"), loop)
    yield lab
    lab.close()
    loop.close()
