"""Gradients are true: backwards are compared with finite differences, and what trains and matters has a gradient."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_harness import examined, line_of

from drygrad.worker.experiments.gradient import GradientsAreTrue
from drygrad.worker.run import Fault

_NET = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)
            self.scale, self.shift = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(0.5))

        def f(self, x):
            hidden = self.first(x).relu()
            {}
            return self.second(hidden)
    """
_GIVEN = "self=f(), x=torch.randn(4, 6)"

PAIRS = {
    "a tensor made of parameters": (
        "hidden = hidden * torch.tensor([self.scale, self.shift]).prod()",
        "hidden = hidden * torch.stack([self.scale, self.shift]).prod()",
        "warning",
        "`self.scale`, `self.shift` have no gradient, although the result depends on them: the graph ends here",
    ),
    "a parameter that is used as a number": (
        "hidden = hidden * self.scale.item() + self.shift",
        "hidden = hidden * self.scale + self.shift",
        "warning",
        "`self.scale` has no gradient, although the result depends on it: used as a number here",
    ),
    "the data of a parameter": (
        "hidden = hidden * self.scale.data + self.shift",
        "hidden = hidden * self.scale + self.shift",
        "info",
        "`self.scale` has no gradient",
    ),
    "a part that is detached": (
        "hidden = hidden.detach()",
        "hidden = hidden + 1",
        "info",
        "`self.first.weight`, `self.first.bias` have no gradient",
    ),
    "a threshold that is learnt in vain": (
        "hidden = hidden * (hidden > self.shift)",
        "hidden = hidden * torch.sigmoid(10 * (hidden - self.shift))",
        "info",
        "`self.shift` has no gradient",
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_what_matters_and_has_no_gradient_is_told_where_its_graph_ends(case: str, tmp_path: Path) -> None:
    broken, right, severity, words = PAIRS[case]
    text = _NET.replace("{}", broken)
    (fault,) = examined(tmp_path, GradientsAreTrue, text, _GIVEN)
    assert isinstance(fault, Fault)
    assert (line_of(text, fault), fault.code, fault.severity) == (broken, "DG935", severity)
    assert words in fault.message
    assert examined(tmp_path, GradientsAreTrue, _NET.replace("{}", right), _GIVEN) == []


HELD = {
    "parameters that nothing uses": "pass",
    "gradients that are switched off": "with torch.no_grad():\n                hidden = hidden * self.scale",
    "a parameter that is frozen": "hidden = hidden * self.scale.requires_grad_(False).item()",
    "a straight-through estimate": "hidden = hidden + (hidden.round() - hidden).detach()",
}


@pytest.mark.parametrize("case", HELD)
def test_what_is_meant_or_does_not_matter_holds(case: str, tmp_path: Path) -> None:
    assert examined(tmp_path, GradientsAreTrue, _NET.replace("{}", HELD[case]), _GIVEN) == []


_FUNCTION = """
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return {}

    def f(x):
        return Sine.apply(x)
    """


def test_a_backward_is_compared_though_the_run_asks_for_no_gradient(tmp_path: Path) -> None:
    given = "x=torch.randn(5)"
    (fault,) = examined(tmp_path, GradientsAreTrue, _FUNCTION.replace("{}", "grad * x.sin()"), given)
    assert isinstance(fault, Fault)
    assert fault.code == "DG123"
    assert examined(tmp_path, GradientsAreTrue, _FUNCTION.replace("{}", "grad * x.cos()"), given) == []


NOT_TRIED = {
    "def f(x):\n    return x.sin()\n": "nothing in it is trainable",
    "net = nn.Linear(3, 2)\n\n@torch.no_grad()\ndef f(x, net):\n    return net(x)\n": "nothing trainable contributes",
}


@pytest.mark.parametrize("program", NOT_TRIED)
def test_what_has_no_gradients_is_not_tried(program: str, tmp_path: Path) -> None:
    given = "x=torch.randn(4, 3)" + (", net=net" if "net" in program else "")
    assert str(examined(tmp_path, GradientsAreTrue, program, given)).startswith(NOT_TRIED[program])
