"""Operators of a program's own, quantized tensors, sizes that depend on values: named, counted, and at least that."""

from __future__ import annotations

from typing import Any

import pytest
from worker_client import WorkerClient, plan

pytestmark = pytest.mark.slow
MIB = 1 << 20
PROGRAM = """\
import torch

library = torch.library.Library("mine", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CPU")
library.impl("twice", lambda x: torch.empty_like(x), "Meta")
library.define("opaque(Tensor x) -> Tensor")
library.impl("opaque", lambda x: x.clone(), "CPU")

@torch.library.custom_op("mine::kept", mutates_args=())
def kept(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0] + 1

def big():
    return torch.randn(4096, 4096, device="cuda")

def described():
    return torch.ops.mine.twice(big())

def computed():
    return torch.ops.mine.opaque(torch.randn(1024, 1024, device="cuda"))

def refused():
    return torch.ops.mine.opaque(torch.randn(10240, 10240, device="cuda"))

def in_python():
    return kept(big())

def quantized():
    x = big()
    small = torch.quantize_per_channel(x, torch.ones(4096), torch.zeros(4096), 0, torch.qint8)
    return x, small, small.dequantize()

def sized():
    count = int((big() > 0).sum())
    return torch.empty(count, 4, device="cuda")

def rounded():
    count = int(big().max())
    return torch.empty(count, 4, device="cuda")

def normalized():
    count = int((big() > 0).sum())
    return torch.nn.BatchNorm2d(64).cuda().eval()(torch.randn(8, 64, 56, 56, device="cuda")).mean() + count

def empty():
    found = torch.empty(0, device="cuda")
    return torch.cat([found, big().flatten()])

@torch.library.custom_op("mine::scaled", mutates_args=())
def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.cpu().numpy() * w.cpu().numpy()).to(x.device)

@scaled.register_fake
def _(x, w):
    return torch.empty_like(x)

def backward(ctx, grad):
    x, w = ctx.saved_tensors
    return grad * w, grad * x

scaled.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))

def differentiated():
    x = big().requires_grad_()
    torch.utils.checkpoint.checkpoint(lambda y: scaled(y.tanh(), y).exp(), x, use_reentrant=False).sum().backward()

def attended(compiled=False):
    from torch.nn.attention.flex_attention import flex_attention
    attend = torch.compile(flex_attention) if compiled else flex_attention
    q = torch.randn(2, 16, 2048, 64, device="cuda", requires_grad=True)
    attend(q, q, q).sum().backward()

def compiled():
    attended(True)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The forecasts of all functions."""
    folder = tmp_path_factory.mktemp("unfollowed")
    with WorkerClient() as worker:

        def of(target: str) -> Any:
            result = worker.run(plan(folder, PROGRAM, target=target, device="sim", forecast={"gpu": None}))
            assert result["outcome"] == ("unsupported" if target == "refused" else "passed"), result["error"]
            return result

        names = ("described", "computed", "refused", "in_python", "quantized", "differentiated")
        names += ("sized", "rounded", "normalized", "empty", "attended", "compiled")
        yield {name: of(name) for name in names}


@pytest.mark.parametrize(
    ("name", "operator", "line", "peak"),
    [("described", "mine::twice", 18, 128 * MIB), ("computed", "mine::opaque", 21, 8 * MIB)],
)
def test_only_results_of_an_operator_are_counted(told: Any, name: str, operator: str, line: int, peak: int) -> None:
    forecast = told[name]["forecast"]
    (said,) = forecast["assumptions"]
    assert said.startswith(f"line {line}: only the results of `{operator}` were counted")
    assert (forecast["at_least"], forecast["peak_allocated"]) == (True, peak)


def test_an_operator_that_cannot_be_counted_ends_the_forecast(told: Any) -> None:
    result = told["refused"]
    assert "mine::opaque" in result["error"]["message"]
    assert result["error"]["at"]["line"] == 24
    assert result["forecast"]["peak_allocated"] == 4 * 10240 * 10240


def test_python_of_an_operator_is_followed(told: Any) -> None:
    """Both the selected elements and the sum count."""
    forecast = told["in_python"]["forecast"]
    assert forecast["at_least"] is False
    assert forecast["peak_allocated"] >= 3 * 64 * MIB


def test_quantized_tensors_take_their_own_bytes(told: Any) -> None:
    forecast = told["quantized"]["forecast"]
    held = {row["operation"].rpartition("::")[2]: row["bytes"] for row in forecast["tensors"]}
    assert held["quantize_per_channel"] == 16 * MIB
    assert held["dequantize"] == 64 * MIB


def test_a_size_that_was_taken_to_be_nothing(told: Any) -> None:
    for name, line in (("sized", 36), ("rounded", 40)):
        forecast = told[name]["forecast"]
        assert forecast["at_least"] is True
        assert any(said.startswith(f"line {line}: a tensor has no elements") for said in forecast["assumptions"])


def test_what_batch_norm_makes_empty_by_itself(told: Any) -> None:
    assert told["normalized"]["forecast"]["at_least"] is False


def test_a_tensor_that_is_empty_by_itself(told: Any) -> None:
    assert told["empty"]["forecast"]["at_least"] is False
    assert told["empty"]["forecast"]["assumptions"] == []


def test_a_backward_in_python_is_backward_and_a_checkpoint_computes_again(told: Any) -> None:
    forecast = told["differentiated"]["forecast"]
    phases = {row["operation"].rpartition("::")[2]: row["phase"] for row in forecast["tensors"]}
    assert phases["tanh"] == "recompute"
    assert forecast["peak"]["phase"] == "backward", forecast["peak"]
    keepers = {row["kept_by"]["operation"] for row in forecast["tensors"] if row["kept_by"]}
    assert not [name for name in keepers if "generated" in name]


def test_compiled_attention_has_no_scores(told: Any) -> None:
    written, compiled = (told[name]["forecast"] for name in ("attended", "compiled"))
    scores, each = 4 * 2 * 16 * 2048 * 2048, 4 * 2 * 16 * 2048 * 64
    assert written["peak_allocated"] > scores
    assert 5 * each < compiled["peak_allocated"] < 8 * each, "q, the output, the gradients of all three"
    assert [*compiled["phases"]] == ["forward", "backward"]
    assert any(
        said.endswith("`flex_attention` was taken to be compiled into one kernel") for said in compiled["assumptions"]
    )
