"""Frames of drygrad's own in what a program raises and prints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worker_client import WorkerClient, plan

from drygrad.worker import frames


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerClient]:
    with WorkerClient() as client:
        client.receive("ready")
        yield client


BROKEN = """\
import torch
from drygrad.worker import watch
{broken}
def work():
    return torch.ones(3) + 1
work()
"""
OURS = ["del watch.Lines.created", "raise RuntimeError('in <drygrad.worker.x>')"]


@pytest.mark.parametrize("broken", OURS)
def test_what_drygrads_own_code_raises_is_no_error_of_the_program(
    worker: WorkerClient, tmp_path: Path, broken: str
) -> None:
    result = worker.run(plan(tmp_path, BROKEN.format(broken=broken)))
    assert (result["outcome"], result["faults"]) == ("unsupported", [])
    assert "drygrad cannot trace" in result["reason"]


def test_what_passes_through_our_frames_is_the_programs(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, "import torch\ntorch.ones(3).resolve_conj().item()\n"))
    assert result["outcome"] == "failed"
    assert result["faults"][0]["code"] == "DG907"


def test_a_traceback_that_a_program_prints_has_no_frames_of_ours(worker: WorkerClient, tmp_path: Path) -> None:
    text = (
        "import traceback, torch\n"
        "def work():\n    return torch.ones(2, 3).mm(torch.ones(2, 3))\n"
        "try:\n    work()\nexcept RuntimeError:\n    print(traceback.format_exc())\n"
    )
    printed = worker.run(plan(tmp_path, text))["output"]["text"]
    assert "in work" in printed
    assert "RuntimeError: mat1 and mat2" in printed
    assert "drygrad" not in printed


def test_an_error_without_a_traceback_is_none_of_ours() -> None:
    nothing: Any = SimpleNamespace()
    with pytest.raises(AttributeError) as raised:
        _ = nothing.missing
    assert not frames.is_ours(raised.value)
    assert not frames.is_ours(KeyError("x"))


FLEX = """\
import torch
from torch.nn.attention.flex_attention import flex_attention
q = torch.randn(1, 2, 128, 16, requires_grad=True)
flex_attention(q, q, q).sum().backward()
"""
ANOTHERS = """\
import torch
x = torch.ones(3, device="cuda")
raise NotImplementedError("no such thing on the CPU")
"""


@pytest.mark.parametrize(("text", "ended"), [(FLEX, "unsupported"), (ANOTHERS, "failed DG907")])
def test_what_torch_cannot_do_on_the_cpu_is_no_fault_where_a_gpu_is_simulated(
    worker: WorkerClient, tmp_path: Path, text: str, ended: str
) -> None:
    result = worker.run(plan(tmp_path, text, device="sim"))
    assert " ".join([result["outcome"], *(fault["code"] for fault in result["faults"])]) == ended
