"""Edges stay finite: a target whose result was finite is called again at the edge of what is legal."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from bench_harness import examined

from drygrad.worker.experiments.edges import EdgesStayFinite
from drygrad.worker.run import Fault

_LABELS = "z=F.normalize(torch.randn(6, 4)), labels=torch.tensor([0, 1, 0, 1, 2, 2])"
_MASKED = "x=torch.randn(2, 5), keep=torch.tensor([[True, True, True, False, True], [True, False, True, True, False]])"
_PADDED = "x=torch.randn(2, 5), ids=torch.tensor([[1, 2, 3, 0, 0], [4, 5, 3, 1, 0]])"
_PAIR = "u=torch.randn(6, 3, requires_grad=True), v=torch.randn(6, 3)"

PAIRS = {
    "a sample of zeros": (
        "u=torch.randn(5, 7), v=torch.randn(5, 7)",
        "u = u / u.norm(dim=-1, keepdim=True)\nreturn (u * v).sum()",
        "u = F.normalize(u, dim=-1)\nreturn (u * v).sum()",
        ("DG402", "warning", "if `u[0]` is 0 everywhere, division by zero"),
    ),
    "a node without neighbours": (
        "x=torch.randn(6, 4), adjacency=(torch.rand(6, 6) > 0.2).float()",
        "d = adjacency.sum(1).pow(-0.5)\nreturn (d[:, None] * adjacency * d) @ x",
        "d = adjacency.sum(1).clamp(min=1).pow(-0.5)\nreturn (d[:, None] * adjacency * d) @ x",
        ("DG402", "warning", "if row and column 0 of `adjacency` are 0, division by zero"),
    ),
    "a mask that selects nothing of a sample": (
        _MASKED,
        "return (x * keep).sum(1) / keep.sum(1)",
        "return (x * keep).sum(1) / keep.sum(1).clamp(min=1)",
        ("DG402", "info", "if all of `keep[0]` is False, division by zero"),
    ),
    "a mask that selects nothing at all": (
        _MASKED,
        "return F.smooth_l1_loss(x[keep], torch.zeros(2, 5)[keep])",
        "return F.smooth_l1_loss(x * keep, torch.zeros(2, 5))",
        ("DG922", "warning", "if all of `keep` is False"),
    ),
    "a mask that selects one": (
        "x=torch.randn(6), keep=torch.tensor([True, False, True, True, False, True])",
        "n = keep.sum()\nm = (x * keep).sum() / n.clamp(min=1)\nreturn ((x - m) ** 2 * keep).sum() / (n - 1)",
        "n = keep.sum()\nm = (x * keep).sum() / n.clamp(min=1)\n"
        "return ((x - m) ** 2 * keep).sum() / (n - 1).clamp(min=1)",
        ("DG402", "warning", "if only one element of `keep` is True, division by zero"),
    ),
    "a row that is masked throughout": (
        _MASKED,
        "weights = x.masked_fill(~keep, -torch.inf).softmax(-1)\nreturn weights",
        "weights = x.masked_fill(~keep, -1e9).softmax(-1)\nreturn weights",
        ("DG922", "info", "if all of `keep[0]` is False, softmax of fully masked rows"),
    ),
    "a sample of padding": (
        _PADDED,
        "return x.masked_fill(ids == 0, -torch.inf).softmax(-1)",
        "return x.masked_fill(ids == 0, -1e9).softmax(-1)",
        ("DG922", "info", "if all of `ids[0]` is 0, which it is compared with, softmax of fully masked rows"),
    ),
    "a padding that is a tensor": (
        _PADDED,
        "return (x * ids.ne(torch.tensor(3))).sum(1) / ids.ne(torch.tensor(3)).sum(1)",
        "return (x * ids.ne(torch.tensor(3))).sum(1) / ids.ne(torch.tensor(3)).sum(1).clamp(min=1)",
        ("DG402", "info", "if all of `ids[0]` is 3, which it is compared with, division by zero"),
    ),
    "a length of zero": (
        "x=torch.randn(2, 5), lengths=torch.tensor([5, 3])",
        "return x.masked_fill(torch.arange(5) >= lengths[:, None], -torch.inf).softmax(-1)",
        "return x.masked_fill(torch.arange(5) >= lengths[:, None].clamp(min=1), -torch.inf).softmax(-1)",
        ("DG922", "info", "if `lengths[0]` is 0, softmax of fully masked rows"),
    ),
    "two equal points, backward": (
        _PAIR,
        "return (u - v).pow(2).sum(-1).sqrt().mean()",
        "return torch.linalg.vector_norm(u - v, dim=-1).mean()",
        ("DG407", "warning", "the gradient of `u` is NaN"),
    ),
    "a cosine of one": (
        _PAIR,
        "return torch.acos(F.cosine_similarity(u, v)).mean()",
        "return torch.acos(F.cosine_similarity(u, v).clamp(-1 + 1e-6, 1 - 1e-6)).mean()",
        ("DG922", "warning", "if `v[0]` equals `u[0]`"),
    ),
    "the angle of no rotation": (
        "r=torch.linalg.qr(torch.randn(4, 3, 3))[0].requires_grad_()",
        "cosine = (r.diagonal(dim1=1, dim2=2).sum(1) - 1) / 2\nreturn torch.acos(cosine.clamp(-1, 1)).mean()",
        "cosine = (r.diagonal(dim1=1, dim2=2).sum(1) - 1) / 2\n"
        "return torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6)).mean()",
        ("DG922", "warning", "if `r[0]` is the identity"),
    ),
    "a quaternion without an axis": (
        "q=F.normalize(torch.randn(5, 4), dim=-1)",
        "return q[:, 1:] / q[:, 1:].norm(dim=1, keepdim=True)",
        "return F.normalize(q[:, 1:], dim=1)",
        ("DG402", "info", "if `q[0]` points along its first axis"),
    ),
    "an image of one value": (
        "image=torch.rand(2, 3, 4, 4) - 0.5",
        "d, m = torch.std_mean(image, dim=(1, 2, 3), keepdim=True)\nreturn (image - m) / d",
        "d, m = torch.std_mean(image, dim=(1, 2, 3), keepdim=True)\nreturn (image - m) / (d + 1e-6)",
        ("DG402", "info", "if `image[0]` is 0 everywhere, division by zero"),
    ),
    "a class that occurs once": (
        _LABELS,
        "same = (labels[:, None] == labels).float().fill_diagonal_(0)\n"
        "return ((z @ z.T * same).sum(1) / same.sum(1)).mean()",
        "same = (labels[:, None] == labels).float().fill_diagonal_(0)\n"
        "return ((z @ z.T * same).sum(1) / same.sum(1).clamp(min=1)).mean()",
        ("DG402", "warning", "if 2 occurs once in `labels`"),
    ),
    "one sample": (
        "rewards=torch.randn(7)",
        "return (rewards - rewards.mean()) / (rewards.std() + 1e-5)",
        "return (rewards - rewards.mean()) / (rewards.std(unbiased=False) + 1e-5)",
        ("DG922", "info", "if `rewards` has one element, the standard deviation of a single value is NaN"),
    ),
    "a softmax by hand": (
        "scores=torch.randn(4, 9)",
        "weights = torch.exp(scores)\nreturn weights / weights.sum(-1, keepdim=True)",
        "weights = torch.exp(scores - scores.amax(-1, keepdim=True))\nreturn weights / weights.sum(-1, keepdim=True)",
        ("DG405", "info", "if `scores` reaches 120, exp overflows"),
    ),
    "the logarithm of a probability": (
        "logits=torch.randn(6, 10, requires_grad=True)",
        "p = logits.softmax(-1)\nreturn -(p * p.log()).sum()",
        "p = logits.log_softmax(-1)\nreturn -(p.exp() * p).sum()",
        ("DG403", "info", "if `logits` reaches 120, logarithm of 0"),
    ),
    "Gaussian weights of far points": (
        "points=torch.randn(9, 2), centres=torch.randn(3, 2)",
        "w = torch.exp(-torch.cdist(points, centres) ** 2)\nreturn w / w.sum(1, keepdim=True)",
        "w = -torch.cdist(points, centres) ** 2\nreturn w.softmax(1)",
        ("DG402", "info", "if `points` reaches 20, division by zero"),
    ),
}


def _found(folder: Path, body: str, given: str, **asked: bool) -> list[Fault]:
    call = ast.parse(f"dict({given})", mode="eval").body
    assert isinstance(call, ast.Call)
    names = ", ".join(str(keyword.arg) for keyword in call.keywords)
    found = examined(folder, EdgesStayFinite, f"def f({names}):\n{indent(body, '    ')}\n", given, **asked)
    assert not isinstance(found, str), found
    return found


@pytest.mark.parametrize("case", PAIRS)
def test_what_is_not_finite_at_an_edge_is_told_with_the_edge(case: str, tmp_path: Path) -> None:
    given, broken, _, (code, severity, words) = PAIRS[case]
    fault = _found(tmp_path, broken, given)[0]
    assert (fault.code, fault.severity) == (code, severity)
    assert words in fault.message


@pytest.mark.parametrize("case", PAIRS)
def test_what_is_guarded_holds(case: str, tmp_path: Path) -> None:
    given, _, right, _ = PAIRS[case]
    assert _found(tmp_path, right, given) == []


def test_nothing_is_a_warning_that_hangs_on_invented_inputs(tmp_path: Path) -> None:
    given, broken, _, _ = PAIRS["a sample of zeros"]
    assert {fault.severity for fault in _found(tmp_path, broken, given, invented=True)} == {"info"}


def test_nothing_is_a_warning_that_the_program_has_made_so(tmp_path: Path) -> None:
    program = """
        class Schedule:
            def __init__(self, n):
                self.kept = torch.linspace(0.9, 0.01, n)

        def f(schedule, x):
            return (x / schedule.kept).softmax(-1)
        """
    found: Any = examined(tmp_path, EdgesStayFinite, program, "schedule=Schedule(4), x=torch.randn(3, 4)")
    assert {(fault.code, fault.severity) for fault in found} == {("DG402", "info")}


@pytest.mark.parametrize(("order", "severity"), [("[0, 1, 2, 3]", "info"), ("[0, 1, 1, 0]", "warning")])
def test_classes_may_be_alike_but_not_ranks(order: str, severity: str, tmp_path: Path) -> None:
    given = f"s=torch.randn(4), y=torch.tensor({order}) + 2"
    broken = "wanted = y[:, None] > y[None]\nreturn F.softplus(-(s[:, None] - s[None])[wanted]).mean()"
    assert [(fault.code, fault.severity) for fault in _found(tmp_path, broken, given)] == [("DG922", severity)]


EXCLUDED = {
    "a check that raises": (
        "x=torch.randn(3, 4)",
        "n = x.norm(dim=1, keepdim=True)\nif not n.all():\n    raise ValueError('a sample of zeros')\nreturn x / n",
    ),
    "a name that asks for what is positive": ("x=torch.randn(3), sigma=torch.rand(3)", "return x * sigma / sigma"),
    "documentation that asks for it": (
        "x=torch.randn(3, 2)",
        '"""Scale x, which must be non-zero."""\nreturn x / x.norm()',
    ),
    "values that are all positive": ("x=torch.rand(3, 2) + 0.5", "return x / x.sum(1, keepdim=True)"),
    "vectors of length one": ("x=F.normalize(torch.randn(3, 2))", "return x / x.norm(dim=1, keepdim=True)"),
    "rotations": ("r=torch.linalg.qr(torch.randn(2, 3, 3))[0]", "return r / r.norm(dim=(1, 2), keepdim=True)"),
    "matrices to be inverted": ("h=torch.randn(2, 3, 3)", "return h / torch.linalg.det(h)[:, None, None]"),
    "a limit that is meant": ("p=torch.rand(4, 3) - 0.1", "return p.abs().log()"),
    "a pole far out, in any precision": ("x=torch.randn(4, 3)", "return x.exp().sum() - x.exp().mean()"),
    "documentation that excludes an empty mask": (
        _MASKED,
        '"""Average x.\n\n`keep` should not be False throughout.\n"""\nreturn x[keep].mean()',
    ),
    "probabilities that stay within their range": (
        "p=torch.rand(4, 3)",
        "return p.exp() / p.exp().sum(1, keepdim=True)",
    ),
}


@pytest.mark.parametrize("case", EXCLUDED)
def test_what_nothing_shows_to_be_legal_is_no_edge(case: str, tmp_path: Path) -> None:
    given, body = EXCLUDED[case]
    assert _found(tmp_path, body, given) == []


@pytest.mark.parametrize("body", ["return x / 3", "return (x @ x.T).relu().sum()"])
def test_what_is_singular_nowhere_has_no_edges(body: str, tmp_path: Path) -> None:
    program = f"def f(x):\n    {body}\n"
    why = examined(tmp_path, EdgesStayFinite, program, "x=torch.randn(4, 3)")
    assert why == "it has no singular operations"


def test_inputs_that_are_not_finite_as_they_are_are_no_matter_of_edges(tmp_path: Path) -> None:
    program = dedent(
        """
        def f(x):
            return x / x
        """
    )
    assert "not finite" in str(examined(tmp_path, EdgesStayFinite, program, "x=torch.zeros(3)"))


def test_gradients_that_nobody_has_asked_for_are_an_info(tmp_path: Path) -> None:
    program = dedent(
        """
        def f(x):
            return (x[:, None] - x).square().sum(-1).sqrt()
        """
    )
    (fault,) = examined(tmp_path, EdgesStayFinite, program, "x=torch.randn(3, 2)")
    assert isinstance(fault, Fault)
    assert (fault.code, fault.severity) == ("DG407", "info")
    assert fault.message.startswith("if gradients are taken, the gradient of")
    assert examined(tmp_path, EdgesStayFinite, program, "x=torch.randn(3, 2, requires_grad=True)") == []


def test_a_call_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    program = dedent(
        """
        class f(nn.Module):
            def __init__(self):
                super().__init__()
                self.mean = torch.ones(3)
                self.calls = 0

            def f(self, x):
                self.calls += 1
                assert self.calls == 1
                self.mean = 0.5 * self.mean + 0.5 * x.mean(0)
                return x / self.mean.norm()
        """
    )
    assert examined(tmp_path, EdgesStayFinite, program, "self=f(), x=torch.randn(4, 3)") == []


def test_a_function_that_refuses_to_be_copied(tmp_path: Path) -> None:
    program = dedent(
        """
        class Refusing:
            def __call__(self, x):
                return x / x.norm()

            def __deepcopy__(self, memo):
                raise TypeError

        f = Refusing()
        """
    )
    (fault,) = examined(tmp_path, EdgesStayFinite, program, "x=torch.randn(4)")
    assert isinstance(fault, Fault)


def test_a_weight_that_grows(tmp_path: Path) -> None:
    program = dedent(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 4)

            def f(self, image, label):
                p = self.layer(image).softmax(1)
                return -p.gather(1, label[:, None]).log().mean()
        """
    )
    given = "self=Net(), image=torch.rand(5, 3), label=torch.tensor([0, 1, 2, 3, 0])"
    (fault,) = examined(tmp_path, EdgesStayFinite, program, given)
    assert isinstance(fault, Fault)
    assert fault.code in ("DG403", "DG404")
    assert "if the weights `self.layer.weight` grow" in fault.message


def test_a_layer_that_gives_the_other_sign_when_it_has_grown(tmp_path: Path) -> None:
    program = dedent(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(1, 1, bias=False)
                self.layer.weight.data.fill_(SIGN)

            def f(self, image):
                return torch.log(1 - torch.sigmoid(self.layer(image))).mean()
        """
    )
    for sign, words in (("1.0", "34-fold, "), ("-1.0", "34-fold and change sign, ")):
        (fault,) = examined(
            tmp_path, EdgesStayFinite, program.replace("SIGN", sign), "self=Net(), image=torch.tensor([[1.0], [0.1]])"
        )
        assert isinstance(fault, Fault)
        assert fault.message.startswith(f"if the weights `self.layer.weight` grow {words}logarithm of 0")


def test_a_weight_that_becomes_negative(tmp_path: Path) -> None:
    program = dedent(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.gain = nn.Parameter(torch.ones(3))

            def f(self, x):
                return x / torch.relu(self.gain + 1e-6)
        """
    )
    (fault,) = examined(tmp_path, EdgesStayFinite, program, "self=Net(), x=torch.randn(5, 3)")
    assert isinstance(fault, Fault)
    assert (fault.code, fault.severity) == ("DG401", "info")
    assert "if the weights `self.gain` become negative, division by zero" in fault.message
    right = program.replace("torch.relu(self.gain + 1e-6)", "(torch.relu(self.gain) + 1e-6)")
    assert examined(tmp_path, EdgesStayFinite, right, "self=Net(), x=torch.randn(5, 3)") == []
