"""The program itself, as an editor starts it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lsp_client import Client, Start

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join([str(ROOT / "server"), str(ROOT / "analyzers")])


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts ``drygrad server`` with arguments."""
    clients: list[Client] = []

    def started(*arguments: str, **options: Any) -> Client:
        command = [sys.executable, "-m", "drygrad", "server", *arguments]
        clients.append(Client(command, env={"PYTHONPATH": PATHS}, **options))
        return clients[-1]

    yield started
    for client in clients:
        client.kill()
