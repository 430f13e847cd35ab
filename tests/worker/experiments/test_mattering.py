"""Inputs matter: the values of each input are changed, and of features that no gradient comes back to."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_harness import examined, line_of

from drygrad.worker.experiments.mattering import InputsMatter
from drygrad.worker.run import Fault

_FUNCTION = """
    def f(x, mask):
        {}
        return x.softmax(-1)
    """
_GATE = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(6, 8), nn.Linear(6, 8)

        def f(self, x, y):
            a, b = self.first(x), self.second(y)
            {}
            return out
    """
_SLICES = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)

        def f(self, x):
            {}
            return a + b
    """
_MASKED = "x=torch.randn(3, 5), mask=torch.ones(3, 5, dtype=torch.bool)"
_BOTH = "self=f(), x=torch.randn(3, 6), y=torch.randn(3, 6)"
_IMAGES = "self=f(), x=torch.randn(2, 6, 4, 4)"

PAIRS = {
    "a parameter that is bound anew": (
        """
        def f(x, mask):
            {}
            return x.softmax(-1) * mask
        """,
        _MASKED,
        "mask = torch.ones_like(x)",
        "mask = mask.float()",
        "def f(x, mask):",
    ),
    "a mask that is filled into a copy": (
        _FUNCTION,
        _MASKED,
        "x.masked_fill(~mask, -1e9)",
        "x = x.masked_fill(~mask, -1e9)",
        "x.masked_fill(~mask, -1e9)",
    ),
    "a branch that is left out": (
        _GATE,
        _BOTH,
        "out = a * a.sigmoid()",
        "out = a * b.sigmoid()",
        "a, b = self.first(x), self.second(y)",
    ),
    "a product with what is always zero": (
        _GATE,
        _BOTH,
        "out = a + b * (b * 0)",
        "out = a + b * (b * 0.5)",
        "out = a + b * (b * 0)",
    ),
    "a softmax over a single number": (
        _GATE,
        _BOTH,
        "out = a * b.sum(1, keepdim=True).softmax(1)",
        "out = a * b.sum(1, keepdim=True).sigmoid()",
        "out = a * b.sum(1, keepdim=True).softmax(1)",
    ),
    "a slice that is read twice": (
        _SLICES,
        _IMAGES,
        "a, b = self.first(x[:, :3]), self.second(x[:, :3])",
        "a, b = self.first(x[:, :3]), self.second(x[:, 3:])",
        "def f(self, x):",
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_what_changes_no_result_is_told_where_it_ends(case: str, tmp_path: Path) -> None:
    program, given, broken, right, line = PAIRS[case]
    text = program.replace("{}", broken)
    (fault,) = examined(tmp_path, InputsMatter, text, given)
    assert isinstance(fault, Fault)
    assert (line_of(text, fault), fault.code, fault.severity) == (line, "DG928", "info")
    assert "no effect" in fault.message
    assert examined(tmp_path, InputsMatter, program.replace("{}", right), given) == []


HELD = {
    "a parameter that is bound anew in a branch": (
        "def f(x, mask):\n    if x.dim() > 2:\n        mask = torch.ones_like(x)\n    return x * mask\n",
        "x=torch.randn(3, 5), mask=torch.rand(3, 5)",
    ),
    "a gate that is closed at first": (
        """
        class f(nn.Module):
            def __init__(self):
                super().__init__()
                self.gate = nn.Parameter(torch.zeros(6))

            def f(self, x, y):
                return x + self.gate * y
        """,
        _BOTH,
    ),
    "a tensor that gives its shape": (
        "def f(x, like):\n    return x.expand_as(like) + torch.zeros_like(like)\n",
        "x=torch.randn(3), like=torch.randn(2, 3)",
    ),
    "an argument that is not read": ("def f(x, y):\n    return x * 2\n", "x=torch.randn(3), y=torch.randn(3)"),
    "classes of which only the groups matter": (
        "def f(x, y):\n    same = y[:, None] == y\n    return torch.cdist(x, x)[same].sum()\n",
        "x=torch.randn(6, 3), y=torch.tensor([0, 1, 2, 0, 1, 2])",
    ),
    "what is kept": (
        """
        class f(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("kept", torch.zeros(6))

            def f(self, x, y):
                self.kept.mul_(0.9).add_(0.1 * y.mean(0))
                return x.relu()
        """,
        _BOTH,
    ),
    "a check": (
        "def f(x, y):\n    assert torch.isfinite(y).all()\n    return x * y.sum()\n",
        "x=torch.randn(3), y=torch.randn(3)",
    ),
}


@pytest.mark.parametrize("case", HELD)
def test_what_matters_or_is_not_computed_with_holds(case: str, tmp_path: Path) -> None:
    program, given = HELD[case]
    assert examined(tmp_path, InputsMatter, program, given) == []


def test_what_returns_nothing_is_not_tried(tmp_path: Path) -> None:
    why = examined(tmp_path, InputsMatter, "def f(x):\n    x.add_(1)\n", "x=torch.randn(3)")
    assert why == "it returns no tensors"
