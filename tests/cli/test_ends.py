"""However `drygrad check` ends, its processes end with it, and it hears of theirs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from process_tree import FOREVER, all_end, descendants

from drygrad.cli.main import main

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

MUCH = "".join(f"def f{n}(x):\n    y = x.relu()\n    return y.add_({n})\n\n\n" for n in range(20_000))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_processes_of_a_check_end_with_it(tmp_path: Path, number: int) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(MUCH)
    command = [sys.executable, "-m", "drygrad", "check", "--jobs", "2", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + FOREVER
        while len(workers := descendants(process.pid)) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        assert len(workers) >= 2
        process.send_signal(number)
    assert process.returncode == -number
    assert all_end(workers)


def test_it_hears_of_its_children_where_its_parent_did_not_want_to(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert main(["rules"]) == 0
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGCHLD, before)
