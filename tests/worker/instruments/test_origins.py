"""An error is related to the lines that made what met there, or told at the line that is to be changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from instrument_harness import related, watch

from drygrad.worker.instruments import all_instruments

SCRIPT = """
import json, sys
from pathlib import Path
from drygrad.worker.devices import sim
sim.enable(devices=1)
from drygrad.worker.instruments import all_instruments
from instrument_harness import related, spots, watch
for program in json.load(sys.stdin):
    run = watch(Path(sys.argv[1]), program, *all_instruments().values(), device="sim")
    print(json.dumps([spots(run), [related(fault) for fault in run.faults], run.result["memory"]["device"], run.notes]))
"""
SUPPORT = Path(__file__).parents[2] / "support"

MODULE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3)
        {attribute}
    def forward(self, x):
        {before}
        return self.table(x) + {added}
Net().cuda()(torch.zeros(3, dtype=torch.long).cuda())
"""

DEVICES: dict[str, tuple[list[Any], dict[str, int]]] = {
    MODULE.format(attribute="", before="p = torch.ones(3)", added="p"): (["DG203", 7], {"it fails here": 8}),
    MODULE.format(attribute="", before="p = torch.ones(3)\n        p = p[None].expand(3, 3)", added="p"): (
        ["DG203", 7],
        {"it fails here": 9},
    ),
    MODULE.format(attribute="self.m = torch.ones(3)", before="", added="self.m"): (
        ["DG204", 5],
        {"it fails here": 8},
    ),
    MODULE.format(attribute="t = torch.ones(2, 3); t[0] = 2.0\n        self.m = t", before="", added="self.m[:1]"): (
        ["DG204", 6],
        {"it fails here": 9, "`self.m` is created here": 5},
    ),
    MODULE.format(attribute="self.m = torch.ones(3, device='cpu')", before="", added="self.m"): (
        ["DG205", 8],
        {"`self.m` is created here": 5},
    ),
    MODULE.format(attribute="", before="p = torch.ones(3, device='cpu')", added="p"): (
        ["DG205", 8],
        {"`p` is created here": 7},
    ),
    "a = torch.ones(3)\nb = a.cuda()\na + b": (["DG205", 3], {"`a` is created here": 1}),
    "m = nn.Linear(2, 3)\nm(torch.ones(1, 2).cuda())": (["DG201", 2], {"the bias of `m` is created here": 1}),
    "w = torch.ones(2)\nloss = nn.CrossEntropyLoss(weight=w)\n"
    "loss(torch.ones(4, 2).cuda(), torch.zeros(4).long().cuda())": (
        ["DG205", 2],
        {"the weight of `loss` is created here": 1, "it fails here": 3},
    ),
    "x = torch.ones(3).cuda()\ng = torch.Generator()\ntorch.randn(3, generator=g, device='cuda')": (
        ["DG205", 2],
        {"it fails here": 3},
    ),
    "def made(seed, device):\n    return torch.Generator().manual_seed(seed)\n"
    "def noise(n, generator):\n    return torch.randn(n, generator=generator, device='cuda')\n"
    "def sample(n):\n    g = made(0, 'cuda')\n    return noise(n, g)\n"
    "sample(len(torch.ones(3).cuda()))": (["DG205", 2], {"it fails here": 4}),
    "class Sampler:\n    def __init__(self):\n        self.g = torch.Generator()\n"
    "    def draw(self, x):\n        return torch.rand(3, generator=self.g, device=x.device)\n"
    "Sampler().draw(torch.ones(3).cuda())": (
        ["DG205", 3],
        {"it fails here": 5},
    ),
    "def draw(x, g):\n    return torch.rand(3, generator=g, device=x.device)\n"
    "draw(torch.ones(3).cuda(), torch.Generator())": (
        ["DG205", 2],
        {},
    ),
}

HANDED = """\
def score(x, layer):
    return layer(x)
def run(batch):
    fc = nn.Linear(3, 2).cuda()
    return [score(each, fc) for each in batch]
"""

STAGES = """\
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def forward(self, x):
        return self.fc(x)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = {blocks}
        self.head = nn.Linear(3, 2)
    def forward(self, x):
        for block in {each}:
            x = block(x)
        return self.head(x)
{made}
net(torch.ones(1, 3).cuda())
"""
IN_LIST = STAGES.format(blocks="[Block(), Block()]", each="self.blocks", made="net = Net().cuda()")

FURTHER: dict[str, tuple[list[Any], dict[str, int]]] = {
    IN_LIST: (["DG741", 10], {"the bias of `self.fc` is created here": 4, "it fails here": 6}),
    STAGES.format(
        blocks="{'a': Block(), 'b': Block()}", each="self.blocks.values()", made="net = nn.Sequential(Net()).cuda()"
    ): (["DG741", 10], {"the bias of `self.fc` is created here": 4, "it fails here": 6}),
    STAGES.format(blocks="[Block(), Block()]", each="self.blocks", made="net = Net()"): (
        ["DG201", 6],
        {"the bias of `self.fc` is created here": 4},
    ),
    STAGES.format(blocks="[Block()]", each="self.blocks", made="net = Net().cuda()"): (
        ["DG201", 6],
        {"the bias of `self.fc` is created here": 4},
    ),
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.body = nn.Sequential(nn.Linear(3, 2))\n"
    "    def forward(self, x):\n        return self.body(x)\n"
    "class Agent:\n    def __init__(self):\n        self.online = Net().cuda()\n        self.target = Net()\n"
    "    def step(self, x):\n        return self.online(x) - self.target(x)\n"
    "Agent().step(torch.ones(1, 3).cuda())": (
        ["DG201", 10],
        {"the bias of `self.body[0]` is created here": 4, "it fails here": 6},
    ),
    "class Schedule:\n    def __init__(self, device):\n        self.device = device\n"
    "        self.table = torch.linspace(0, 1, 9).cumsum(0)\n"
    "    def at(self, t):\n        return self.table[t]\n"
    "Schedule('cuda').at(torch.zeros(2).long().cuda())": (
        ["DG205", 4],
        {"it fails here": 6},
    ),
    "class Boxes(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.sizes = [torch.ones(2), torch.ones(2)]\n"
    "    def forward(self, x):\n        return [x * size for size in self.sizes]\n"
    "Boxes()(torch.ones(2).cuda())": (
        ["DG204", 4],
        {"it fails here": 6},
    ),
    HANDED + "run([torch.ones(1, 3)])": (
        ["DG201", 5],
        {"`each` is created here": 6, "`layer` is created here": 4, "it fails here": 2},
    ),
    "def steps(lengths):\n    return torch.arange(4) < lengths\nsteps(torch.ones(4).cuda())": (["DG205", 2], {}),
    "def steps(count):\n    return torch.arange(count)\n"
    "def mask(lengths):\n    given = steps(4)\n    return given < lengths\n"
    "mask(torch.ones(4).cuda())": (["DG205", 4], {"`given` is created here": 2, "it fails here": 5}),
    "class Average:\n    def __init__(self, model):\n"
    "        self.kept = [p.detach().clone() for p in model.parameters()]\n"
    "    def update(self, model):\n        for mine, its in zip(self.kept, model.parameters()):\n"
    "            mine.lerp_(its.detach(), 0.5)\n"
    "model = nn.Linear(2, 2)\naverage = Average(model)\nmodel.cuda()\naverage.update(model)": (
        ["DG205", 8],
        {"`mine` is created here": 3, "it fails here": 6},
    ),
    "def step(x, y):\n    x = x.cuda()\n    return x + y\nstep(torch.ones(3), torch.ones(3))": (
        ["DG205", 3],
        {"`y` is created here": 4},
    ),
    "def step(x):\n    return x + torch.ones(3).cuda()\nfor x in [torch.ones(3)]:\n    step(x)": (
        ["DG205", 4],
        {"`x` is created here": 3, "it fails here": 2},
    ),
}

TAKEN_APART = """\
def unpack(batch):
    x, y = batch
    return {}
def step(batch):
    x, y = unpack(batch)
    return x + y
for batch in [(torch.ones(3), torch.ones(3))]:
    step(batch)
"""

LEFT_BEHIND: dict[str, tuple[list[Any], dict[str, int]]] = {
    TAKEN_APART.format("x.cuda(), y"): (["DG205", 3], {"`y` is created here": 7, "it fails here": 6}),
    "def moved(batch):\n    return {k: v.cuda() if k == 'x' else v for k, v in batch.items()}\n"
    "def step(x, y):\n    batch = moved({'x': x, 'y': y})\n    return batch['x'] + batch['y']\n"
    "step(torch.ones(3), torch.ones(3))": (["DG205", 2], {"`y` is created here": 6, "it fails here": 5}),
    "class Fetch:\n    def __init__(self, batches):\n        self.batches = batches\n"
    "    def __iter__(self):\n        for x, y in self.batches:\n            yield x.cuda(), y\n"
    "def run(batches):\n    for x, y in Fetch(batches):\n        x + y\n"
    "run([(torch.ones(3), torch.ones(3))])": (["DG205", 6], {"`y` is created here": 10, "it fails here": 9}),
    "def features(batch):\n    return batch[0].cuda()\n"
    "def step(batch):\n    x = features(batch)\n    y = batch[1]\n    return x + y\n"
    "for batch in [(torch.ones(3), torch.ones(3))]:\n    step(batch)": (
        ["DG205", 6],
        {"`y` is created here": 7},
    ),
}

LOADED = """\
model = nn.Linear(3, 2)
optimizer = torch.optim.Adam(model.parameters(){foreach})
model(torch.ones(1, 3)).sum().backward()
optimizer.step()
def resume(state):
    optimizer.load_state_dict(state)
    model.cuda()
resume(optimizer.state_dict())
optimizer.zero_grad()
model(torch.ones(1, 3).cuda()).sum().backward()
optimizer.step()
"""
LEFT_BEHIND[LOADED.format(foreach="")] = (["DG211", 7], {"it fails here": 11})
LEFT_BEHIND[LOADED.format(foreach=", foreach=False")] = (["DG211", 7], {"it fails here": 11})

SMOOTH = "def smooth(scores, wanted):\n    return F.binary_cross_entropy_with_logits(scores, wanted * 0.9 + 0.05)\n"
LOADER = """\
from torch.utils.data import DataLoader as Loader
class Ragged:
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.ones(i + 1, 3), i
"""
SCALED = "def scaled(a, b):\n    return 0.5 * (a - b)\n"

HERE: dict[str, tuple[list[Any], dict[str, int]]] = {
    "fc = nn.Linear(5, 3)\nx = torch.ones(4, 6)\nfc(x)": (
        ["DG314", 3],
        {"`x` is created here": 2, "`fc` is created here": 1},
    ),
    "a = torch.ones(3)\nb = torch.ones(4)\na + b": (["DG314", 3], {"`a` is created here": 1}),
    "fc = nn.Linear(5, 3)\nx = torch.ones(4, 5, dtype=torch.float64)\nfc(x)": (
        ["DG317", 3],
        {"`x` is created here": 2, "`fc` is created here": 1},
    ),
    "class Data:\n    def __getitem__(self, i):\n        if i: raise IndexError\n"
    "        return torch.tensor([i]).float()\n"
    "def loss(scores, target):\n    return F.cross_entropy(scores, target)\n"
    "for y in Data():\n    loss(torch.ones(1, 3), y)": (["DG309", 4], {"it fails here": 6}),
    "def loss(scores, target):\n    return F.cross_entropy(scores, target)\n"
    "y = torch.ones(1)\nloss(torch.ones(1, 3), y)": (
        ["DG309", 4],
        {"`y` is created here": 3, "it fails here": 2},
    ),
    "class Net(nn.Module):\n    def __init__(self, rows, width=3):\n        super().__init__()\n"
    "        self.table = nn.Embedding(rows, width)\n    def forward(self, i):\n        return self.table(i)\n"
    "Net(5)(torch.tensor([0, 6]))": (["DG302", 7], {"the 5 rows come from here": 4, "it fails here": 6}),
    "table = nn.Embedding(5, 3)\ntable(torch.tensor([0, 900]))": (["DG302", 2], {"the 5 rows come from here": 1}),
    "head = nn.Linear(6, 1)\na = torch.ones(4, 3)\nboth = torch.cat([a, a])\nhead(both.relu())": (
        ["DG314", 3],
        {"`head` is created here": 1, "it fails here": 4},
    ),
    "head = nn.Linear(6, 1)\nx = torch.ones(4, 3, 2, 2)\nhead(F.dropout(x.flatten(1)))": (
        ["DG315", 1],
        {"it fails here": 3},
    ),
    LOADER + "def run():\n    loader = Loader(Ragged(), 2)\n    for x in loader:\n        pass\nrun()": (
        ["DG314", 8],
        {"it fails here": 9},
    ),
    LOADER + "for x in Loader(Ragged(), 2, collate_fn=lambda items: torch.stack([x for x, _ in items])):\n    pass": (
        ["DG314", 7],
        {"`items[1][0]` is created here": 6},
    ),
    SCALED + "x = torch.ones(3)\ny = torch.ones(4)\nscaled(x, y)": (
        ["DG314", 5],
        {"`x` is created here": 3, "it fails here": 2},
    ),
    SMOOTH + "x = torch.ones(3)\ny = torch.ones(3, 1)\nsmooth(x, y)": (["DG301", 2], {}),
    "table = torch.tensor([[0.5, 1.0]])\nF.cross_entropy(torch.ones(1, 3), torch.stack([table[0, 1]]))": (
        ["DG309", 2],
        {},
    ),
    "fc = nn.Linear(5, 3)\nx = torch.ones(4, 5).double()\nopt = torch.optim.LBFGS(fc.parameters())\n"
    "def closure():\n    return fc(x).sum()\nopt.step(closure)": (
        ["DG317", 2],
        {"`fc` is created here": 1, "it fails here": 5},
    ),
    "fc = nn.Linear(5, 3)\ny = torch.tensor([1, 3])\nF.cross_entropy(fc(torch.ones(2, 5)), y)": (
        ["DG302", 3],
        {"`y` is created here": 2, "the 3 classes come from here": 1},
    ),
    "e = nn.Embedding(5, 3)\ni = torch.tensor([1, 5])\ne(i)": (
        ["DG302", 1],
        {"`i` is created here": 2, "it fails here": 3},
    ),
    "p = torch.tensor([[0, 1]])\nF.cross_entropy(torch.ones(1, 2), p)": (["DG317", 1], {"it fails here": 2}),
}


@pytest.mark.parametrize("program", HERE)
def test_what_met_is_told_with_its_origin(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, program, *all_instruments().values())
    (spot, places) = HERE[program]
    assert [[fault.code, fault.at and fault.at.line - 3] for fault in run.faults] == [spot]
    assert related(run.faults[0]) == places
    assert run.notes == []


def test_operands_on_two_devices_are_told_where_they_were_made(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        input=json.dumps([*DEVICES, *FURTHER, *LEFT_BEHIND, "x = torch.ones(1 << 20)"]),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(SUPPORT)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *answers, on_host = map(json.loads, done.stdout.splitlines())
    for (program, (spot, places)), (spots, found, device, notes) in zip(
        {**DEVICES, **FURTHER, **LEFT_BEHIND}.items(), answers, strict=True
    ):
        assert (spots, found, device, notes) == ([spot], [places], "cuda", []), program
    assert on_host[2] == "cpu"
