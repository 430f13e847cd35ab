"""Where the interpretation says that tensors and modules are, and which operations it says must fail."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from drygrad.static.facts.events import DeviceMismatch
from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Device, Object, Tensor

IMPORTS = (
    "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nfrom torch.utils.data import DataLoader\n"
)


def facts_of(text: str) -> ModuleFacts:
    program = IMPORTS + dedent(text)
    return ModuleFacts(ast.parse(program), program)


def device_of(text: str, name: str) -> str | None:
    """Return the device of a name at its last mention."""
    facts = facts_of(text)
    found = [v for n, v in facts.recording.values.items() if ast.unparse(n) == name]
    value = found[-1] if found else None
    if isinstance(value, Device):
        return value.name
    return value.device if isinstance(value, (Tensor, Object)) else None


def mismatches(text: str) -> list[tuple[str, bool]]:
    events = facts_of(text).recording.events.values()
    return [(ast.unparse(e.node), e.certain) for e in events if isinstance(e, DeviceMismatch)]


AUTO = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (AUTO, "device", "auto"),
        ('if torch.cuda.is_available():\n    d = "cuda"\nelse:\n    d = "cpu"\nd', "d", "auto"),
        ("def f(args):\n    x = torch.ones(3, device=args.device)", "x", "$args.device"),
        ("def f(device):\n    x = torch.ones(3).to(device)", "x", "$device"),
        ("class A:\n    def f(self):\n        x = torch.ones(3, device=self.device)", "x", "$self.device"),
        ("model = nn.Linear(3, 3).cuda()\nd = next(model.parameters()).device", "d", "cuda"),
        ("def f(model):\n    d = next(model.parameters()).device", "d", "$next(model.parameters()).device"),
        ("with torch.device('cuda'):\n    x = torch.ones(3)", "x", None),
        ("def f(x):\n    y = x + torch.ones(3, device='cuda')", "y", "cuda"),
        ("def f(x):\n    model = nn.Linear(3, 3).cuda()\n    y = model(x)", "y", "cuda"),
        ("x = torch.ones(3).cuda()\ny = x.expand_as(torch.ones(2, 3))", "y", "cuda"),
        ("x = torch.ones(3).cuda()\ny = x.cpu()", "y", "cpu"),
        ("x = torch.ones(3)\nif flag:\n    x = x.cuda()\nx", "x", None),
        ("def move(x):\n    return x.cuda()\ny = move(torch.ones(3))", "y", "cuda"),
        (AUTO + "for b in DataLoader(d):\n    b = {k: v.to(device) for k, v in b.items()}\n    x = b[0]", "x", None),
        ("for x, y in DataLoader(d):\n    pass", "x", "cpu"),
        ("model = nn.DataParallel(nn.Linear(3, 3)).cuda()\ny = model(torch.ones(2, 3))", "model", "cuda"),
    ],
)
def test_devices(text: str, name: str, expected: str | None) -> None:
    assert device_of(text, name) == expected


OWN_ACTIVATION = """
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(x)

class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(x)

"""


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("Gate()", None),
        ("nn.Sequential(nn.ReLU(), nn.Tanh())", None),
        ("nn.InstanceNorm1d(3)", None),
        ("Scaled()", "cpu"),
        ("nn.Sequential(nn.ReLU(), nn.Linear(3, 3))", "cpu"),
    ],
)
def test_modules_without_parameters_leave_a_result_where_their_input_is(made: str, expected: str | None) -> None:
    assert device_of(f"{OWN_ACTIVATION}def f(x):\n    y = {made}(x)\n    return y", "y") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.ones(3) + torch.ones(3).cuda()", [("torch.ones(3) + torch.ones(3).cuda()", True)]),
        ("def f(device):\n    return torch.ones(3).to(device) + torch.ones(3)", False),
        (AUTO + "torch.ones(3, device=device) * torch.ones(3)", True),
        ("torch.tensor(2.0) * torch.ones(3).cuda()", []),
        ("def f(values):\n    return torch.tensor(values) * torch.ones(3).cuda()", []),
        ("def f(a, b):\n    return torch.ones(3, device=a) * torch.ones(3, device=b)", []),
        ("x = torch.ones(3).cuda()\nx[torch.tensor([1])]", []),
        ("x = torch.ones(3).cuda()\nx.copy_(torch.ones(3))", []),
        ("x = torch.ones(3).cuda()\nx.view_as(torch.ones(3, 1))", []),
        ("model = nn.DataParallel(nn.Linear(3, 3)).cuda()\nmodel(torch.ones(2, 3))", []),
        ("model = nn.DataParallel(nn.Linear(3, 3)).cuda()\nmodel(torch.ones(2, 3).cuda())", []),
        ("nn.Linear(3, 3).cuda()(torch.ones(2, 3))", True),
    ],
)
def test_mismatches(text: str, expected: list[tuple[str, bool]] | bool) -> None:
    found = mismatches(text)
    if isinstance(expected, bool):
        assert [certain for _, certain in found] == [expected]
    else:
        assert found == expected


FACTORIES = ["zeros(2", "ones(2", "eye(2", "arange(2", "randn(2", "full((2,), 1.0", "linspace(0, 1, 2", "tensor([1.0]"]


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("kwargs", ["options", "dict(device=device)", '{"device": device}'])
def test_a_device_that_keywords_may_hide_is_unknown(factory: str, kwargs: str) -> None:
    text = f"""
        def made(device, **options):
            kwargs = {kwargs}
            x = torch.{factory}, **kwargs)
            y = torch.ones(2, device=device)
            return x * y
    """
    assert device_of(text, "x") is None
    assert mismatches(text) == []
