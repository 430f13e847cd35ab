"""What is told of a run whose time is up: where it stands, and whether it can ever go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from worker_client import WORKER, WorkerClient, plan


def printed(code: str) -> str:
    """Return what a process prints that has drygrad's worker and a thread of its own."""
    environment = {**os.environ, "PYTHONPATH": str(WORKER.parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_endless_wait_for_what_comes_from_outside_is_no_warning(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, "import time\nwhile True:\n    time.sleep(1)\n", timeout=6.0))
    assert [(f["code"], f["severity"]) for f in result["faults"]] == [("DG902", "info")]
    result = worker.run(plan(tmp_path, "while True:\n    pass\n", timeout=2.0))
    assert [(f["code"], f["severity"]) for f in result["faults"]] == [("DG902", None)]


QUEUED = """
import os, threading, time
from drygrad.worker import deadline
del time.pthread_getcpuclockid  # what it asks where it does not find how long the thread stood in the queue
if os.fork() == 0:
    print(deadline.wanted_processor(threading.get_ident()) < 600, flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not tell")
def test_a_forked_run_knows_how_long_it_stood_in_the_queue_of_a_busy_machine() -> None:
    assert printed(QUEUED) == "True"


ROUND = """
import threading, time
from drygrad.worker import deadline
class Run:
    op = None
taken = threading.Lock()
taken.acquire()
def go_round():
    LOOP
        pass
thread = threading.Thread(target=go_round, daemon=True)
thread.start()
time.sleep(0.1)
seen = set()
for _ in range(4):
    time.sleep(0.02)
    seen.add(deadline.standing(Run, thread.ident))
print(len(seen), flush=True)
"""


@pytest.mark.parametrize(("loop", "places"), [("while True:", "4"), ("for _ in iter(taken.acquire, None):", "1")])
def test_a_loop_moves_at_its_jump_and_not_while_it_waits_for_an_element(loop: str, places: str) -> None:
    assert printed(ROUND.replace("LOOP", loop)) == places


def test_the_operation_in_flight_is_named(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import torch\nx = torch.ones(6000, 6000)\nfor _ in range(1000):\n    x = x @ x\n"
    result = worker.overdue(plan(tmp_path, text), 4)
    assert result["outcome"] == "deadline"
    (fault,) = result["faults"]
    assert (fault["code"], fault["at"]["line"]) == ("DG902", 4)
    assert "aten::mm" in fault["message"]


def test_two_threads_that_wait_for_each_other_are_an_endless_wait(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import threading\nt = threading.Thread(target=threading.Event().wait)\nt.start()\nt.join()\n"
    result = worker.overdue(plan(tmp_path, text), 4)
    assert [(f["code"], f["at"]["line"]) for f in result["faults"]] == [("DG604", 4)]


TAKEN_TWICE = """
import threading
class Monitor:
    def __init__(self):
        self.lock, self.count = threading.LOCK(), {"loss": 1}
    def mean(self, name):
        with self.lock:
            return 1 / self.count[name]
    def snapshot(self):
        with self.lock:
            return {name: self.mean(name) for name in self.count}
monitor = Monitor()
thread = threading.Thread(target=monitor.snapshot)
thread.start()
thread.join()
"""


def test_a_thread_that_holds_what_it_waits_for_is_told_where_it_does(worker: WorkerClient, tmp_path: Path) -> None:
    text = TAKEN_TWICE.lstrip()
    result = worker.overdue(plan(tmp_path, text.replace("LOCK", "Lock")), 10)
    (fault,) = result["faults"]
    assert (fault["code"], fault["at"]["line"]) == ("DG604", 10)
    assert "self.lock, which it already holds" in fault["message"]
    assert [place["at"]["line"] for place in fault["related"]] == [14]
    result = worker.run(plan(tmp_path, text.replace("LOCK", "RLock"), timeout=120.0))
    assert (result["outcome"], result["faults"]) == ("passed", [])


def test_a_thread_that_still_works_may_end_the_wait(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import threading, time\nt = threading.Thread(target=time.sleep, args=(60,))\nt.start()\nt.join()\n"
    result = worker.overdue(plan(tmp_path, text), 4)
    assert [(f["code"], f["at"]["line"]) for f in result["faults"]] == [("DG902", 4)]
