"""Programs for several processes run as one: in groups of torch's backend for that, with a launch's variables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_client import WorkerClient, plan

ALONE = "the process group has one member; collectives return their input"
LAUNCHED = "the program expects torchrun; it gets the environment of a single-process launch (RANK is 0)"
BEGIN = (
    "import torch, torch.distributed as dist\ndist.init_process_group('nccl')\nx = torch.arange(4.0, device=DEVICE)\n"
)
COLLECTIVES = """\
def new():
    return torch.full((4,), -1.0, device=DEVICE)
outputs = [new() for _ in range(8)]
dist.all_gather([outputs[0]], x)
dist.all_gather_into_tensor(outputs[1], x)
dist.reduce_scatter_tensor(outputs[2], x)
dist.reduce_scatter(outputs[3], [x])
dist.scatter(outputs[4], [x])
dist.gather(x, [outputs[5]])
dist.all_to_all([outputs[6]], [x])
dist.all_to_all_single(outputs[7], x)
dist.all_reduce(x, op=dist.ReduceOp.AVG)
dist.broadcast(x, src=0)
work = dist.all_reduce(x, async_op=True)
work.wait()
dist.barrier(device_ids=[0])
dist.monitored_barrier()
objects = [None, None, None]
dist.all_gather_object(objects[:1], "a")
given = [{"b": 1}]
dist.broadcast_object_list(given, 0)
assert all(torch.equal(output, x) for output in outputs), outputs
assert x.tolist() == work.get_future().value()[0].tolist() == [0, 1, 2, 3]
print(dist.get_backend(), dist.get_world_size(), dist.get_rank(), given, dist.get_world_size(dist.new_group([0])))
dist.destroy_process_group()
print(dist.is_initialized())
"""
SHARDED = """\
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
mesh = init_device_mesh(DEVICE, (1,), mesh_dim_names=("data",))
plain = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)).to(DEVICE)
expected = plain(x[None]).detach().clone()
for layer in plain:
    fully_shard(layer, mesh=mesh)
model = fully_shard(plain, mesh=mesh["data"])
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    out = model(x[None])
    out.sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    assert expected is None or torch.equal(expected, out)
    expected = None
print(type(model[0].weight).__name__, model[0].weight.full_tensor().shape)
"""
TENSORS = """\
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh(DEVICE, (1,))
shared = distribute_tensor(torch.ones(4, 4, device=DEVICE), mesh, [Shard(0)])
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).to(DEVICE)
model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
model(x[None]).sum().backward()
print((shared @ shared).full_tensor().sum().item(), model[0].weight.grad.to_local().shape)
"""
REPLICATED = """\
from torch.nn.parallel import DistributedDataParallel
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
for hook in (None, default_hooks.fp16_compress_hook):
    options = {} if hook is None else {"find_unused_parameters": True}
    model = DistributedDataParallel(torch.nn.Linear(4, 1).to(DEVICE), **options)
    if hook is not None:
        model.register_comm_hook(None, hook)
    with model.no_sync():
        model(x).sum().backward()
    model(x).sum().backward()
    print(model.module.weight.grad.tolist())
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerClient]:
    with WorkerClient() as client:
        client.receive("ready")
        yield client


def output(worker: WorkerClient, folder: Path, text: str, device: str, **fields: Any) -> str:
    name = "cpu" if device == "cpu" else "cuda"
    result = worker.run(plan(folder, text.replace("DEVICE", repr(name)), device=device, timeout=60.0, **fields))
    assert (result["outcome"], result["faults"]) == ("passed", []), (result["faults"], result["notes"])
    assert ALONE in result["notes"]
    return result["output"]["text"]


DEVICES = pytest.mark.parametrize("device", ["cpu", "sim"])


@pytest.mark.slow
@DEVICES
def test_each_collective_gives_back_what_was_put_in(worker: WorkerClient, tmp_path: Path, device: str) -> None:
    said = output(worker, tmp_path, BEGIN + COLLECTIVES, device)
    assert said.endswith("nccl 1 0 [{'b': 1}] 1\nFalse\n")


@pytest.mark.slow
@DEVICES
def test_a_model_is_sharded_over_one_device(worker: WorkerClient, tmp_path: Path, device: str) -> None:
    assert output(worker, tmp_path, BEGIN + SHARDED, device).endswith("DTensor torch.Size([4, 4])\n")


@pytest.mark.slow
@DEVICES
def test_tensors_are_distributed_over_one_device(worker: WorkerClient, tmp_path: Path, device: str) -> None:
    assert output(worker, tmp_path, BEGIN + TENSORS, device).endswith("64.0 torch.Size([4, 4])\n")


@DEVICES
def test_gradients_are_reduced_with_and_without_a_hook(worker: WorkerClient, tmp_path: Path, device: str) -> None:
    assert output(worker, tmp_path, BEGIN + REPLICATED, device).endswith("[[0.0, 2.0, 4.0, 6.0]]\n" * 2)


def test_a_mesh_begins_the_group_itself(worker: WorkerClient, tmp_path: Path) -> None:
    text = "from torch.distributed.device_mesh import init_device_mesh\nprint(init_device_mesh(DEVICE, (1,)).size())\n"
    assert output(worker, tmp_path, text, "sim").endswith("1\n")


def test_a_mesh_of_more_processes_cannot_be_had(worker: WorkerClient, tmp_path: Path) -> None:
    text = "from torch.distributed.device_mesh import init_device_mesh\ninit_device_mesh('cpu', (4, 2))\n"
    result = worker.run(plan(tmp_path, text))
    assert (result["outcome"], result["faults"]) == ("unsupported", [])


def test_a_function_alone_has_the_group_that_the_program_begins_elsewhere(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import torch.distributed as dist\ndef f():\n    print(dist.get_rank(), dist.get_world_size())\n"
    result = worker.run(plan(tmp_path, text, "f"))
    assert (result["outcome"], result["output"]["text"]) == ("passed", "0 1\n")
    assert any("the program creates elsewhere" in note for note in result["notes"])


def test_a_script_that_forgets_to_begin_its_group_is_told(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, "import torch.distributed as dist\ndist.get_rank()\n"))
    assert [(f["code"], f["at"]["line"]) for f in result["faults"]] == [("DG907", 2)]


def test_processes_are_not_started_but_the_first_of_them_runs(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import torch.multiprocessing as mp\ndef f(rank, n):\n    print(rank, n)\nmp.spawn(f, args=(4,), nprocs=4)\n"
    assert worker.run(plan(tmp_path, text))["output"]["text"] == "0 4\n"


@pytest.mark.parametrize(
    ("text", "said", "launched"),
    [
        ("import os\nprint(os.environ['LOCAL_RANK'], os.environ.get('WORLD_SIZE'))\n", "0 1\n", True),
        ("import os\nprint(int(os.getenv('RANK')) + int(os.environ['MASTER_PORT']))\n", "29500\n", True),
        ("import os\nprint(os.environ.get('RANK', -1), 'RANK' in os.environ)\n", "-1 False\n", False),
        ("import os\nprint(os.getenv('RANK'))\n", "None\n", False),
    ],
)
def test_who_needs_the_variables_of_a_launch_has_them(
    worker: WorkerClient, tmp_path: Path, text: str, said: str, launched: bool
) -> None:
    result = worker.run(plan(tmp_path, text))
    assert (result["outcome"], result["output"]["text"]) == ("passed", said)
    assert (LAUNCHED in result["notes"]) == launched
