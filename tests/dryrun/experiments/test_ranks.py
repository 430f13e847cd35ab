"""Ranks agree: a program is run as several ranks, which exchange values and wait for one another."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest
from verify_lab import Lab, written

from drygrad.dryrun.merge import Record

pytestmark = pytest.mark.slow

BEGIN = """
import os
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
"""

VALUES = """
x = torch.arange(4.0) + 10 * rank
total = x.clone()
dist.all_reduce(total)
assert total.tolist() == [sum(i + 10 * r for r in range(world)) for i in range(4)]
mean = (x > 11).int()
dist.all_reduce(mean, op=dist.ReduceOp.MAX)
assert mean.tolist() == ([0, 0, 1, 1] if world == 1 else [1, 1, 1, 1])
parts = [torch.empty(4) for _ in range(world)]
dist.all_gather(parts, x)
assert [int(part[0]) for part in parts] == [10 * r for r in range(world)]
given = ["of rank 0" if rank == 0 else None]
dist.broadcast_object_list(given, src=0)
assert given == ["of rank 0"]
everyone = [None] * world
dist.all_gather_object(everyone, {"rank": rank})
assert everyone == [{"rank": r} for r in range(world)]
mine = torch.empty(1)
dist.scatter(mine, [torch.full((1,), float(r)) for r in range(world)] if rank == 0 else None, src=0)
assert mine.item() == rank
gathered = [torch.empty(1) for _ in range(world)] if rank == world - 1 else None
dist.gather(mine, gathered, dst=world - 1)
assert gathered is None or [part.item() for part in gathered] == [*range(world)]
share = torch.empty(1)
dist.reduce_scatter(share, [torch.ones(1) * r for r in range(world)])
assert share.item() == rank * world
out = torch.empty(world)
dist.all_to_all_single(out, torch.full((world,), float(rank)))
assert out.tolist() == [*range(world)]
if world > 1:
    token = torch.tensor([float(rank)])
    after, before = (rank + 1) % world, (rank - 1) % world
    got = torch.empty(1)
    works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, got, before), dist.P2POp(dist.isend, token, after)])
    for work in works:
        work.wait()
    assert got.item() == before
    pair = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(token, group=pair)
        assert token.item() == 1
torch.manual_seed(rank)
model = DDP(nn.Linear(4, 1))
weights = [torch.empty(1, 4) for _ in range(world)]
dist.all_gather(weights, model.module.weight.detach())
assert all(torch.equal(one, weights[0]) for one in weights)
model(x).sum().backward()
assert torch.allclose(model.module.weight.grad, (total / world)[None])
dist.barrier()
dist.destroy_process_group()
"""

BROKEN = {
    "a barrier of the first rank": (
        "DG620",
        """
        def load():
            if rank == 0:
                os.getpid()
                {}

        load()
        """,
        "dist.barrier()",
        "pass",
    ),
    "a model that reduces, for the first rank only": (
        "DG620",
        """
        model = DDP(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))

        def evaluate(net):
            return net(torch.ones(3, 2))

        evaluate(net=model).sum().backward()
        if rank == 0:
            {}
        dist.barrier()
        """,
        "evaluate(model)",
        "evaluate(model.module)",
    ),
    "a batch more on one rank": (
        "DG620",
        """
        model = DDP(nn.Linear(2, 2))
        for index in range(rank, 3, world):
            loss = {}(torch.ones(3, 2)).sum()
            loss.backward()
        """,
        "model",
        "model.module",
    ),
    "as many as each has found": (
        "DG621",
        """
        found = torch.arange(rank + 2)
        parts = [torch.empty_like(found) for _ in range(world)]
        {}
        """,
        "dist.all_gather(parts, found)",
        "dist.all_gather_object(parts, found)",
    ),
    "another dtype": (
        "DG621",
        """
        count = torch.zeros(2) if rank else torch.zeros(2, dtype=torch.long)
        {}
        """,
        "dist.all_reduce(count)",
        "dist.all_reduce(count.float())",
    ),
    "a group that only its first member makes": (
        "DG620",
        """
        if rank == 0:
            pair = {}
        """,
        "dist.new_group([0, 1])",
        "None",
    ),
    "a source outside the group": (
        "DG940",
        """
        last = dist.new_group([world - 1])
        if rank == world - 1:
            {}
        """,
        "dist.broadcast(torch.ones(2), src=0, group=last)",
        "dist.broadcast(torch.ones(2), src=rank, group=last)",
    ),
}

RIGHT = (
    """
    if rank != 0:
        dist.barrier()
    os.getpid()
    if rank == 0:
        dist.barrier()
    """,
    """
    for epoch in range(9):
        stop = torch.tensor([int(rank == 0 and epoch == 1)])
        dist.all_reduce(stop)
        if stop.item():
            break
    assert epoch == 1
    """,
    """
    assert int(os.environ.get("RANK", 0)) == rank == int(os.environ.get("LOCAL_RANK", 0))
    """,
)

ALONE = """
half = list(range(world // 2))
group = dist.new_group(half)
if rank in half:
    dist.broadcast(torch.ones(2), src=half[0], group=group)
assert world == 2
"""


def tried(lab: Lab, text: str, ranks: int | None = None) -> Record:
    return lab.experimented(written(BEGIN + text), None, "DG940", ranks=ranks)


def outcome(record: Record) -> str:
    (one,) = [one for one in record.result.tried if one.code == "DG940"]
    return one.outcome or one.why


@pytest.mark.parametrize("case", BROKEN)
def test_what_ranks_do_not_do_alike_is_told_at_its_line(case: str, lab: Lab) -> None:
    code, program, broken, _ = BROKEN[case]
    text = dedent(program).replace("{}", broken)
    record = tried(lab, text)
    line = next(n for n, line in enumerate(written(BEGIN + dedent(program)).lines, 1) if "{}" in line)
    told = [(f.code, f.span.start.line, f.severity) for f in record.findings if f.severity == "error"]
    assert told == [(code, line, "error")], (record.findings, record.result.tried)


def test_what_is_right_holds(lab: Lab) -> None:
    twins = [dedent(program).replace("{}", right) for _, program, _, right in BROKEN.values()]
    record = tried(lab, "\n".join([*twins, *map(dedent, RIGHT)]))
    assert (outcome(record), list(record.findings)) == ("held", []), record.result.tried


def test_what_fails_only_alone_is_not_told(lab: Lab) -> None:
    record = tried(lab, dedent(ALONE))
    assert (outcome(record), list(record.findings)) == ("held", [])
    assert "needs more than one rank" in str(record.result.reason)


def test_an_error_of_one_alone_is_a_hint_where_ranks_cannot_be_followed(lab: Lab) -> None:
    record = tried(lab, "if world > 1:\n    raise TimeoutError\nassert world > 1, 'alone'\n")
    assert outcome(record) == "not-tried"
    (finding,) = record.findings
    assert (finding.code, finding.severity) == ("DG907", "hint")
    assert finding.message.endswith(", in a process group of one")


def test_collectives_have_the_results_of_as_many_ranks(lab: Lab) -> None:
    record = tried(lab, VALUES, ranks=3)
    assert (outcome(record), list(record.findings)) == ("held", []), record.result.tried


MESH = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

mesh = init_device_mesh("cuda", (3,))
assert torch.cuda.current_device() == mesh.get_rank()
whole = torch.arange(6.0, device="cuda")
shared = distribute_tensor(whole, mesh, [Shard(0)])
assert shared.to_local().tolist() == [2 * mesh.get_rank(), 2 * mesh.get_rank() + 1]
{}
    assert torch.equal(shared.full_tensor(), whole)
"""


def test_a_mesh_of_several_ranks_has_as_many(lab: Lab) -> None:
    record = lab.experimented(written(MESH.replace("{}", "if True:")), None, "DG940")
    assert (outcome(record), list(record.findings)) == ("held", []), record.result.tried
    record = lab.experimented(written(MESH.replace("{}", "if mesh.get_rank() == 0:")), None, "DG940")
    assert [f.code for f in record.findings] == ["DG620"]
    assert "waits in all_gather in `DTensor.full_tensor()`" in record.findings[0].message


EPOCHS = """
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

data = TensorDataset(torch.randn(8, 2))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=4, sampler=sampler)
model = DDP(nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(batches):
    for (x,) in batches:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()

for epoch in range(2):
    {}
    train(loader)
"""


def test_an_order_that_two_passes_of_training_have_in_common_is_told(lab: Lab) -> None:
    record = tried(lab, EPOCHS.replace("{}", "pass"))
    line = next(n for n, line in enumerate(written(BEGIN + EPOCHS).lines, 1) if "DistributedSampler(data)" in line)
    assert [(f.code, f.span.start.line) for f in record.findings] == [("DG727", line)]
    assert outcome(record) == "held"
    assert tried(lab, EPOCHS.replace("{}", "sampler.set_epoch(epoch)")).findings == ()


UNEVEN = """
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(40 - 4 * rank, 2)), batch_size=4)
model = DDP(nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


def test_loaders_of_unlike_lengths_are_told_though_their_ends_are_far(lab: Lab) -> None:
    record = tried(lab, UNEVEN)
    assert [(f.code, f.severity) for f in record.findings] == [("DG620", "warning")]
    assert "10 batches on rank 0 and 9" in record.findings[0].message


SKIPPING = """
model = DDP(nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for index in range(8):
    good = torch.tensor(int(rank == 0 or index != 1))
    {}
    if not good:
        continue
    optimizer.zero_grad()
    model(torch.ones(2, 2)).mean().backward()
    optimizer.step()
"""


def test_a_pass_that_one_rank_leaves_out_is_told(lab: Lab) -> None:
    record = tried(lab, SKIPPING.replace("{}", "pass"))
    line = next(n for n, line in enumerate(written(BEGIN + SKIPPING).lines, 1) if "continue" in line)
    assert [(f.code, f.span.start.line, f.severity) for f in record.findings] == [("DG620", line, "warning")]
    record = tried(lab, SKIPPING.replace("{}", "dist.all_reduce(good, op=dist.ReduceOp.MIN)"))
    assert (outcome(record), list(record.findings)) == ("held", [])


def test_a_program_without_a_process_group_has_no_ranks(lab: Lab) -> None:
    record = lab.experimented(written("def f():\n    return torch.ones(2)\n"), "f", "DG940")
    assert outcome(record) == "not-tried"
    assert replace(record.result, tried=()).faults == ()
