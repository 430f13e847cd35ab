"""What the tests on a real GPU share. They need torch, pytest and this checkout, and skip where there is no GPU.

``pytest tests/gpu --record`` writes ``last_run.json`` beside this file: the date, the device, each test's result and
figures. It is written test by test, so that a run cut short leaves what it came to. ``DRYGRAD_GPU_STAND_IN=sim`` puts
the simulated device in the GPU's place, to try the tests themselves.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_machine import STAND_IN, Machine
from worker_client import WorkerClient

LAST_RUN = Path(__file__).with_name("last_run.json")


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    pytest.importorskip("torch")
    with WorkerClient() as worker:
        ready = worker.receive("ready", timeout=180)
        if not ready["cuda"]["available"] and not STAND_IN:
            pytest.skip("no GPU")
        _Record.told = {"devices": ready["cuda"]["devices"], "torch": ready["torch"], "python": ready["python"]}
        yield Machine(worker, ready, STAND_IN or "cuda")


class _Record:
    """Gathers the results of the tests in this folder, and writes them when all are done."""

    told: dict[str, Any] | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            entry = {"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 2)}
            why = {"why": report.longreprtext[-2000:]} if report.failed else {}
            self._tests.append({**entry, **dict(report.user_properties), **why})
            self._write()

    def _write(self) -> None:
        if self.told is None or STAND_IN:
            return
        date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        self._path.write_text(json.dumps({"date": date, **self.told, "tests": self._tests}, indent=1) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", nargs="?", const=str(LAST_RUN), help="write the results on a GPU to last_run.json")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--record", default=None)
    if path:
        config.pluginmanager.register(_Record(Path(path)), "drygrad-gpu-record")
