"""A loss over a vocabulary is computed in chunks, with equal gradients, where nothing else reads what it is of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from drygrad.dryrun.what_if.rewrites import Rewriter
from drygrad.fixing import apply_edits
from drygrad.static.source import Source

PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 50)

    def forward(self, x, targets):
        logits = self.head(x * 2)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
"""


def rewritten(text: str) -> str:
    source = Source(text)
    return apply_edits(source, Rewriter(source).of("chunked-loss"))


def gradients(text: str) -> list[torch.Tensor]:
    names: dict[str, Any] = {}
    exec(compile(text, "loss", "exec"), names)
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    net, x = names["Net"](), torch.randn(3, 700, 8, requires_grad=True)
    targets = torch.randint(0, 50, (3, 700))
    targets[0, :90] = 3 if "ignore_index=3" in text else -100
    loss = net(x, targets)
    return [loss.detach(), *torch.autograd.grad(loss, (x, *net.parameters()))]


@pytest.mark.parametrize(
    "text",
    [
        PROGRAM,
        PROGRAM.replace("view(-1, logits.size(-1))", "flatten(0, 1)"),
        PROGRAM.replace("targets.view(-1))", "targets.reshape(-1), ignore_index=3)"),
        PROGRAM.replace("return F.cross_entropy(", "measure = nn.CrossEntropyLoss()\n        return measure("),
        PROGRAM.replace("return F.cross", "return self.measure")
        .replace("_entropy(", "(")
        .replace("50)\n", "50)\n        self.measure = nn.CrossEntropyLoss(ignore_index=3)\n"),
        PROGRAM.replace(
            "return F",
            "logits = logits.float()\n        shifted = logits[..., :-1, :].contiguous()\n"
            "        wanted = targets[..., 1:].contiguous()\n        return F",
        )
        .replace("logits.view(-1, logits.size(-1))", "shifted.view(-1, 50)")
        .replace("targets.view", "wanted.view"),
    ],
)
def test_a_loss_in_chunks_has_equal_gradients(text: str) -> None:
    made = rewritten(text)
    assert ".split(1024)" in made and "logits" not in made
    for now, before in zip(gradients(made), gradients(text), strict=True):
        assert torch.allclose(now, before, atol=1e-6)


@pytest.mark.parametrize(
    "other",
    [
        PROGRAM.replace("return F", "self.last = logits\n        return F"),
        PROGRAM.replace("nn.Linear(8, 50)", "nn.Conv1d(8, 50, 1)"),
        PROGRAM.replace("targets.view(-1))", "targets.view(-1), label_smoothing=0.1)"),
        PROGRAM.replace("logits.view(-1, logits.size(-1)), targets.view(-1)", "logits, targets"),
        PROGRAM.replace("        return F", "        x.mul_(2)\n        return F"),
        PROGRAM.replace("        return F", "        logits = logits[..., ::2, :]\n        return F"),
        PROGRAM.replace(
            "return F.cross_entropy(", "measure = nn.CrossEntropyLoss(reduction='sum')\n        return measure("
        ),
        PROGRAM.replace("return F.cross_entropy(", "measure = nn.NLLLoss()\n        return measure("),
    ],
)
def test_another_form_stays(other: str) -> None:
    assert rewritten(other) == other
