"""What holds for every test: no instrument of the worker's fails in it, wherever the worker was started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drygrad.dryrun.failures import VARIABLE


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "failing_instruments: the test is about instruments that fail")


@pytest.fixture(scope="session", autouse=True)
def _failures_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:  # pyright: ignore[reportUnusedFunction]
    """Return where all processes of this session tell of instruments that failed."""
    path = tmp_path_factory.mktemp("instruments") / "failures"
    path.touch()
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(path)
    yield path
    if before is None:
        del os.environ[VARIABLE]
    else:
        os.environ[VARIABLE] = before


@pytest.fixture(autouse=True)
def _no_instrument_fails(request: pytest.FixtureRequest, _failures_file: Path) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Fail a test in which an instrument of any run has failed, unless it is about that."""
    yield
    told = _failures_file.read_text("utf-8")
    _failures_file.write_text("", "utf-8")
    if told and request.node.get_closest_marker("failing_instruments") is None:
        pytest.fail(f"an instrument failed:\n{told}", pytrace=False)
