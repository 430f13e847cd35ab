"""A server process for each test that asks for one, and one that many share."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forked import Forks
from lsp_client import Client, Start, debounced

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(str(path) for path in (ROOT / "server", ROOT / "analyzers", SUPPORT))}


OF_THE_ANALYZER = frozenset({"SLOW", "GATE"})
"""Variables that a server reads when it analyses; others may matter as soon as Python starts."""


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Return what forks servers; to start Python and to import the protocol's types takes most of a short test."""
    forks = Forks("faulty_server", env=ENVIRONMENT)
    yield forks
    forks.close()


def launch(forks: Forks, log: Path | None, env: dict[str, str] | None = None, **options: Any) -> Client:
    """Start a server on the small analyzer."""
    command = [sys.executable, str(SUPPORT / "faulty_server.py"), *([str(log)] if log else [])]
    env = env or {}
    if OF_THE_ANALYZER.issuperset(env) and "stderr" not in options:
        return Client(command, env=env, forks=forks, **options)
    return Client(command, env={**ENVIRONMENT, **env}, **options)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """Return where the servers of a test log."""
    return tmp_path / "server.log"


@pytest.fixture
def start(log_file: Path, forks: Forks) -> Iterator[Start]:
    """Return a function that starts a server; what is still there after the test is killed."""
    clients: list[Client] = []

    def started(*, to_file: bool = True, **options: Any) -> Client:
        clients.append(launch(forks, log_file if to_file else None, **options))
        return clients[-1]

    yield started
    for client in clients:
        client.kill()


@pytest.fixture
def client(start: Start, tmp_path: Path) -> Client:
    """Return a client of a running server of its own, which does not wait for pauses."""
    client = start(settings=debounced(0))
    client.initialize(tmp_path, options={"debounce": 0})
    return client


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Iterator[Client]:
    """Return a client of a server that many tests use, each with texts of its own."""
    folder = tmp_path_factory.mktemp("shared")
    client = launch(forks, folder / "server.log", settings=debounced(0))
    client.initialize(folder, options={"debounce": 0})
    yield client
    assert client.stop() == 0


_numbers = itertools.count()


@pytest.fixture
def uri() -> str:
    """Return the URI of a text that no other test uses."""
    return f"file:///nowhere/text_{next(_numbers)}.py"
