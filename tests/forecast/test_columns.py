"""Lists of distributed tensors: what is found for each kind of tensor is what torch finds for each tensor."""

from __future__ import annotations

from typing import Any

import pytest
from simulated import Simulated

pytestmark = pytest.mark.slow

PROGRAM = """
import torch.distributed as dist
from torch.testing._internal.distributed import fake_pg
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor._api import DTensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from drygrad.worker.forecast.columns import once_for_each_kind

dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=4)
mesh, name = init_device_mesh("cpu", (4,)), "propagate_op_sharding_non_cached"
own, propagator = getattr(ShardingPropagator, name), DTensor._op_dispatcher.sharding_propagator
kinds = [((8, 4), Shard(0)), ((8,), Shard(0)), ((8, 4), Replicate()), ((4, 8), Shard(1))] * 5
weights, others = ([distribute_tensor(torch.ones(shape), mesh, [at]) for shape, at in kinds] for _ in range(2))
mixed = [distribute_tensor(torch.ones(shape), mesh, [Replicate()]) for shape, _ in kinds]
schemas, lengths = [], []

def heard(self, schema):
    schemas.append(schema)
    return own(self, schema)

def counted(self, schema):
    lengths.append(len(schema.args_schema[0]))
    return own(self, schema)

setattr(ShardingPropagator, name, heard)
propagator.propagate_op_sharding = type(propagator.propagate_op_sharding)(getattr(propagator, name))
torch._foreach_mul_(weights, 0.9)
torch._foreach_addcdiv_(weights, others, others, [0.1] * 10 + [0.2] * 10)
torch._foreach_add(weights, mixed)
torch._foreach_sqrt(weights)
torch._foreach_norm(weights)
fewer = once_for_each_kind(counted)
result = []
for schema in schemas:
    if "_foreach_" in str(schema.op):
        lengths.clear()
        found, expected = fewer(propagator, schema), own(propagator, schema)
        same = found.output_spec == expected.output_spec and type(found.output_spec) is type(expected.output_spec)
        same = same and found.needs_redistribute == expected.needs_redistribute
        same = same and str(found.redistribute_schema) == str(expected.redistribute_schema)
        result.append([str(schema.op), same, lengths[0]])
"""


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    process = Simulated(enable=False)
    try:
        outcome = process.outcome(PROGRAM)
    finally:
        process.close()
    assert not outcome.error, outcome.trace
    return {name: rest for name, *rest in outcome.result}


@pytest.mark.parametrize(
    ("operation", "asked"),
    [
        ("aten._foreach_mul_.Scalar", 4),
        ("aten._foreach_addcdiv_.ScalarList", 8),
        ("aten._foreach_add.List", 4),
        ("aten._foreach_sqrt.default", 4),
        ("aten._foreach_norm.Scalar", 4),
    ],
)
def test_each_tensor_gets_what_its_kind_gets(told: dict[str, Any], operation: str, asked: int) -> None:
    same, length = told[operation]
    assert same
    assert length == asked
