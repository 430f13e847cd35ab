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
    def __init__(self, width=256, norm=True):
        super().__init__()
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
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
    "mixed precision, prefetched, made without memory first": """
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
mesh, policy = init_device_mesh("cuda", (8,)), MixedPrecisionPolicy(torch.bfloat16, torch.float32)
with torch.device("meta"):
    model = nn.Sequential(*[Block(norm=False) for _ in range(4)])  # a GPU has a norm's statistics in float32
for block in model:
    fully_shard(block, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
for block, following in zip(model, list(model)[1:]):
    block.set_modules_to_forward_prefetch([following])
model.to_empty(device="cuda")
for parameter in model.parameters():
    nn.init.normal_(parameter)
train(model, model.parameters(), fused=True)
""",
    "copies of shards": """
from torch.distributed.fsdp import fully_shard
mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("copies", "shards"))
model = nn.Sequential(*[Block() for _ in range(4)]).cuda()
for block in model:
    fully_shard(block, mesh=mesh)
train(fully_shard(model, mesh=mesh), model.parameters())
""",
    "shards on the host": """
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
model = nn.Sequential(*[Block() for _ in range(4)])
for block in model:
    fully_shard(block, offload_policy=CPUOffloadPolicy())
train(fully_shard(model, offload_policy=CPUOffloadPolicy()), model.parameters())
""",
    "FullyShardedDataParallel in mixed precision": """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
blocks = nn.Sequential(*[Block(norm=False) for _ in range(4)]).cuda()
model = FSDP(blocks, auto_wrap_policy=ModuleWrapPolicy({Block}),
             mixed_precision=MixedPrecision(torch.bfloat16, torch.bfloat16), use_orig_params=True,
             forward_prefetch=True, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)
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

def sliced():
    model = nn.ModuleDict({"layers": nn.ModuleList([*begun()])})
    rest = model["layers"][1:]
    train(nn.Sequential(model["layers"][0], *rest))

def piped():
    from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B
    modules = [begun(), nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(4)]).cuda()]
    stages = [PipelineStage(module, 8 * number, 16, torch.device("cuda", 0)) for number, module in enumerate(modules)]
    schedule = ScheduleInterleaved1F1B(stages, n_microbatches=8, loss_fn=nn.MSELoss())
    schedule.step(torch.randn(8 * 256, 1024, device="cuda"))
"""
WEIGHTS = 4 * 4 * 1024 * 1024
MIB = 1 << 20
LLAMA = (Path(__file__).parents[1] / "data" / "forecast" / "llama.py").read_text()
TOLD_AT_END = (
    "\nimport resource, time\nprint(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
)


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
        for name in ("shards", "copies", "sliced", "piped"):
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


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The result of 70 billion parameters over 64 ranks."""
    folder = tmp_path_factory.mktemp("llama")
    asked: dict[str, Any] = {"gpu": gpu_named("h100").as_wire()}
    with WorkerClient() as worker:
        result = worker.run(plan(folder, LLAMA + TOLD_AT_END, device="sim", forecast=asked, timeout=600.0))
    assert result["outcome"] == "passed", result["error"]
    return result


def test_a_rank_of_many_has_its_share_and_what_it_gathers(llama: Any) -> None:
    told = llama["forecast"]
    hidden, wide, small, vocabulary = 8192, 28672, 1024, 128256
    block = 2 * hidden * hidden + 2 * hidden * small + 3 * hidden * wide + 2 * hidden
    ends = 2 * vocabulary * hidden + hidden
    share = 4 * (80 * block + ends) / 64
    assert told["ranks"] == 64
    assert told["kinds"]["states"] == pytest.approx(2 * share, rel=0.01)
    # In bfloat16: the ends from forward on, the block that is computed, and the next one as it arrives.
    assert told["kinds"]["parameters"] == pytest.approx(share + 2 * ends + 2 * 2 * block, rel=0.01)
    # In float32: the gradients of a whole block, before they are spread.
    assert told["kinds"]["gradients"] == pytest.approx(4 * block, rel=0.03)
    assert told["phases"]["optimizer"] < 4 * share + 2 * ends + 2 * 2 * block
    assert not any(row["kind"] == "inputs" and row["bytes"] > MIB for row in told["by_line"])


def test_tensors_of_shards_are_named(llama: Any) -> None:
    names = {tensor["name"] for tensor in llama["forecast"]["tensors"]}
    assert {"tok.weight", "out.weight", "gradients on their way to other ranks"} < names
    assert "parameters on their way from other ranks" in names


def test_many_parameters_take_little_time_and_memory(llama: Any) -> None:
    seconds, kibibytes = map(float, llama["output"]["text"].split()[-2:])
    assert seconds < 60
    assert kibibytes < 1 << 20


def test_what_is_sliced_keeps_its_name(forecasts: Any) -> None:
    tensors: list[dict[str, Any]] = forecasts["sliced"]["tensors"]
    weights = {tensor["name"] for tensor in tensors if tensor["kind"] == "parameters"}
    assert weights == {f"layers.{place}.weight" for place in range(4)}


def test_buckets(forecasts: Any) -> None:
    told = forecasts["copies"]
    assert told["kinds"]["gradients"] == 2 * WEIGHTS
    assert "a bucket of DistributedDataParallel" in {tensor["name"] for tensor in told["tensors"]}


def test_the_first_rank_of_a_pipeline_keeps_each_micro_batch_until_its_gradient_comes(forecasts: Any) -> None:
    told = forecasts["piped"]
    assert told["kinds"]["parameters"] == 2 * WEIGHTS
    # Both stages keep what their four layers give of all eight. At the peak, one has gone backward again.
    assert told["kinds"]["activations"] == (2 * 8 - 1) * 4 * MIB
    assert told["kinds"]["gradients"] == pytest.approx(WEIGHTS, rel=0.1)
    assert any("stages on other ranks are taken to give" in each for each in told["assumptions"])


@pytest.mark.parametrize("name", ["shards", "copies"])
def test_communicators(forecasts: Any, name: str) -> None:
    told = forecasts[name]
    assert told["communicators"] == 1
    assert any("NCCL takes 128 MiB for its communicator" in each for each in told["assumptions"])
    assert any("the first of 8 ranks" in each for each in told["assumptions"])
