"""What only a real device can show: its memory is shared, its errors poison, and what a run takes it gives back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_machine import STAND_IN, Machine
from worker_client import WorkerClient, plan

from drygrad.dryrun.choice import ROOM, choose
from drygrad.dryrun.states import State

GIB = 1 << 30
HEAD = "import torch\nimport torch.nn as nn\n"
SLACK = 64 << 20
"""Bytes by which other processes may change the free memory between two looks."""
ASK = "import torch; print(torch.cuda.mem_get_info()[0])"


def run(machine: Machine, folder: Path, text: str, **fields: Any) -> dict[str, Any]:
    return machine.worker.run(plan(folder, HEAD + text, **{"device": machine.real, **fields}))


def printed(result: dict[str, Any]) -> list[str]:
    assert result["outcome"] == "passed", (result["error"], result["notes"])
    return result["output"]["text"].split()


def free_bytes() -> int:
    """Return the free memory of the GPU, as a process of its own sees it."""
    return int(subprocess.run([sys.executable, "-c", ASK], capture_output=True, check=True, timeout=120).stdout)


def comes_back(before: int) -> bool:
    """Wait until the memory that was free is free again."""
    end = time.monotonic() + 20
    while free_bytes() < before - SLACK:
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


needs_gpu = pytest.mark.skipif(bool(STAND_IN), reason="nothing stands in for the memory of a GPU")


@needs_gpu
def test_a_run_is_held_to_a_share_of_what_is_free(
    machine: Machine, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    asked = "print(torch.cuda.get_per_process_memory_fraction(), *torch.cuda.mem_get_info())"
    fraction, free, total = map(float, printed(run(machine, tmp_path, asked)))
    record_property("fraction", fraction)
    assert 0 < fraction * total <= 0.91 * free
    (limited,) = printed(run(machine, tmp_path, asked.split(",", maxsplit=1)[0] + ")", gpu_memory=GIB))
    assert float(limited) * total == pytest.approx(GIB, rel=1e-3)


def test_more_than_its_share_is_refused_at_the_line_and_the_next_run_works(machine: Machine, tmp_path: Path) -> None:
    result = run(machine, tmp_path, "x = torch.ones(1 << 30, device='cuda')\n", gpu_memory=GIB)
    assert result["outcome"] == "out-of-memory"
    assert [(fault["code"], fault["at"]["line"]) for fault in result["faults"]] == [("DG507", 3)]
    assert printed(run(machine, tmp_path, "print(torch.ones(3, device='cuda').sum().item())")) == ["3.0"]


@needs_gpu
def test_nothing_is_left_on_the_gpu(machine: Machine, tmp_path: Path) -> None:
    before = free_bytes()
    printed(run(machine, tmp_path, "x = torch.ones(1 << 28, device='cuda')\nprint(x.sum().item() > 0)"))
    assert comes_back(before)
    holding = "x = torch.ones(1 << 28, device='cuda')\nwhile True:\n    x.sum().item()\n"
    name = machine.worker.start(plan(tmp_path, HEAD + holding, device=machine.real, timeout=60.0))
    time.sleep(10)
    assert free_bytes() < before - (1 << 29)
    machine.worker.send({"type": "cancel", "run": name})
    assert machine.worker.receive("result", name)["result"]["outcome"] == "cancelled"
    assert comes_back(before)


@needs_gpu
def test_a_killed_worker_leaves_nothing_on_the_gpu(machine: Machine, tmp_path: Path) -> None:
    before = free_bytes()
    with WorkerClient() as worker:
        worker.receive("ready", timeout=180)
        holding = "x = torch.ones(1 << 28, device='cuda')\nwhile True:\n    x.sum().item()\n"
        worker.start(plan(tmp_path, HEAD + holding, device=machine.real, timeout=60.0))
        time.sleep(10)
        assert free_bytes() < before - (1 << 29)
        os.kill(worker.process.pid, signal.SIGKILL)
    assert comes_back(before)


ASSERTING = """
table = nn.Embedding(10, 4).cuda()
try:
    print(table(torch.tensor([3, 12], device="cuda")).sum().item())
except Exception:
    pass
print(torch.ones(3, device="cuda").sum().item())
"""


def test_an_index_is_judged_before_the_kernel_that_would_poison_the_context(machine: Machine, tmp_path: Path) -> None:
    result = run(machine, tmp_path, ASSERTING)
    (fault,) = result["faults"]
    assert (fault["code"], fault["at"]["line"]) == ("DG302", 4), "the table is too short"
    assert [related["at"]["line"] for related in fault["related"]] == [6]
    assert result["output"]["text"].split() == ["3.0"]


WAITING = """
model = nn.Linear(4, 2).cuda()
for step in range(3):
    x = torch.randn(8, 4).cuda()
    loss = model(x).sum()
    print(loss.item())
    positive = x[x > 0]
    host = loss.detach().cpu()
torch.cuda.synchronize()
"""


def test_waits_and_copies_are_counted_as_on_the_simulated_device(machine: Machine, tmp_path: Path) -> None:
    rows = {
        device: {
            (row["line"], row["kind"]): row["count"] for row in run(machine, tmp_path, WAITING, device=device)["syncs"]
        }
        for device in (machine.real, "sim")
    }
    assert rows[machine.real] == rows["sim"]
    assert rows["sim"] == {
        (4, "h2d"): 1, (6, "h2d"): 3, (8, "sync"): 3, (9, "sync"): 3, (10, "d2h"): 3, (11, "sync"): 1
    }  # fmt: skip


@needs_gpu
def test_the_choice_of_a_device_follows_the_room(machine: Machine) -> None:
    full = {**machine.ready, "cuda": {**machine.ready["cuda"], "free_bytes": [ROOM // 2]}}
    roomy = machine.ready["cuda"]["free_bytes"][0] >= ROOM
    assert choose(State("ready", sys.executable, ready=machine.ready))[0] == ("cuda" if roomy else "sim")
    assert choose(State("ready", sys.executable, ready=full))[0] == "sim"


def test_a_module_that_speaks_to_the_driver_when_imported_does_not_spoil_the_runs(tmp_path: Path) -> None:
    """Such a module is not imported ahead, in the process that runs are forked from."""
    modules, project = tmp_path / "site-packages", tmp_path / "project"
    modules.mkdir()
    project.mkdir()
    (modules / "eager_module.py").write_text("import torch\ntorch.zeros(1, device='cuda')\n")
    with WorkerClient(environment={"PYTHONPATH": str(modules)}) as worker:
        ready = worker.receive("ready", timeout=180)
        if not ready["cuda"]["available"] and not STAND_IN:
            pytest.skip("no GPU")
        text = "import eager_module\nimport torch\nprint(torch.ones(3, device='cuda').sum().item())\n"
        for _ in range(2):
            result = worker.run(plan(project, text, device=STAND_IN or "cuda"))
            assert printed(result) == ["3.0"]


@needs_gpu
def test_no_gpu_is_a_reason_not_a_crash(machine: Machine, tmp_path: Path) -> None:
    with WorkerClient(environment={"CUDA_VISIBLE_DEVICES": ""}) as worker:
        assert worker.receive("ready", timeout=180)["cuda"]["available"] is False
        result = worker.run(plan(tmp_path, HEAD, device="cuda"))
    assert result["outcome"] == "unsupported"
    assert "no GPU" in result["notes"][0]
