"""Hooks that are registered again and again are reported where that happens, unless something removes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import spots, the_fault, watch

from drygrad.worker.instruments.piling_hooks import PilingHooks

BEGIN = """
model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.ones(2, 3)
kept = []
"""
PILED = {
    "a closure in a loop": """
for _ in range(4):
    model[0].register_forward_hook(lambda module, args, out: kept.append(out.detach()))
    model(x)
""",
    "a method, through a helper": """
class Probe:
    def __init__(self, layer): layer.register_forward_pre_hook(self.seen)
    def seen(self, module, args): kept.append(args)
with torch.no_grad():
    for _ in range(4):
        Probe(model[1])
        model(x)
""",
    "a gradient's": """
for _ in range(4):
    model[0].weight.register_hook(lambda gradient: kept.append(gradient.norm()))
    model(x).sum().backward()
""",
}
LEFT_ALONE = {
    "removed": """
for _ in range(4):
    handle = model[0].register_forward_hook(lambda module, args, out: kept.append(out.detach()))
    model(x)
    handle.remove()
""",
    "all before the first call": """
for name in "abcd":
    model[0].register_forward_hook(lambda module, args, out: kept.append(name))
model(x)
""",
    "one for each layer": """
for layer in nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)]):
    layer.register_forward_hook(lambda module, args, out: kept.append(out.detach()))
    layer(x)
""",
    "on models that are gone": """
for _ in range(4):
    model = nn.Linear(3, 3)
    model.register_forward_hook(lambda module, args, out: kept.append(out.detach()))
    model(x)
""",
    "torch's own": """
for _ in range(4):
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    layer(x)
    torch.autograd.graph.register_multi_grad_hook([*model.parameters()], print).remove()
""",
}


@pytest.mark.parametrize("case", PILED)
def test_hooks_that_pile_up(case: str, tmp_path: Path) -> None:
    the_fault(watch(tmp_path, BEGIN + PILED[case], PilingHooks), "DG510", 6, "4 copies of this hook")


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_hooks_that_do_not(case: str, tmp_path: Path) -> None:
    assert spots(watch(tmp_path, BEGIN + LEFT_ALONE[case], PilingHooks)) == []
