"""The server keeps nothing of what is over: counted in objects, which no allocator and no busy machine changes."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import environment
from dry_run_client import answering, finished, ran, settings
from lsp_client import JSON, Client, edit

from drygrad.lsp.run_history import KEPT_OF_TARGET

SERVER = Path(__file__).parents[1] / "support" / "counting_server.py"
TEXT = """\
import torch


# dry-run: x=torch.zeros(4)
def pick(x):
    return x[torch.tensor(00)]
"""
LINE, COLUMN = 5, TEXT.splitlines()[5].index("00")
SAVES = KEPT_OF_TARGET + 2
SETTLED = 180.0
OURS = ("drygrad.", "ast.", "builtins.dict", "builtins.list", "builtins.tuple")
"""What a leak would be made of; asyncio keeps timers that were cancelled until it has a hundred."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    given = settings(device="cpu")
    client = Client([sys.executable, str(SERVER)], env=environment(), settings=answering(given))
    client.initialize(tmp_path, options=given)
    yield client
    client.kill()


def save(client: Client, uri: str, numbers: range) -> None:
    """Save another text for each of these runs."""
    for number in numbers:
        client.change(uri, edit(LINE, COLUMN, LINE, COLUMN + 2, f"{number + 10}"))
        client.save(uri)
        assert finished(client, f"run-{number}")["outcome"] == "failed"


def kept(client: Client) -> Counter[str]:
    """Return how many objects of each type the server keeps."""
    counted: JSON = client.request("test/objects")
    return Counter({kind: count for kind, count in counted.items() if kind.startswith(OURS)})


def grown(client: Client, before: Counter[str]) -> dict[str, int]:
    """Return what there is much more of than before, when fixes are no longer tried."""
    end = time.monotonic() + SETTLED
    while True:
        more = {kind: count for kind, count in (kept(client) - before).items() if count >= SAVES}
        if not more or time.monotonic() > end:
            return more
        time.sleep(0.2)


def test_of_many_runs_only_the_last_are_kept(client: Client, tmp_path: Path) -> None:
    uri = (tmp_path / "train.py").as_uri()
    client.checked(uri, TEXT)
    assert ran(client, uri, "pick")["outcome"] == "passed"
    save(client, uri, range(2, 2 + SAVES))
    full = kept(client)
    assert full["drygrad.dryrun.merge.Record"] > 0
    save(client, uri, range(2 + SAVES, 2 + 3 * SAVES))
    assert grown(client, full) == {}
