"""One rank of several: its shards, what it gathers and gives back, and what the other libraries take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulated import Simulated
from worker_client import WorkerClient, plan

from drygrad.gpus import gpu_named

pytestmark = pytest.mark.slow  # whole programs, of several ranks each

BEGIN = """
import torch.distributed as dist
from torch.testing._internal.distributed import fake_pg
from torch.distributed.device_mesh import init_device_mesh
dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=8)

class Block(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

def train(model, parameters, **options):
    optimizer = torch.optim.AdamW(parameters, **options)
    for _ in range(3):
        model(torch.randn(4, 64, 256, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
PROGRAMS = {
    "fully_shard": """
from torch.distributed.fsdp import fully_shard
model = nn.Sequential(*[Block() for _ in range(4)]).cuda()
for block in model:
    fully_shard(block)
fully_shard(model)
train(model, model.parameters())
""",
    "gradients sharded only": """
from torch.distributed.fsdp import fully_shard
model = nn.Sequential(*[Block() for _ in range(4)]).cuda()
for block in model:
    fully_shard(block, reshard_after_forward=False)
fully_shard(model, reshard_after_forward=False)
train(model, model.parameters())
""",
    "FullyShardedDataParallel": """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
model = FSDP(nn.Sequential(*[Block() for _ in range(4)]), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=0)
train(model, model.parameters())
""",
    "tensor parallel": """
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh("cuda", (8,))
model = nn.Sequential(*[Block() for _ in range(4)]).cuda()
for block in model:
    parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
train(model, model.parameters(), foreach=False)
""",
    "lists of parts": """
x = torch.randn(1024, 1024, device="cuda")
parts = [torch.empty_like(x) for _ in range(8)]
dist.all_gather(parts, x)
dist.all_reduce(parts[0])
result = dist.get_world_size()
""",
}
TRAINED = """\
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

def begun():
    dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    return nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(4)]).cuda()

def train(model):
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        model(torch.randn(8, 1024, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

def shards():
    model = begun()
    for layer in model:
        fully_shard(layer)
    train(fully_shard(model))

def copies():
    train(DistributedDataParallel(begun()))
"""
WEIGHTS = 4 * 4 * 1024 * 1024
MIB = 1 << 20


@pytest.fixture(scope="module")
def peaks() -> Any:
    """The outcome of each program, with memory and without."""
    code = "from without_memory import executed\nresult = executed({!r}, really={})"
    asked = [
        code.format(BEGIN + text + "\ndist.destroy_process_group()\n", r) for text in PROGRAMS.values() for r in (0, 1)
    ]
    simulated = Simulated()
    try:
        outcomes = simulated.outcomes(asked)
    finally:
        simulated.close()
    pairs = zip(outcomes[::2], outcomes[1::2], strict=True)
    return dict(zip(PROGRAMS, pairs, strict=True))


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "lists of parts"])
def test_a_rank_takes_what_it_takes_with_memory(peaks: Any, name: str) -> None:
    virtual, real = peaks[name]
    assert not virtual.error, virtual.trace
    assert not real.error, real.trace
    assert virtual.result["peak"] == real.result["peak"] > 0


def test_nccl_gathers_lists_in_one_stretch(peaks: Any) -> None:
    """The group that stands for it here copies from one part to the next, as NCCL does not."""
    virtual, real = peaks["lists of parts"]
    assert virtual.result["peak"] == real.result["peak"] + 8 * 4 * MIB
    assert virtual.result["result"] == 8


@pytest.fixture(scope="module")
def forecasts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("ranks")
    asked: dict[str, Any] = {"gpu": gpu_named("h100").as_wire(), "ranks": 8}
    told: dict[str, Any] = {}
    with WorkerClient() as worker:
        for name in ("shards", "copies"):
            result = worker.run(plan(Path(folder), TRAINED, target=name, device="sim", forecast=asked))
            assert result["outcome"] == "passed", result["error"]
            told[name] = result["forecast"]
    return told


def test_shards(forecasts: Any) -> None:
    told = forecasts["shards"]
    assert told["ranks"] == 8
    assert told["kinds"]["states"] == pytest.approx(2 * WEIGHTS / 8, rel=0.01)
    gathered = told["kinds"]["parameters"] - WEIGHTS / 8
    assert 0 < gathered <= WEIGHTS / 2  # that of the next layer is there, too


def test_buckets(forecasts: Any) -> None:
    told = forecasts["copies"]
    assert told["kinds"]["gradients"] == 2 * WEIGHTS
    assert "a bucket of DistributedDataParallel" in {tensor["name"] for tensor in told["tensors"]}


@pytest.mark.parametrize("name", ["shards", "copies"])
def test_communicators(forecasts: Any, name: str) -> None:
    told = forecasts[name]
    assert told["communicators"] == 1
    assert any("NCCL takes 128 MiB for its communicator" in each for each in told["assumptions"])
    assert any("the first of 8 ranks" in each for each in told["assumptions"])
