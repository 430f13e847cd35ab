"""One host for all tests that need another machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import far_host
import pytest
from far_host import FarHost


@pytest.fixture(scope="session")
def near(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that the host does not see."""
    return tmp_path_factory.mktemp("near")


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory, near: Path) -> Iterator[FarHost]:
    """Provide a host that has torch and nothing of ours."""
    if why := far_host.why_not():
        pytest.skip(why)
    with far_host.far_host(tmp_path_factory.mktemp("host"), near) as started:
        yield started
