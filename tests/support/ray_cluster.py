"""A Ray cluster of one node with one processor, started by the tests on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

RAY = os.environ.get("DRYGRAD_RAY") or shutil.which("ray")


def why_not() -> str | None:
    """Return why there can be no cluster here."""
    return None if RAY else "there is no Ray: `make test-remote` installs it"


@contextmanager
def ray_cluster(folder: Path) -> Generator[str]:
    """Start it; return its address."""
    port = _free_port()
    given: dict[str, object] = {
        "port": port,
        "num-cpus": 1,
        "num-gpus": 0,
        "node-ip-address": "127.0.0.1",
        "temp-dir": folder,
    }
    given["object-store-memory"] = 80_000_000
    words = [f"--{name}={value}" for name, value in given.items()]
    fixed = [
        "--head",
        "--block",
        "--include-dashboard=false",
        "--disable-usage-stats",
        "--object-store-memory=80000000",
    ]
    log = folder / "log"
    with log.open("wb") as output:
        command = [str(RAY), "start", *fixed, *words]
        head = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        until = time.monotonic() + 120
        while not _listens(port):
            assert time.monotonic() < until and head.poll() is None, log.read_text(errors="replace")
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"
    finally:
        head.terminate()
        with suppress(subprocess.TimeoutExpired):
            head.wait(15)
        with suppress(ProcessLookupError):
            os.killpg(head.pid, signal.SIGKILL)
        head.wait()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
