"""What is on the default device and meets what its giver places: every claim is tried on torch, without a GPU."""

from __future__ import annotations

import ast
from textwrap import dedent
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.places.following import Places

IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nfrom torch.autograd import Variable\n"


def faults(text: str) -> list[str]:
    """Return the operations of a text that are said to fail where its arguments are on a GPU."""
    program = IMPORTS + dedent(text)
    return [ast.unparse(fault.node) for _, fault in Places(ModuleFacts(ast.parse(program), program)).faults()]


MEETINGS = {
    "under another name": "grid = torch.linspace(0, 1, x.size(1))\n    other = grid\n    return other - x",
    "in a variable": "return x + Variable(torch.randn(x.size()))",
    "of a typed constructor": "return x * torch.Tensor([1.0, 2.0])",
    "of a list": "return x + torch.tensor([1.0, 2.0])",
    "out of a tuple": "a, b = torch.ones(2), x.exp()\n    return a * b",
    "drawn with numbers": "return x + torch.normal(0.0, 1.0, size=(3, 2))",
    "in a concatenation": "return torch.cat([x, torch.zeros(1, 2)])",
    "out of a list that grew": "m = []\n    m.append(torch.zeros(2))\n    return m[0] + x.exp()",
    "in a loop": "h = torch.zeros(2)\n    for row in x:\n        h = h * row.exp()\n    return h",
    "on one of two ways": "m = torch.ones(2) if x.dim() > 5 else torch.zeros(2)\n    return x.exp() * m",
    "as a mask": "return x.masked_fill(torch.ones(2).bool(), 0.0)",
    "as a condition": "return torch.where(torch.arange(2) < 1, x.exp(), x.log())",
    "as a weight": "return F.linear(x, torch.ones(4, 2))",
    "through a cast": "return x.matmul(torch.eye(2).to(x.dtype))",
    "read from around": "m = torch.ones(2)\n    def inner(v):\n        return v.exp() * m\n    return inner(x)",
    "by way of vmap": "m = torch.ones(2)\n    def f(v):\n        return v.exp() * m\n    return torch.vmap(f)(x)",
    "made in what vmap calls": "def inner(v):\n        return v * torch.ones(2)\n    return torch.vmap(inner)(x)",
    "with a derivative": "g = torch.func.vmap(torch.func.grad(torch.sum))\n    return g(x) + torch.ones(2)",
}
DICTIONARIES = {
    "values": ("torch.cat([value, torch.zeros(1)])", True),
    "keys": ("torch.cat([key, torch.zeros(1)])", False),
    "moved": ("torch.cat([value, torch.zeros(1).to(value)])", False),
}
MEETINGS_OF_INDEXING = {
    "the CPU's by an index": "return torch.arange(9)[x.argmax(1)]",
    "made here, written by an index": "t = torch.empty_like(x)\n    t[x.argsort(0)] = torch.ones(3, 2)\n    return t",
    "written by an index": "t = torch.zeros(9)\n    t[x.argmax(1)] = 1.0\n    return t",
}
SAFE = {
    "without dimensions": "return x * torch.tensor(2.0) + torch.ones(3).sum()",
    "replaced in the first pass": (
        "t, first = torch.zeros(2), True\n    for row in x:\n        if first:\n            t = row.exp()\n"
        "            first = False\n        else:\n            t = torch.cat([t, row])\n    return t"
    ),
    "replaced where it began": (
        "t = torch.zeros(2)\n    begun = False\n    for row in x:\n        if not begun:\n            t = row.exp()\n"
        "            begun = True\n        else:\n            t = t + row\n    return t"
    ),
    "replaced in an endless loop": (
        "t = torch.zeros(2)\n    while True:\n        t = x.exp()\n        if len(t) > 0:\n            break\n"
        "    return t + x"
    ),
    "an index of the CPU": "return x[torch.arange(2)]",
    "where x is": "return x + torch.ones(2, device=x.device)",
    "moved": "m = torch.ones(2)\n    m = m.to(x)\n    return x * m",
    "as x is typed": "return x * torch.ones(2).type_as(x)",
    "new from x": "return x * x.new_ones(2) + torch.zeros_like(x)",
    "copied into": "t = torch.zeros(3, 2)\n    t[:] = x\n    return t",
    "expanded as x": "return torch.ones(1, 2).expand_as(x)",
    "copied by slices": "t = x.clone()\n    t[1:, 0] = torch.ones(2)\n    t[x > 0] = torch.tensor(1.0)\n    return t",
    "moved around": "m = torch.ones(2).to(x)\n    def f(v):\n        return v.exp() * m\n    return torch.vmap(f)(x)",
    "a device in a name": "device = x.device\n    return x + torch.ones(2, device=device)",
}
SAFE_BY_VALUES = {
    "an index without dimensions": "return torch.arange(9)[x.argmax()]",
    "for the CPU alone": "m = torch.ones(2)\n    if x.is_cuda:\n        m = m.cuda()\n    return x.exp() * m",
}


def _function(body: str) -> str:
    return f"def f(x: torch.Tensor):\n    {body}\n"


def _run(body: str, device: str) -> Any:
    names: dict[str, Any] = {"torch": torch, "F": F, "Variable": torch.autograd.Variable}
    exec(_function(body), names)
    with FakeTensorMode():
        return names["f"](torch.ones(3, 2, device=device))


@pytest.mark.parametrize("body", MEETINGS.values(), ids=MEETINGS)
def test_a_meeting_is_told_and_torch_raises(body: str) -> None:
    assert faults(_function(body))
    with pytest.raises(RuntimeError, match=r"same device|two devices"):
        _run(body, "meta")


@pytest.mark.parametrize("body", MEETINGS_OF_INDEXING.values(), ids=MEETINGS_OF_INDEXING)
def test_an_index_on_a_gpu_into_a_tensor_of_the_cpu_is_told(body: str) -> None:
    assert faults(_function(body))


@pytest.mark.parametrize("body", SAFE.values(), ids=SAFE)
def test_a_safe_form_is_not_told(body: str) -> None:
    assert not faults(_function(body))
    _run(body, "meta")


@pytest.mark.parametrize("body", SAFE_BY_VALUES.values(), ids=SAFE_BY_VALUES)
def test_a_form_that_asks_for_values_is_not_told(body: str) -> None:
    assert not faults(_function(body))


@pytest.mark.parametrize(("held", "told"), DICTIONARIES.values(), ids=DICTIONARIES)
def test_what_an_annotated_dictionary_holds_is_given(held: str, told: bool) -> None:
    text = f"""
    def f(batch: dict[str, torch.Tensor]):
        return [{held} for key, value in batch.items()]
    """
    assert bool(faults(text)) is told


METHODS = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 2)
            self.table = torch.ones(2)
            self.register_buffer("fixed", torch.ones(2))

        def start(self):
            return torch.zeros(2)

        def forward(self, x):
            {}

    class Other:
        def __init__(self, table):
            self.table = table
"""


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("return self.lin(x) * self.table", True),
        ("return self.lin(x) * self.fixed", False),
        ("return self.lin(x) * self.start()", True),
        ("return self.lin(torch.ones(2))", True),
        ("return self.lin(x) * self.table.to(x)", False),
    ],
)
def test_attributes_are_known_by_their_class(statement: str, told: bool) -> None:
    assert bool(faults(METHODS.format(statement))) is told


PARAMETERS = """
    from elsewhere import Base

    class Net(Base):
        def __init__(self, wide, layers):
            super().__init__(layers)
            self.emb = nn.Embedding(5, 2)
            self.w = nn.Parameter(torch.ones(2))
            self.maybe = nn.Parameter(torch.ones(2)) if wide else None
            self.register_parameter("named", nn.Parameter(torch.ones(2)))
            self.early = torch.ones(2) * self.w
            self.either = torch.ones(2)
            if wide:
                self.either = nn.Parameter(self.either)

        def more(self):
            self.late = nn.Parameter(torch.ones(2))

        def forward(self, n):
            {}
"""


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("return torch.randn(n, 2) + self.w", True),
        ("return torch.randn(n, 2) * torch.exp(self.w)", True),
        ("return torch.randn(n, 2) + self.maybe", True),
        ("return torch.randn(n, 2) + self.named", True),
        ("return torch.randn(n, 2) @ self.emb.weight.T", True),
        ("return torch.maximum(torch.norm(self.unknown.weight, dim=1), torch.ones(2))", True),
        ("return torch.randn(n, 2, device=self.w.device) + self.w", False),
        ("return torch.randn(n, 2).to(self.w) + self.w", False),
        ("return torch.ones(2) * self.unknown.weight", False),  # which may be a number
        ("return torch.ones(2) * self.early", False),
        ("return torch.ones(2) * self.either", False),
        ("return torch.ones(2) * self.late", False),
        ("return torch.ones(2).sum() * self.w", False),
    ],
)
def test_parameters_are_where_their_module_is(statement: str, told: bool) -> None:
    assert bool(faults(PARAMETERS.format(statement))) is told


def test_what_a_caller_makes_meets_what_it_was_given() -> None:
    text = """
    def scaled(x, by):
        return x * by

    def good(x: torch.Tensor):
        return scaled(x, torch.ones(2, device=x.device))

    def bad(x: torch.Tensor):
        return scaled(x, torch.ones(2))
    """
    assert faults(text) == ["x * by"]


@pytest.mark.parametrize(("declared", "told"), [("", True), (" -> int", False), (" -> torch.Tensor", True)])
def test_what_is_declared_a_number_is_on_no_device(declared: str, told: bool) -> None:
    text = f"""
        def count(x){declared}:
            return x.max(dim=0).values + 1

        def ones(x: torch.Tensor):
            return torch.ones(3) * count(x)
    """
    assert bool(faults(text)) is told


def test_a_default_that_is_made_here_is_told_and_no_use_of_another() -> None:
    text = """
    def weighted(x: torch.Tensor, w=None):
        if w is None:
            w = torch.ones(2)
        return x * w

    def given(x: torch.Tensor):
        return weighted(x, x.sum(0)) + x
    """
    assert faults(text) == ["x * w"]


@pytest.mark.parametrize(
    "registered", ['"scale", nn.Parameter(torch.ones(2))', 'name="scale", param=nn.Parameter(torch.ones(2))']
)
def test_a_parameter_is_registered_by_position_or_by_name(registered: str) -> None:
    text = f"""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_parameter({registered})

            def widen(self):
                return self.scale * torch.ones(2)
    """
    assert faults(text) == ["self.scale * torch.ones(2)"]


@pytest.mark.parametrize(("last", "told"), [("return multiply", True), ("return sum(map(multiply, rows))", False)])
def test_a_function_that_is_returned_is_called_by_others(last: str, told: bool) -> None:
    text = f"""
        def product(n, rows):
            def multiply(v):
                return v.matmul(torch.eye(n))

            {last}
    """
    found = Places(ModuleFacts(tree := ast.parse(IMPORTS + dedent(text)), IMPORTS + dedent(text)))
    (inner,) = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "multiply")
    assert found.is_given(inner, "v") is told


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return x + torch.ones(2).cuda()", True),
        ('return x + torch.ones(2, device="cuda")', True),
        ("return x[torch.arange(2).cuda()]", True),
        ("x = x.cuda()\n    return x + torch.ones(2).cuda()", False),
        ("m = torch.ones(2)\n    if x.is_cuda:\n        m = m.cuda()\n    return x.exp() * m", False),
        ("return torch.arange(9).cuda()[x.argmax(1)]", False),
    ],
)
def test_what_is_put_on_the_gpu_meets_what_may_be_elsewhere(body: str, told: bool) -> None:
    found = Places(ModuleFacts(ast.parse(text := IMPORTS + _function(body)), text)).faults()
    assert [fault.made.device for _, fault in found] == (["cuda"] if told else [])


@pytest.mark.parametrize(("index", "told"), [("edges[:, keep]", True), ("edges[keep]", False)])
def test_a_parameter_has_as_many_dimensions_as_it_gets_indices_at_once(index: str, told: bool) -> None:
    text = f"""
    def used(edges, keep, n):
        seen = torch.zeros(n, dtype=torch.bool)
        first = seen[edges[0]]
        return first, {index}.unsqueeze(0)
    """
    assert faults(text) == (["seen[edges[0]]"] if told else [])
