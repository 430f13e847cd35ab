"""What holds for every test: no instrument of the worker's fails in it; and the worker that many tests share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest
import warm_workers
from worker_client import WorkerClient

from drygrad import result_cache
from drygrad.dryrun import service
from drygrad.dryrun.failures import VARIABLE
from drygrad.dryrun.launch import Launch, LaunchOptions
from drygrad.dryrun.launch import launch as launch_worker

GARBAGE = 50_000
"""So many objects more before garbage is looked for: syntax trees are many objects, and no cycles."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes run side by side, and threads of theirs only wait
    gc.disable()  # until all is collected
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background; what tests start inherits it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.register_profile("patient", deadline=None)  # an example may take what the machine takes
    hypothesis.settings.load_profile("patient")
    config.addinivalue_line("markers", "failing_instruments: the test is about instruments that fail")


@pytest.fixture(scope="session", autouse=True)
def _failures_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:  # pyright: ignore[reportUnusedFunction]
    """Return where all processes of this session tell of instruments that failed."""
    path = tmp_path_factory.mktemp("instruments") / "failures"
    path.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(path))
        yield path


@pytest.fixture(scope="session", autouse=True)
def _cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Keep results of checks where this session ends with them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(result_cache.VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _warm_workers() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Fork the workers of this process's runs from one that has imported torch."""
    warm = warm_workers.shared()

    def launch(interpreter: Path, options: LaunchOptions, folder: Path) -> Launch:
        is_ours = str(interpreter) == sys.executable and not options.prefix
        return launch_worker(interpreter, replace(options, prefix=warm.prefix()) if is_ours else options, folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "launch", launch)
        yield
    warm.close()


@pytest.fixture(autouse=True)
def _no_instrument_fails(request: pytest.FixtureRequest, _failures_file: Path) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Fail a test in which an instrument of any run has failed, unless it is about that."""
    yield
    told = _failures_file.read_text("utf-8")
    _failures_file.write_text("", "utf-8")
    if told and request.node.get_closest_marker("failing_instruments") is None:
        pytest.fail(f"an instrument failed:\n{told}", pytrace=False)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(GARBAGE)
    gc.enable()


SLOWEST = ("corpus", "e2e", "cli", "dryrun", "server", "worker", "sim", "forecast", "docs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the folders that take longest, so that none of them is waited for in the end."""
    ranks = {name: rank for rank, name in enumerate(SLOWEST)}

    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        return ranks.get(folder, len(ranks))

    items.sort(key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes run tests: two more than cores, for many tests wait for a process of theirs."""
    return min((os.cpu_count() or 1) + 2, 16)


class _Shared:
    """The worker of this process, which imports torch once; another one where a test has lost it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._client = self._start()

    def client(self) -> WorkerClient:
        if self._client.process.poll() is not None:
            self._client = self._start()
        return self._client

    def _start(self) -> WorkerClient:
        client = self._stack.enter_context(WorkerClient())
        client.receive("ready")
        return client

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="session")
def shared_worker(_failures_file: Path) -> Iterator[_Shared]:
    shared = _Shared()
    yield shared
    shared.close()


@pytest.fixture
def worker(shared_worker: _Shared) -> WorkerClient:
    """Return a worker that is ready, and that many tests use."""
    return shared_worker.client()
