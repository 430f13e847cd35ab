"""What runs out of memory is offered changes of its text that fit, keep its results, and were tried."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from drygrad.cli.main import main
from drygrad.dryrun.what_if.rewrites import Rewriter
from drygrad.fixing import apply_edits
from drygrad.static.source import Source

PROGRAM = """\
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide))

    def forward(self, x):
        return x + self.mlp(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(64) for _ in range(4)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

def train():
    batch_size = 64
    net = Net().to("cuda")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(2):
        x = torch.randn(batch_size, 128, 64, device="cuda")
        net(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

if __name__ == "__main__":
    train()
"""


def rewritten(text: str, word: str) -> str:
    source = Source(text)
    return apply_edits(source, Rewriter(source).of(word))


def test_blocks_of_a_loop_are_called_through_a_checkpoint() -> None:
    text = rewritten(PROGRAM, "checkpoint:__main__.Block")
    assert "import torch\nfrom torch.utils.checkpoint import checkpoint\n" in text
    assert "            x = checkpoint(block, x, use_reentrant=False)\n" in text


def test_blocks_in_sequence_become_a_loop() -> None:
    loop = "        for block in self.blocks:\n            x = block(x)\n        return x"
    listed = "nn.ModuleList([Block(64) for _ in range(4)])"
    whole = PROGRAM.replace(loop, "        y = self.blocks(x + 1)\n        return y")
    text = rewritten(whole.replace(listed, "nn.Sequential(*[Block(64) for _ in range(4)])"), "checkpoint:m.Block")
    loop = "        for block in self.blocks:\n            y = checkpoint(block, y, use_reentrant=False)\n"
    assert f"        y = x + 1\n{loop}" in text


@pytest.mark.parametrize(
    "other",
    [
        PROGRAM.replace("[Block(64) for _ in range(4)]", "[make(64) for _ in range(4)]"),
        PROGRAM.replace("import torch\n", "import torch\ncheckpoint = 'best.pt'\n", 1),
        PROGRAM.replace("        self.blocks = ", "        self.blocks = None\n        self.blocks = "),
    ],
)
def test_what_is_not_certain_stays(other: str) -> None:
    assert rewritten(other, "checkpoint:__main__.Block") == other


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("fused", "AdamW(net.parameters(), lr=1e-3, fused=True)"),
        ("one-by-one", "AdamW(net.parameters(), lr=1e-3, foreach=False)"),
        ("set-to-none", "optimizer.zero_grad()"),
        ("expandable", "import os\nos.environ.setdefault("),
        (
            "save-on-cpu",
            "        with torch.autograd.graph.save_on_cpu(pin_memory=True):\n"
            "            net(x).square().mean().backward()\n        optimizer.step()",
        ),
    ],
)
def test_other_changes(word: str, wanted: str) -> None:
    assert wanted in rewritten(PROGRAM, word)


STEP = """\
import torch

def step(net, loss_of, optimizer, x, y):
    x = x.to("cuda")
    logits = net(x)
    loss = loss_of(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""
UNDER = """\
    x = x.to("cuda")
    with {}:
        logits = net(x)
        loss = loss_of(logits, y)
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("word", "manager"),
    [
        ("save-on-cpu", "torch.autograd.graph.save_on_cpu(pin_memory=True)"),
        ("autocast:bf16", 'torch.autocast("cuda", dtype=torch.bfloat16)'),
    ],
)
def test_the_forward_pass_is_put_under_a_context_manager(word: str, manager: str) -> None:
    assert UNDER.format(manager) in rewritten(STEP, word)


@pytest.mark.parametrize("word", ["save-on-cpu", "autocast:bf16"])
def test_a_forward_pass_that_is_not_certain_stays(word: str) -> None:
    twice = f"{STEP}\n{STEP.partition('torch')[2]}"
    alone = STEP.replace("logits = net(x)", "logits = torch.relu(x)").replace("loss_of(logits, y)", "logits.sum()")
    assert (rewritten(twice, word), rewritten(alone, word)) == (twice, alone)
    assert rewritten(PROGRAM, "autocast:bf16") == PROGRAM, "backward would run under it"
    assert rewritten(STEP, "autocast:fp16") == STEP, "it would need a scaler"


def test_evaluation_gets_no_graph() -> None:
    text = "import torch\n\ndef test(net, x):\n    net.eval()\n    return net(x)\n"
    assert "@torch.no_grad()\ndef test(" in rewritten(text, "no-grad")
    trained = text.replace("    return net(x)", "    net.train()\n    return net(x)")
    assert rewritten(trained, "no-grad") == trained


@pytest.mark.slow
def test_a_run_out_of_memory_has_fixes_that_were_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    bounds = ["--gpu-memory", "64MiB", "--experiment-time", "60", "--verify-time", "300", "--python", sys.executable]
    assert main(["run", f"{path}::train", *bounds, "--no-progress", "--output-format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (finding,) = (finding for finding in told["findings"] if finding["code"] == "DG507")
    fixes = [fix for fix in finding["fixes"] if "checkpoint" in fix["title"]]
    assert [fix["verified"] for fix in fixes] == [True]
    assert any("use_reentrant=False" in edit["new_text"] for edit in fixes[0]["edits"])
