"""Inputs without asking, in what applications are made of: batches of all forms, trainers, buffers, loaded files."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.findings import findings
from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.targets import target_named
from drygrad.settings import Settings

pytestmark = pytest.mark.slow

IMPORTS = (
    "from dataclasses import dataclass\nfrom typing import NamedTuple\n\nimport torch\nimport torch.nn as nn\n"
    "import torch.nn.functional as F\n\n\n"
)
PROGRAMS = {
    "a named tuple, whose fields are used in another method": (
        "Agent.update",
        """\
class Step(NamedTuple):
    seen: torch.Tensor
    done: torch.Tensor

class Agent:
    def __init__(self, size):
        self.net = nn.Linear(size, 1)
        self.opt = torch.optim.Adam(self.net.parameters())
    def loss(self, batch):
        return F.mse_loss(self.net(batch.seen).squeeze(-1), batch.done)
    def update(self, batch: Step):
        self.opt.zero_grad()
        self.loss(batch).backward()
        self.opt.step()
""",
    ),
    "a mapping that is unpacked into another function": (
        "step",
        """\
def loss_of(logits, tokens: torch.Tensor, mask: torch.Tensor, weight: float):
    return (F.cross_entropy(logits, tokens, reduction="none") * mask).sum() * weight
def step(policy, optimizer, inputs: torch.Tensor, batch: dict):
    loss = loss_of(policy(inputs), **batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "a tuple that is unpacked into another function": (
        "step",
        """\
class Net(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.table, self.out = nn.Embedding(kinds, 4), nn.Linear(7, 1)
    def forward(self, places, kind):
        return self.out(torch.cat([places, self.table(kind)], -1)).sum((1, 2))
def energy_loss(model, places, kind, energy):
    batch, atoms, three = places.shape
    return F.mse_loss(model(places, kind), energy)
def step(model: nn.Module, frame):
    energy_loss(model, *frame).backward()
""",
    ),
    "a trainer with its model, optimizer, scheduler, loader and configuration": (
        "Trainer.fit",
        """\
@dataclass
class Config:
    epochs: int
    clip: float = 1.0

class Trainer:
    def __init__(self, model, optimizer, scheduler, loader, cfg: Config, logger=None):
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.loader, self.cfg, self.logger = loader, cfg, logger
    def fit(self):
        self.model.train()
        for epoch in range(self.cfg.epochs):
            for images, labels in self.loader:
                loss = F.cross_entropy(self.model(images), labels)
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
                self.optimizer.step()
            self.scheduler.step()
        return self.scheduler.get_last_lr()
""",
    ),
    "an environment that nothing defines": (
        "rollout",
        """\
def rollout(env, policy: nn.Module, steps: int):
    seen, _ = env.reset()
    total = 0.0
    for _ in range(steps):
        action = policy(seen).argmax(-1)
        seen, reward, done, cut, _ = env.step(action)
        total = total + reward
        if done:
            break
    return total
""",
    ),
    "a buffer that must be filled": (
        "Buffer.sample",
        """\
class Buffer:
    def __init__(self):
        self.rows = []
    def push(self, seen, reward: float):
        self.rows.append((seen, reward))
    def sample(self, batch_size: int):
        seen, reward = zip(*self.rows[:batch_size])
        return torch.stack(seen), torch.tensor(reward)
""",
    ),
    "an estimator that must be fitted": (
        "Scaler.transform",
        """\
class Scaler:
    def fit(self, x):
        self.mean_, self.std_ = x.mean(0), x.std(0)
        return self
    def transform(self, x):
        return (x - self.mean_) / (self.std_ + 1e-6)
""",
    ),
    "a list of samples": (
        "collate",
        """\
def collate(samples):
    sizes = torch.tensor([len(s["tokens"]) for s in samples])
    tokens = nn.utils.rnn.pad_sequence([s["tokens"] for s in samples], batch_first=True)
    return {"tokens": tokens, "sizes": sizes, "label": torch.stack([s["label"] for s in samples])}
""",
    ),
    "a file that is not there": (
        "resume",
        """\
def resume(path, model: nn.Module):
    state = torch.load(path)
    for name, value in state["weights"].items():
        model.register_buffer(name, value)
    return state["epoch"] + 1
""",
    ),
    "an array": (
        "scaled",
        """\
def scaled(frame):
    return torch.from_numpy(frame.astype("float32")) / 255.0
""",
    ),
    "a shape that a docstring tells": (
        "boxes",
        """\
def boxes(points):
    '''points: (batch, corners, 2) pixels.'''
    x, y = points.unbind(-1)
    assert points.shape[-1] == 2
    return torch.stack([x.amin(1), y.amin(1), x.amax(1), y.amax(1)], -1)
""",
    ),
    "a model whose parts are read": (
        "features",
        """\
class Plain(nn.Module):
    def forward(self, x):
        return x
class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body, self.head = nn.Linear(9, 5), nn.Linear(5, classes)
    def forward(self, x):
        return self.head(self.body(x))
def features(model, loader):
    return torch.cat([model.body(x) for x, _ in loader])
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_to_its_end(worker: WorkerClient, tmp_path: Path, name: str) -> None:
    qualname, text = PROGRAMS[name]
    if name == "an array":
        pytest.importorskip("numpy")
    source = source_of(IMPORTS + text)
    target = target_named(source, qualname)
    assert target is not None
    options = RunOptions(root=tmp_path, device="cpu", timeout=120.0, search_seconds=60.0)
    plans = plan_runs(source, tmp_path / "program.py", target, options)
    assert not isinstance(plans, Missing), plans.message
    result = Result.read(worker.run(plans[0].as_json()))
    assert result.outcome == "passed", (result.data.get("search"), result.error)
    assert not result.faults


DEVICES = (
    IMPORTS
    + """\
class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)
        {attribute}
    def forward(self, x, lengths):
        steps = torch.arange(x.shape[1]{where})
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.linear(x) * steps[None, :, None], packed.data * self.scale
"""
)
SCALES = "self.register_buffer('scale', torch.ones(size))", "self.scale = torch.ones(size)"


@pytest.mark.parametrize(
    ("attribute", "where", "found"),
    [
        (SCALES[0], ", device=x.device", []),
        (SCALES[0], "", ["DG203"]),
        (SCALES[1], ", device=x.device", ["DG204"]),
    ],
)
def test_a_module_runs_on_the_gpu_where_its_own_tensors_must_be(
    worker: WorkerClient, tmp_path: Path, attribute: str, where: str, found: list[str]
) -> None:
    source = source_of(DEVICES.format(attribute=attribute, where=where))
    target = target_named(source, "Net.forward")
    assert target is not None
    options = RunOptions(root=tmp_path, device="sim", timeout=120.0, search_seconds=60.0)
    plans = plan_runs(source, tmp_path / "program.py", target, options)
    assert not isinstance(plans, Missing)
    result = Result.read(worker.run(plans[0].as_json()))
    values = {given.name: given.value for given in result.inputs}
    assert values["x"].endswith("cuda:0")
    told = findings(result, plans[0], source, Settings(), "run")
    assert [f.code for f in told] == found
    assert all("(if the module and its inputs are on the GPU)" in f.message for f in told)
    assert not {f.severity for f in told} & {"error"}


STAND_IN = """\
def step(policy, inputs: torch.Tensor, tokens: torch.Tensor):
    return F.cross_entropy(policy(inputs).transpose(1, 2)[:, :, :3], tokens)
"""


def test_what_a_model_that_stands_in_gives_is_no_fault(worker: WorkerClient, tmp_path: Path) -> None:
    source = source_of(IMPORTS + STAND_IN)
    target = target_named(source, "step")
    assert target is not None
    plans = plan_runs(source, tmp_path / "program.py", target, RunOptions(root=tmp_path, device="cpu"))
    assert not isinstance(plans, Missing)
    result = Result.read(worker.run(plans[0].as_json()))
    assert {f.code for f in findings(result, plans[0], source, Settings(), "run")} <= {"DG901"}


TOLD = """\
class Net(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.layer = nn.Linear(width, 4)
    def forward(self, x, lengths):
        steps = torch.arange(x.size(1){where})
        kept = (steps[None] < lengths[:, None]).unsqueeze(-1)
        return self.layer(x * kept).sum()

class Meter:
    def __init__(self{parameter}):
        self.sum = torch.zeros(1{place})

def step(model: Net, batch: dict, meter: Meter, device):
    batch = {{name: value.to(device) for name, value in batch.items()}}
    loss = model(batch["x"], batch["lengths"])
    meter.sum += loss.detach()
    return loss
"""


@pytest.mark.parametrize(
    ("where", "parameter", "place", "found"),
    [
        ("", "", ", device='cuda'", ["DG203"]),
        (", device=x.device", "", ", device='cuda'", []),
        # a program would tell the meter the same device as the rest
        (", device=x.device", ", device='cpu'", ", device=device", []),
    ],
)
def test_code_that_goes_to_the_gpu_by_itself_must_make_its_own_tensors_there(
    worker: WorkerClient, tmp_path: Path, where: str, parameter: str, place: str, found: list[str]
) -> None:
    source = source_of(IMPORTS + TOLD.format(where=where, parameter=parameter, place=place))
    target = target_named(source, "step")
    assert target is not None
    options = RunOptions(root=tmp_path, device="sim", timeout=120.0, search_seconds=60.0)
    plans = plan_runs(source, tmp_path / "program.py", target, options)
    assert not isinstance(plans, Missing)
    result = Result.read(worker.run(plans[0].as_json()))
    told = [f for f in findings(result, plans[0], source, Settings(), "run") if f.code.startswith("DG2")]
    assert [f.code for f in told] == found
    assert all(f.severity == "warning" and "(if the module and its inputs are on the GPU)" in f.message for f in told)
