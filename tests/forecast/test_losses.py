"""Losses lie in as much memory as torch's kernels leave them in."""

from __future__ import annotations

import pytest
from simulated import Simulated

LOSSES = (
    "mse_loss smooth_l1_loss soft_margin_loss binary_cross_entropy l1_loss huber_loss kl_div "
    "binary_cross_entropy_with_logits"
).split()
CODE = """
import warnings
from drygrad.worker.forecast.results import Results
warnings.simplefilter("ignore")
results, found = Results(lambda tensor: False), []

class Heard(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and not made.dim():
            known = results.of(func, args, kwargs or {}).result
            found.append((max(known.room, known.bytes), made.untyped_storage().nbytes()))
        return made

for reduction in ("mean", "sum"):
    with Heard():
        F.LOSS(torch.rand(8, 16, requires_grad=True), torch.rand(8, 16), reduction=reduction)
result = found
"""


@pytest.fixture(scope="module")
def found() -> dict[str, list[list[int]]]:
    process = Simulated(enable=False)
    try:
        outcomes = process.outcomes([CODE.replace("LOSS", name) for name in LOSSES])
    finally:
        process.close()
    assert not [one.trace for one in outcomes if one.error]
    return {name: outcome.result for name, outcome in zip(LOSSES, outcomes, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_takes_what_it_takes_with_memory(found: dict[str, list[list[int]]], name: str) -> None:
    assert found[name]
    for said, taken in found[name]:
        assert said == taken
