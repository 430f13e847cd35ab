"""What is proposed for a fault, without a worker: texts that parse, and that say what they change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixes_harness import proposed
from plan_harness import PATH


@pytest.mark.parametrize(
    ("program", "at", "facts", "expected"),
    [
        (
            "def f(x, mask):\n    return x + mask\n",
            "x + mask",
            {"operand": "mask", "device": "cpu", "wanted": "cuda:0", "other": "x"},
            "return x + mask.to(x.device)",
        ),
        (
            "def f(ids, table):\n    where = torch.arange(ids.shape[1]).unsqueeze(0)\n    return table(where)\n",
            "table(where)",
            {"operand": "where", "device": "cpu", "wanted": "cuda:0"},
            "where = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)",
        ),
        (
            "DEVICE = 'cuda'\nw = torch.ones(3)\nloss = nn.CrossEntropyLoss(weight=w)\n\n\n"
            "def f(x, y):\n    x = x.to(DEVICE)\n    return loss(x, y)\n",
            "loss(x, y)",
            {"operand": None, "role": "weight", "device": "cpu", "wanted": "cuda:0", "is_parameter": True},
            "loss = nn.CrossEntropyLoss(weight=w).to(DEVICE)",
        ),
        (
            "class Meter:\n    def __init__(self):\n        self.total = torch.zeros(3)\n\n"
            "    def add(self, seen):\n        self.total += seen\n",
            "self.total += seen",
            {"operand": "self.total", "device": "cpu", "wanted": "cuda:0", "other": "seen"},
            "self.total = self.total.to(seen.device)",
        ),
        (
            "def f(x, lengths):\n    return pack_padded_sequence(x, lengths, batch_first=True)\n",
            "pack_padded_sequence(x, lengths, batch_first=True)",
            {"operand": "lengths", "role": "lengths", "wanted": "cpu"},
            "return pack_padded_sequence(x, lengths.cpu(), batch_first=True)",
        ),
    ],
)
def test_tensors_are_moved(program: str, at: str, facts: dict[str, Any], expected: str) -> None:
    assert expected in proposed(program, "DG205", at, facts).values()


def test_a_layer_is_not_moved_to_the_device_of_a_constructor_s_sizes() -> None:
    program = (
        "class Block(nn.Module):\n    def __init__(self, cin, cout):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(cin, cout, 3)\n    def forward(self, x):\n        return self.conv(x)\n"
    )
    facts = {"operand": "self.conv.weight", "device": "cpu", "wanted": "cuda:0", "other": "x", "is_parameter": True}
    texts = proposed(program, "DG201", "self.conv(x)", facts)
    assert not any(title.endswith(("`.to(cin.device)`", "`.to(cout.device)`")) for title in texts), texts


def test_a_tensor_is_moved_where_it_was_made_if_the_fault_is_told_there() -> None:
    program = "def f(ids, table):\n    where = torch.arange(ids.shape[1])\n    return table(where)\n"
    facts = {"operand": "where", "device": "cpu", "wanted": "cuda:0"}
    texts = proposed(program, "DG203", "torch.arange(ids.shape[1])", facts, raised="return table")
    assert "where = torch.arange(ids.shape[1], device=ids.device)" in texts.values()


def test_a_generator_is_made_on_the_device_where_it_is_made() -> None:
    program = (
        "def made(seed, device):\n    return torch.Generator().manual_seed(seed)\n\n\n"
        "def noise(n, device):\n    return torch.randn(n, device=device, generator=made(0, device))\n"
    )
    texts = proposed(program, "DG205", "torch.Generator()", {"generator": "cuda"}, raised="return torch.randn")
    assert texts == {
        "Create the generator with `device=device`": "return torch.Generator(device=device).manual_seed(seed)"
    }


def test_a_loss_is_moved_where_it_was_made_if_the_fault_is_told_there() -> None:
    program = (
        "DEVICE = 'cuda'\n\n\ndef criterion_of(w):\n    return nn.CrossEntropyLoss(weight=w)\n\n\n"
        "loss = criterion_of(torch.ones(3))\nloss(x.to(DEVICE), y)\n"
    )
    facts = {"role": "weight", "device": "cpu", "wanted": "cuda:0", "is_parameter": True}
    texts = proposed(program, "DG205", "nn.CrossEntropyLoss(weight=w)", facts, raised="loss(x")
    assert "return nn.CrossEntropyLoss(weight=w).to(DEVICE)" in texts.values()
    assert "return nn.CrossEntropyLoss(weight=w.to(DEVICE))" in texts.values()


def test_what_a_caller_gave_is_moved_by_the_caller() -> None:
    program = (
        "class Net(nn.Module):\n    def forward(self, x):\n        return self.fc(x)\n\n\n"
        "device = 'cuda'\nnet = Net()\nnet(batch)\n"
    )
    facts = {"operand": "x", "role": "mat1", "device": "cpu", "wanted": "cuda:0"}
    texts = proposed(program, "DG201", "self.fc(x)", facts, stack=(5, 10))
    assert "net(batch.to(device))" not in texts.values()  # nothing in the file moves to `device`: it may be anything
    texts = proposed(program.replace("Net()\n", "Net().to(device)\n"), "DG201", "self.fc(x)", facts, stack=(5, 10))
    assert "net(batch.to(device))" in texts.values()


@pytest.mark.parametrize(
    ("code", "program", "at", "facts", "expected"),
    [
        ("DG309", "def f(s, y):\n    return g(s, y)\n", "g(s, y)", {"operand": "y", "wanted": "int64"},
         "return g(s, y.long())"),
        ("DG317", "def f(s, y):\n    return s @ (y + 1)\n", "s @ (y + 1)", {"operand": "y + 1", "wanted": "float32"},
         "return s @ ((y + 1).float())"),
        ("DG317", "def f(feats, i, z):\n    feats[i] = z.detach()\n", "feats[i] = z.detach()", {},
         "feats[i] = z.detach().to(feats.dtype)"),
        ("DG301", "def f(a, b):\n    return g(a, b)\n", "g(a, b)",
         {"operand": "b", "shape": [8, 1], "other": "a", "other_shape": [8]}, "return g(a, b.squeeze(-1))"),
        ("DG314", "def f(a, b):\n    return a + b\n", "a + b",
         {"operand": "b", "shape": [8, 5], "other": "a", "other_shape": [8, 3, 5]}, "return a + b.unsqueeze(1)"),
        ("DG314", "def f(a, b):\n    return torch.cat([a, b], dim=1)\n", "torch.cat([a, b], dim=1)",
         {"operand": "b", "shape": [1, 2, 14, 14], "wanted": [1, 2, 15, 15]},
         "return torch.cat([a, nn.functional.interpolate(b, size=a.shape[2:])], dim=1)"),
        ("DG302", "table = nn.Embedding(10, 4)\n\n\ndef f(ids):\n    return table(ids)\n", "table(ids)",
         {"operand": "ids", "value": 12, "low": 0, "high": 10}, "table = nn.Embedding(13, 4)"),
        ("DG302", "def f(s, y):\n    return g(s, y)\n", "g(s, y)",
         {"operand": "y", "value": 5, "low": 0, "high": 5}, "return g(s, y - 1)"),
        ("DG314", "class Net(nn.Module):\n    def __init__(self):\n        self.bn = nn.BatchNorm1d(16)\n\n"
         "    def forward(self, x):\n        return self.bn(x)\n", "self.bn(x)",
         {"operand": "x", "shape": [4, 100, 16], "wanted": 16, "found": 100, "attribute": "num_features"},
         "return self.bn(x.transpose(1, 2)).transpose(1, 2)"),
        ("DG402", "def f(a, b):\n    return a / b.sum()\n", "a / b.sum()", {}, "return a / b.sum().clamp(min=1e-8)"),
        ("DG410", "def f(c):\n    return torch.acos(c)\n", "torch.acos(c)", {},
         "return torch.acos(c.clamp(-1 + 1e-6, 1 - 1e-6))"),
        ("DG409", "HIDDEN = -1e9\n\n\ndef f(s, m):\n    return s.masked_fill(m, HIDDEN)\n", "s.masked_fill(m, HIDDEN)",
         {}, "return s.masked_fill(m, torch.finfo(s.dtype).min)"),
        ("DG409", "def f(q, k, m):\n    return (q @ k).masked_fill(m, value=-1e9)\n", "return", {},
         "return (q @ k).masked_fill(m, value=torch.finfo(torch.float16).min)"),
        ("DG409", "def f(s, m):\n    s[m] = 1e6\n", "s[m] = 1e6", {}, "s[m] = torch.finfo(s.dtype).max"),
        ("DG409", "def f(s):\n    return torch.full(s.shape, -1e9, dtype=s.dtype)\n", "return", {},
         "return torch.full(s.shape, torch.finfo(s.dtype).min, dtype=s.dtype)"),
        ("DG805", "torch.save({'auc': auc, 'm': m.state_dict()}, path)\n", "torch.save", {"kind": "numpy.scalar"},
         "torch.save({'auc': float(auc), 'm': m.state_dict()}, path)"),
        ("DG805", "m = torch.load(path)\n", "m = torch.load(path)", {}, "m = torch.load(path, weights_only=False)"),
        ("DG405", "def f(s, p):\n    top = torch.exp(p)\n    total = torch.exp(s).sum(dim=1) + 1e-8\n"
         "    return -torch.log(top / total).mean()\n", "torch.exp(p)", {},
         "return -(p - torch.logsumexp(s, dim=1)).mean()"),
        ("DG404", "def f(a, b, n):\n    top = (a / n).exp()\n    return -(top / (top + b.exp().sum(-1))).log()\n",
         "top =", {}, "return -((a / n) - torch.logaddexp(a / n, torch.logsumexp(b, dim=-1)))"),
        ("DG405", "def f(x, y):\n    return x.exp() / y.exp().sum(1, keepdim=True)\n", "return", {},
         "return torch.exp(x - torch.logsumexp(y, dim=1, keepdim=True))"),
        ("DG110", "z = torch.randn(3, requires_grad=True) * s\n", "z = torch.randn(3, requires_grad=True) * s", {},
         "z = (torch.randn(3) * s).requires_grad_()"),
        ("DG118", "for _ in range(3):\n    x = project(x + 1)\n", "x = project(x + 1)", {},
         "x = project(x + 1).detach().requires_grad_()"),
        ("DG112", "def f(k, c):\n    return torch.tensor([[0.0, 1.0], [-k, -c]])\n", "torch.tensor", {},
         "return torch.stack([torch.stack([torch.full_like(k, 0.0), torch.full_like(k, 1.0)]), "
         "torch.stack([-k, -c])])"),
        ("DG102", "w = nn.Parameter(torch.ones(3))\nw.clamp_(min=0)\n", "w.clamp_(min=0)", {},
         "with torch.no_grad():\nw.clamp_(min=0)"),
        ("DG107", "def f(x):\n    return x.sum().numpy()\n", "x.sum().numpy()", {}, "return x.sum().detach().numpy()"),
        ("DG501", "def f(kept, loss):\n    kept.append(loss)\n", "kept.append(loss)", {}, "kept.append(loss.detach())"),
    ],
)  # fmt: skip
def test_the_edit_is_made_where_the_fault_is(
    code: str, program: str, at: str, facts: dict[str, Any], expected: str
) -> None:
    assert expected in proposed(program, code, at, facts).values()


@pytest.mark.parametrize(
    ("written", "finite"),
    [
        ("s = s.masked_fill(m, float('-inf'))", "s = s.masked_fill(m, torch.finfo(s.dtype).min)"),
        ("s[m] = -torch.inf", "s[m] = torch.finfo(s.dtype).min"),
        ("s = torch.where(m, s, -float('inf'))", "s = torch.where(m, s, -1e9)"),
        ("s.fill_diagonal_(float('inf'))", "s.fill_diagonal_(1e9)"),
    ],
)
def test_infinity_becomes_finite_where_it_is_written(written: str, finite: str) -> None:
    program = f"def f(s, m):\n    {written}\n    return s\n"
    texts = proposed(program, "DG410", written, {"infinity_meets": "_softmax"})
    assert list(texts.values()) == [finite]


SAMPLES = "class Data:\n    def __getitem__(self, i):\n        return self.x[i], {part}\n\n\nloss(model, batch)\n"


@pytest.mark.parametrize(
    ("code", "part", "facts", "expected"),
    [
        ("DG309", "row[2]", {"operand": "y", "wanted": "int64"}, "row[2].long()"),
        ("DG309", "float(self.y[i])", {"operand": "y", "wanted": "int64"}, "int(float(self.y[i]))"),
        ("DG317", "np.ones(3)", {"operand": "y", "wanted": "float32"}, 'np.ones(3).astype("float32")'),
        ("DG302", "numbers", {"stored": "numbers"}, "torch.unique(numbers, return_inverse=True)[1]"),
        ("DG302", "label", {"stored": "from 1"}, "label - 1"),
    ],
)
def test_what_a_dataset_delivers_is_changed_there(code: str, part: str, facts: dict[str, Any], expected: str) -> None:
    facts = {"value": 5, "low": 0, "high": 5, **facts}
    texts = proposed(SAMPLES.format(part=part), code, part, facts, raised="loss(model")
    assert f"return self.x[i], {expected}" in texts.values()


def test_a_state_that_the_run_saw_as_a_tuple_is_detached_as_one() -> None:
    program = "def f(rnn, xs, h):\n    for x in xs:\n        out, h = rnn(x, h)\n        out.sum().backward()\n"
    texts = proposed(program, "DG108", "out, h = rnn(x, h)", shapes=("h[0]", "h[1]", "out"))
    assert "h = tuple(part.detach() for part in h)" in texts.values()
    assert "h = h.detach()" not in texts.values()
    assert "h = h.detach()" in proposed(program, "DG108", "out, h = rnn(x, h)", shapes=("h", "out")).values()


def test_a_loss_is_computed_after_the_step_that_changes_its_weights() -> None:
    program = (
        "for it in range(3):\n    out = D(fake)\n    g_loss = out.mean()\n    other = 1\n"
        "    opt_d.step()\n    g_loss.backward()\n"
    )
    related = {"linear saves its input for backward": 4}
    texts = proposed(program, "DG101", "opt_d.step()", {"write": "step"}, related=related)
    assert list(texts) == ["Move it after the step that changes these weights (uses the new weights)"]
    related = {"linear saves its input for backward": 2, "`opt_d.step()` (Adam) changes the weights here": 7}
    assert proposed(program, "DG101", "out = D(fake)", {"write": "step"}, related=related) == texts


def test_what_changes_the_meaning_says_so() -> None:
    program = "table = nn.Embedding(10, 4)\n\n\ndef f(ids):\n    return table(ids)\n"
    facts = {"operand": "ids", "value": 10, "low": 0, "high": 10}
    assert all("(changes" in title for title in proposed(program, "DG302", "table(ids)", facts))


def test_constructors_call_the_base_class_first() -> None:
    program = "class Net(nn.Module):\n    def __init__(self):\n        self.fc = nn.Linear(2, 3)\n"
    message = "cannot assign module before Module.__init__() call"
    texts = proposed(program, "DG907", "self.fc = nn.Linear(2, 3)", message=message)
    assert texts == {"Call `super().__init__()` first": "super().__init__()"}


def test_nothing_is_proposed_for_a_fault_in_another_file() -> None:
    assert Path(PATH) != Path("/elsewhere.py")
    assert proposed("def f(key):\n    return {}[key]\n", "DG907", "{}[key]") == {}


def test_an_attribute_that_stays_behind_becomes_a_buffer() -> None:
    program = """
class Loss(nn.Module):
    def __init__(self, counts):
        super().__init__()
        self.weights = counts.sum() / counts
    def forward(self, x):
        return (self.weights * x).mean()
"""
    texts = proposed(program, "DG204", "self.weights = counts.sum() / counts", raised="return")
    changed = 'self.register_buffer("weights", counts.sum() / counts, persistent=False)'
    assert changed in texts["Register it as a buffer"]


STRAIGHT_THROUGH = (
    "def f(z, q):\n    q = z + (q - z).detach()\n    loss = nn.functional.mse_loss(q, z.detach())\n"
    "    scale = 2\n    return q, loss\n"
)


def test_a_straight_through_estimator_moves_behind_what_needs_the_graph_and_keeps_its_detach() -> None:
    at = "q = z + (q - z).detach()"
    assert list(proposed(STRAIGHT_THROUGH, "DG112", at)) == [
        "Move this below, so that later code reads `q` with its graph"
    ]


def test_an_optimizer_is_made_behind_the_call_that_replaces_a_layer() -> None:
    program = (
        "class Tuner:\n    def __init__(self, model):\n        self.opt = torch.optim.SGD(model.fc.parameters())\n"
        "        self.replace(model)\n        self.steps = max(1, 2)\n\n"
        "    def replace(self, model):\n        model.fc = nn.Linear(2, 2)\n"
    )
    at = "self.opt = torch.optim.SGD(model.fc.parameters())"
    texts = proposed(program, "DG715", at, related={"a new layer is created here": 10})
    assert list(texts) == ["Create the optimizer after the layer is replaced"]
    program = program.replace("self.replace(model)", "pass")
    assert proposed(program, "DG715", at, related={"a new layer is created here": 10}) == {}


def test_an_exponent_that_is_bound_anew_before_the_logarithm_is_not_read_there() -> None:
    program = "def f(s):\n    total = s.exp().sum(dim=1)\n    s = s * 2\n    return torch.log(total), s\n"
    assert not any("logsumexp" in text for text in proposed(program, "DG405", "s.exp()").values())
