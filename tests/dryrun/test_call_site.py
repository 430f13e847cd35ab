"""Inputs from a call in the file, and the statements that build them."""

from __future__ import annotations

import pytest
from plan_harness import arguments, missing, plan, steps

MODEL = """\
import torch, torch.nn as nn, numpy as np
from torch.distributed.fsdp import fully_shard
class Net(nn.Module):
    def __init__(self, n=2):
        super().__init__()
        self.inner = Inner()
    def forward(self, x):
        return self.inner(x)
class Inner(nn.Module):
    def forward(self, y): return y
def step(model, x, y=None): ...
def log(*what): ...
def norm(model): return model.weight.grad.norm()
"""

TABLE: list[tuple[str, str, list[str], list[str]]] = [
    ("step(Net(), torch.ones(3))", "step", [], ["Net()", "torch.ones(3)"]),
    ("net = Net()\nprint(net)\nnet.eval()\nnet.save('x')\nstep(net, 1)", "step",
     ["net = Net()", "net.eval()"], ["net", "1"]),
    ("x = torch.ones(3)\nx[0] = 2\nx += 1\nstep(1, x=x)", "step",
     ["x = torch.ones(3)", "x[0] = 2", "x += 1"], ["1", "x"]),
    ("x = 1\nx = 2\nstep(x, x)", "step", ["x = 2"], ["x", "x"]),
    ("x = 1\nif x: x = 2\nstep(x, 0)", "step", ["x = 1", "if x: x = 2"], ["x", "0"]),
    ("torch.manual_seed(0)\nnp.random.seed(0)\ntorch.backends.cudnn.benchmark = True\nlog('hi')\nstep(1, 2)", "step",
     ["torch.manual_seed(0)", "np.random.seed(0)", "torch.backends.cudnn.benchmark = True"], ["1", "2"]),
    ("buffer = open('f')\ntorch.save(1, buffer)\nbuffer.seek(0)\ntorch.save(buffer, 'g')\nstep(buffer, 2)", "step",
     ["buffer = open('f')", "torch.save(1, buffer)", "buffer.seek(0)"], ["buffer", "2"]),
    ("net = Net()\nfully_shard(net, mesh=1)\nstep(net, 2)", "step",
     ["net = Net()", "fully_shard(net, mesh=1)"], ["net", "2"]),
    ("torch.save(1, 'f')\nopen('f', 'w').write('x')\nstep(torch.ones(1), 2)", "step", [], ["torch.ones(1)", "2"]),
    ("net = Net()\nfor p in net.parameters():\n    p.requires_grad = False\nstep(net, 1)", "step",
     ["net = Net()", "for p in net.parameters():"], ["net", "1"]),
    ("net = Net()\nfor x in range(9):\n    out = net(x)\n    out.sum().backward()\nstep(net, 1)", "step",
     ["net = Net()"], ["net", "1"]),
    ("data = {'x': 1}\nbatch = data\nbatch['x'] = 2\nstep(data, 1)", "step",
     ["data = {'x': 1}", "batch = data", "batch['x'] = 2"], ["data", "1"]),
    ("a = torch.ones(3)\nb = a[1:]\nb.mul_(2)\nc = b.view(-1)\nc[0] = 5\nstep(a, 1)", "step",
     ["a = torch.ones(3)", "b = a[1:]", "b.mul_(2)", "c = b.view(-1)", "c[0] = 5"], ["a", "1"]),
    ("a = torch.ones(3)\nb = a\na += 1\nstep(b, 1)", "step", ["a = torch.ones(3)", "b = a", "a += 1"], ["b", "1"]),
    ("net = Net()\nw = net.inner.weight\nw.data.zero_()\nstep(net, 1)", "step",
     ["net = Net()", "w = net.inner.weight", "w.data.zero_()"], ["net", "1"]),
    ("x = torch.ones(3)\nbatch = [x, 1]\nx[0] = 2\nstep(batch, 1)", "step",
     ["x = torch.ones(3)", "batch = [x, 1]", "x[0] = 2"], ["batch", "1"]),
    ("x = torch.ones(3)\nbatch = {'x': x}\nbatch['y'] = log()\nstep(x, 1)", "step",
     ["x = torch.ones(3)"], ["x", "1"]),
    ("a = torch.ones(3)\nb = a\nb = a + 1\nb[0] = 2\nstep(a, 1)", "step", ["a = torch.ones(3)"], ["a", "1"]),
    ("net = Net()\nfor layer in net.children():\n    w = layer.weight\n    w.zero_()\nstep(net, 1)", "step",
     ["net = Net()", "for layer in net.children():"], ["net", "1"]),
    ("net = Net()\nnn.init.zeros_(net.weight)\nstep(net, 1)", "step",
     ["net = Net()", "nn.init.zeros_(net.weight)"], ["net", "1"]),
    ("for i, (a, b) in enumerate([(1, 2)]):\n    a = a + 1\n    log(b)\n    step(a, b)", "step",
     ["<(i, (a, b)) = next(iter(enumerate([(1, 2)])))>", "a = a + 1"], ["a", "b"]),
    ("with torch.no_grad(), open('log') as f:\n    x = 1\n    step(x, 2)", "step",
     ["<with torch.no_grad()>", "x = 1"], ["x", "2"]),
    ("try:\n    x = 3\n    step(x, 2)\nexcept ValueError: pass", "step", ["x = 3"], ["x", "2"]),
    ("if __name__ == '__main__':\n    k = 3\n    step(k, 2)", "step", ["k = 3"], ["k", "2"]),
    ("go = step\ngo(1, 2)", "step", [], ["1", "2"]),
    ("def main():\n    z = 4\n    step(z, 2)\nmain()", "step", ["z = 4"], ["z", "2"]),
    ("def main(n=5):\n    step(n, 2)", "step", ["<n = 5>"], ["n", "2"]),
    ("@torch.no_grad()\ndef main():\n    step(1, 2)\nmain()", "step", ["<with torch.no_grad()>"], ["1", "2"]),
    ("def train(m, data):\n    for x in data:\n        step(m, x)\nd = [1]\ntrain(Net(), d)", "step",
     ["d = [1]", "<m = Net()>", "<data = d>", "<x = next(iter(data))>"], ["m", "x"]),
    ("def train(a, b):\n    step(a, b)\na, b = 1, 2\ntrain(b, a)", "step",
     ["a, b = 1, 2", "<a, b, = (b), (a),>"], ["a", "b"]),
    ("x, model = 1, 2\nstep(x, model)", "step", ["x, model = 1, 2", "<_argument_0, _argument_1, = (x), (model),>"],
     ["_argument_0", "_argument_1"]),
    ("step(*[1, 2])", "step", [], ["*[1, 2]"]),
    ("step(Net(), *[1])", "step", [], ["Net()", "*[1]"]),
    ("net = Net()\nnet(1).sum().backward()\nnorm(net)", "norm",
     ["net = Net()", "net(1).sum().backward()"], ["net"]),
    ("box = []\nfor x in range(9):\n    box.append(x)\n    if len(box) < 4:\n        continue\n    step(box, 2)\n"
     "step([1], 2)", "step", [], ["[1]", "2"]),
    ("box = []\nif len(box) > 4:\n    step(box)\nif isinstance(box, list):\n    step(box, 2)", "step",
     ["box = []"], ["box", "2"]),
    ("step(1, **{'x': 2})", "step", [], ["1", "**{'x': 2}"]),
    ("net = Net().to('cpu')\nnet(torch.ones(3))", "Net.forward", ["net = Net().to('cpu')"], ["torch.ones(3)"]),
    ("net = Net()\nnet.forward(x=1)", "Net.forward", ["net = Net()"], ["1"]),
    ("Net(3)(7)", "Net.forward", [], ["7"]),
    ("def run(model, x): return model(x)\nrun(Net(), 8)", "Net.forward", ["<model = Net()>", "<x = 8>"], ["x"]),
    ("net = Net()\nnet(9)", "Inner.forward", ["net = Net()", "<x = 9>", "<self = net>"], ["x"]),
]  # fmt: skip


def test_what_stands_before_a_star_is_given_by_position() -> None:
    found = plan(MODEL + "step(Net(), *[1])\n", "step")
    assert [name for name, _ in arguments(found)] == [None, None]


CLIPPED = """\
import torch
def norms(parameters):
    return torch.stack([p.grad.norm() for p in parameters])
def step(net):
    net(torch.ones(2)).sum().backward()
net = torch.nn.Linear(2, 1)
loss = net(torch.ones(2)).sum()
loss.backward()
norms([*net.parameters()])
step(net)
"""


def test_gradients_are_inputs_of_a_function_that_reads_them() -> None:
    assert steps(plan(CLIPPED, "norms"))[-2:] == ["loss = net(torch.ones(2)).sum()", "loss.backward()"]
    assert steps(plan(CLIPPED, "step")) == ["net = torch.nn.Linear(2, 1)"]


@pytest.mark.parametrize(("text", "target", "setup", "given"), TABLE, ids=[row[0][:40] for row in TABLE])
def test_a_call(text: str, target: str, setup: list[str], given: list[str]) -> None:
    found = plan(MODEL + text + "\n", target)
    assert steps(found) == setup
    assert [text for _, text in arguments(found)] == given
    assert found.input_sources == {"call"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no call in this file"),
        ("step(unknown, 2)\n", "`unknown`"),
        ("def main(n):\n    step(n, 2)\n", "no call in this file"),
        ("def main():\n    if log(): return\n    else: x = 1\n    step(x, 1)\n", "no call in this file"),
        ("async def main():\n    step(1, 2)\n", "no call in this file"),
    ],
)  # fmt: skip
def test_a_call_that_cannot_be_built(text: str, why: str) -> None:
    found = missing(MODEL + text, "step")
    assert why in found.message
    assert found.names == ("model", "x")


def test_the_next_call_is_taken_where_the_first_cannot_be_built() -> None:
    found = plan(MODEL + "def main():\n    step(unknown, 2)\n    step(3, 4)\n", "step")
    assert [text for _, text in arguments(found)] == ["3", "4"]


@pytest.mark.parametrize("misfit", ["step()", "step(1, 2, z=3)", "step(1, 2, 3, 4)"])
def test_a_call_that_does_not_fit_the_signature_gives_way_to_the_next(misfit: str) -> None:
    found = plan(f"{MODEL}{misfit}\nstep(3, 4)\n", "step")
    assert [text for _, text in arguments(found)] == ["3", "4"]
    assert missing(MODEL + misfit, "step").names == ("model", "x")


def test_a_local_name_must_not_hide_a_global_that_a_function_reads() -> None:
    text = MODEL + "limit = 1\ndef bounded(): return limit\ndef main():\n    limit = bounded()\n    step(limit, 2)\n"
    assert missing(text, "step").names == ("model", "x")


def test_definitions_bring_what_they_read() -> None:
    text = "import json\nRATE = 3\nOTHER = 4\ndef make(): return json.dumps(RATE)\ndef f(x): return OTHER\nf(make())\n"
    found = plan(text, "f")
    assert found.as_json()["setup"] == [[1, 0], [2, 0], [3, 0], [4, 0], [5, 0]]


@pytest.mark.parametrize(
    ("text", "partial"),
    [
        ("box = []\nfor x in range(3):\n    print(x)\n    box.append(x)\nlog(box)", True),
        ("box = []\nfor x in range(3):\n    box.append(x)\nlog(box)", False),
        ("net = Net()\nfor x in range(3):\n    print(x)\n    net.train()\nlog(net)", False),
        ("net = Net()\nnet(1).backward()\nnorm(net)", True),
        ("box = []\ndef fill(box): box.append(1)\nfill(box)\nlog(box)", False),
        ("box = []\ndef show(box): tell(box)\nshow(box)\nlog(box)", True),
        ("box = []\nprint(box)\nlog(box)", False),
    ],
)
def test_what_may_have_changed_an_input_on_the_way_is_known(text: str, partial: bool) -> None:
    found = plan(MODEL + text, "norm" if "norm" in text else "log")
    assert found.partial is partial


@pytest.mark.parametrize(
    ("helper", "call", "taken"),
    [
        ("def fill(box, n):\n    for i in range(n): box.append(i)", "fill(box, 3)", True),
        ("def fill(n, box):\n    box.rows[n] = 1", "fill(3, box=box)", True),
        ("def fill(n, box):\n    box.rows[n] = 1", "fill(box, 3)", False),
        ("def fit(box, net):\n    box.append(1)\n    net(1).backward()", "fit(box, 3)", False),
        ("def show(box):\n    print(box)", "show(box)", False),
    ],
)
def test_what_a_helper_fills_is_filled(helper: str, call: str, taken: bool) -> None:
    found = plan(f"{MODEL}{helper}\nbox = []\n{call}\nlog(box)\n", "log")
    assert (call in steps(found)) is taken


def test_an_object_that_is_called_for_its_effect_is_called() -> None:
    found = plan(MODEL + "net = Net()\nnet(torch.ones(3))\nlog(net)", "log")
    assert "net(torch.ones(3))" in steps(found)


FORWARDED = "def inner(x, y=1): ...\ndef outer(*args, **kwargs):\n    return inner(*args, **kwargs)\n"


def test_arguments_follow_through_a_forwarder() -> None:
    found = plan(FORWARDED + "outer([3], y=2)\n", "inner")
    assert steps(found) == ["<args = ([3], )>", "<kwargs = {'y': 2}>"]
    assert arguments(found) == [(None, "*args"), (None, "**kwargs")]


def test_a_forwarder_that_nobody_calls_gives_nothing() -> None:
    assert missing(FORWARDED, "inner").names == ("x",)
    assert missing("def inner(x, y): ...\ndef outer(y, **kw):\n    inner(y=2, **kw)\n", "inner").names == ("x", "y")


def test_a_forwarder_that_gives_all_that_is_needed_is_a_call() -> None:
    found = plan("def inner(x, y=1): ...\ndef outer(**more):\n    return inner(3, **more)\n", "inner")
    assert arguments(found) == [("x", "3"), (None, "**more")]
