"""Order is free: a module in evaluation is called with its samples in another order."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_harness import examined, line_of

from drygrad.worker.experiments.order import OrderIsFree
from drygrad.worker.run import Fault

_ENCODER = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("places", torch.randn(64, 8))
            self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def f(self, x):
            {}
            return self.encoder(x)
    """
_CONVOLUTION = """
    class f(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(3, 4, 3)

        def f(self, x):
            x = self.layer(x).mean((2, 3))
            {}
            return x
    """
_SEQUENCES, _IMAGES = "self=f(), x=torch.randn(2, 6, 8)", "self=f(), x=torch.randn(2, 3, 6, 6)"

PAIRS = {
    "positions that are those of samples": (
        _ENCODER,
        _SEQUENCES,
        "x = x + self.places[: x.size(0)].unsqueeze(1)",
        "x = x + self.places[: x.size(1)]",
    ),
    "weights by the number of the sample": (
        _CONVOLUTION,
        _IMAGES,
        "x = x * torch.linspace(0, 1, x.shape[0])[:, None]",
        "x = x * torch.linspace(0, 1, x.shape[1])",
    ),
    "the first sample is left as it is": (
        _CONVOLUTION,
        _IMAGES,
        "x = torch.cat([x[:1], x[1:].relu()])",
        "x = torch.cat([x[:1].relu(), x[1:].relu()])",
    ),
    "a mask over the samples": (
        _CONVOLUTION,
        _IMAGES,
        "x = x.masked_fill(torch.arange(len(x))[:, None] < 2, 0)",
        "x = x.masked_fill(torch.arange(4) < 2, 0)",
    ),
}


@pytest.mark.parametrize("case", PAIRS)
def test_what_goes_by_the_place_of_a_sample_is_told_at_its_line(case: str, tmp_path: Path) -> None:
    program, given, broken, right = PAIRS[case]
    text = program.replace("{}", broken)
    (fault,) = examined(tmp_path, OrderIsFree, text, given)
    assert isinstance(fault, Fault)
    assert (line_of(text, fault), fault.code) == (broken, "DG936")
    assert examined(tmp_path, OrderIsFree, program.replace("{}", right), given) == []


def test_what_mixes_samples_is_told_by_another_relation(tmp_path: Path) -> None:
    program = _CONVOLUTION.replace("{}", "x = x.cumsum(0)")
    assert examined(tmp_path, OrderIsFree, program, _IMAGES) == "its samples are not independent"


def test_what_no_layer_calls_a_batch_is_not_tried(tmp_path: Path) -> None:
    program = """
        class f(nn.Module):
            def f(self, x):
                return x * torch.arange(len(x))[:, None]
        """
    why = examined(tmp_path, OrderIsFree, program, "self=f(), x=torch.randn(4, 3)")
    assert why == "nothing says that the first dimension of its inputs is a batch"
