"""Inputs without asking, in what research code is made of: models with several results, checkpoints, lists."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.findings import findings
from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.targets import target_named
from drygrad.settings import Settings
from drygrad.static.source import Source

pytestmark = pytest.mark.slow

IMPORTS = "import os\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
PROGRAMS = {
    "a model whose result has a loss": (
        "epoch",
        """\
def epoch(model, loader, optimizer, device):
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    "a policy that gives a distribution and a value": (
        "loss_of",
        """\
class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.net = nn.Linear(size, 3)
    def forward(self, x):
        return self.net(x)
def loss_of(policy, seen, actions, returns):
    dist, value = policy(seen)
    return -(dist.log_prob(actions).mean()) + F.mse_loss(value.mean(-1), returns) - dist.entropy().mean()
""",
    ),
    "a model of the file that gives a pair, beside one that is asked for a tensor": (
        "attack",
        """\
class Coder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.down, self.up = nn.Linear(28, size), nn.Linear(size, 28)
    def forward(self, x):
        z = self.down(x)
        return self.up(z), z
def attack(model, images, labels):
    images = images.clone().detach().requires_grad_(True)
    F.cross_entropy(model(images), labels).backward()
    return images.grad.sign()
""",
    ),
    "a checkpoint of what is given beside it": (
        "resume",
        """\
def resume(model, optimizer, path):
    found = torch.load(path)
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    return found["epoch"] + 1
""",
    ),
    "a checkpoint of the object's own parts": (
        "Trainer.load",
        """\
class Trainer:
    def __init__(self, model, cfg):
        self.model, self.cfg, self.epoch = model, cfg, 0
        self.optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr)
        self.loss = nn.CrossEntropyLoss(label_smoothing=cfg.label_smoothing)
    def save(self):
        torch.save({"model": self.model.state_dict()}, os.path.join(self.cfg.out_dir, "last.pt"))
    def load(self, path):
        found = torch.load(path)
        self.model.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])
        self.epoch = found["epoch"]
        self.save()
""",
    ),
    "the state of a recurrent layer": (
        "Net.forward",
        """\
class Net(nn.Module):
    def __init__(self, words, size, layers):
        super().__init__()
        self.table, self.rnn = nn.Embedding(words, size), nn.LSTM(size, 2 * size, layers)
    def forward(self, words, state):
        out, state = self.rnn(self.table(words), state)
        return out.mean(), state
""",
    ),
    "a list of sizes": (
        "Net.forward",
        """\
class Net(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:]))
    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x
""",
    ),
    "samples of plain numbers": (
        "collate",
        """\
def collate(batch):
    ids = [torch.tensor(sample["ids"], dtype=torch.long) for sample in batch]
    label = torch.tensor([sample["label"] for sample in batch])
    return nn.utils.rnn.pad_sequence(ids, batch_first=True), label
""",
    ),
    "a dataset whose samples a loader puts together": (
        "fit",
        """\
def fit(model, dataset, optimizer, batch_size=3):
    for step, (x, y) in enumerate(torch.utils.data.DataLoader(dataset, batch_size, shuffle=True)):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    "gradients that another function has computed": (
        "norms",
        """\
def norms(model):
    return {name: p.grad.norm().item() for name, p in model.named_parameters()}
""",
    ),
    "an optimizer of one's own": (
        "Lion.step",
        """\
class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, beta=0.9):
        super().__init__(params, dict(lr=lr, beta=beta))
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                mean = state.setdefault("mean", torch.zeros_like(p))
                p.add_(mean.mul_(group["beta"]).add_(p.grad).sign(), alpha=-group["lr"])
""",
    ),
    "a class that the code asks for": (
        "read",
        """\
class Reader:
    def __init__(self, size):
        self.size = size
def read(reader, x):
    if not isinstance(reader, Reader):
        raise TypeError("a Reader is needed")
    return x.sum() * reader.size
""",
    ),
    "complex numbers in square matrices": (
        "spectrum",
        """\
def spectrum(x):
    return torch.linalg.eigvals(x.imag @ x.real)
""",
    ),
    "a word that another function has by default": (
        "shrink",
        """\
def grow(x, how: str = "nearest"):
    return F.interpolate(x, scale_factor=2, mode=how)
def shrink(x, how: str):
    return F.interpolate(x, scale_factor=0.5, mode=how)
""",
    ),
    "an abstract property that a class sets": (
        "Line.length",
        """\
from abc import ABCMeta, abstractmethod
class Shape(metaclass=ABCMeta):
    @property
    @abstractmethod
    def ends(self):
        ...
    @abstractmethod
    def length(self, x):
        ...
class Line(Shape):
    ends = 2
    def length(self, x):
        return x.norm() * self.ends
""",
    ),
    "sizes that an error tells without order": (
        "pairs",
        """\
def pairs(a, b):
    if a.shape[1] != b.T.shape[1]:
        raise ValueError(f"A1 and B must have the same number of columns. A1: {a.shape[1]} B: {b.T.shape[1]}")
    return a @ b
""",
    ),
    "samples that are turned into columns": (
        "collate",
        """\
def collate(items):
    steps, labels = zip(*items)
    return nn.utils.rnn.pad_sequence(steps, batch_first=True), torch.tensor(labels)
""",
    ),
    "a checkpoint of what is given after its path": (
        "restore",
        """\
def restore(model, path, optimizer):
    found = torch.load(path)
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
""",
    ),
    "a class that is called like one of Python's": (
        "sampled",
        """\
class Generator(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.net = nn.Linear(size, 3)
    def forward(self, z):
        return self.net(z)
def sampled(generator: Generator, z):
    return generator(z), [*generator.parameters()]
""",
    ),
    "boxes of which two corners are taken": (
        "overlaps",
        """\
def overlaps(a, b):
    low = torch.max(a[:, None, :2], b[None, :, :2])
    high = torch.min(a[:, None, 2:], b[None, :, 2:])
    return (high - low).clamp(min=0).prod(-1)
""",
    ),
    "an environment whose observations are vectors": (
        "episode",
        """\
class Agent:
    def __init__(self, size, kinds):
        self.net = nn.Linear(size, kinds)
    def act(self, state):
        return self.net(state.unsqueeze(0)).argmax(1).item()
def episode(env, agent: Agent):
    seen, _ = env.reset()
    for _ in range(3):
        seen, reward, done, cut, _ = env.step(agent.act(torch.as_tensor(seen)))
        if done or cut:
            break
    return float(reward)
""",
    ),
    "a helper that is used as a context": (
        "step",
        """\
def step(model, x, optimizer, accelerator):
    with accelerator.accumulate(model):
        accelerator.backward(model(x).sum())
        optimizer.step()
""",
    ),
}


def ran(
    worker: WorkerClient, folder: Path, source: Source, qualname: str, seconds: float = 20.0
) -> tuple[Result, list[str]]:
    """Run a target of a text; return the result and the codes of what is claimed."""
    target = target_named(source, qualname)
    assert target is not None
    options = RunOptions(root=folder, device="cpu", timeout=40.0, search_seconds=seconds)
    plans = plan_runs(source, folder / "program.py", target, options)
    assert not isinstance(plans, Missing), plans.message
    result = Result.read(worker.run(plans[0].as_json()))
    told = findings(result, plans[0], source, Settings(), "run")
    return result, [f.code for f in told if f.severity != "hint" and f.code != "DG901"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_to_its_end(worker: WorkerClient, tmp_path: Path, name: str) -> None:
    qualname, text = PROGRAMS[name]
    result, told = ran(worker, tmp_path, source_of(IMPORTS + text), qualname)
    assert result.outcome == "passed", (result.data.get("search"), result.error)
    assert not told


FILLED = """\
class Buffer:
    def __init__(self, size):
        self.rows = collections.deque(maxlen=size)
    def push(self, seen, action, reward):
        self.rows.append((seen, action, reward))
    def sample(self, n):
        seen, action, reward = zip(*random.sample(self.rows, n))
        return torch.stack(seen), torch.tensor(action), torch.tensor(reward)
    def __len__(self):
        return len(self.rows)
class Agent:
    def __init__(self, size, kinds):
        self.net, self.buffer = nn.Linear(size, kinds), Buffer(100)
    def update(self, batch=8):
        if len(self.buffer) < batch:
            return None
        seen, action, reward = self.buffer.sample(batch)
        return F.mse_loss(self.net(seen).gather(1, action[:, None]).squeeze(1), reward)
class Ring:
    def __init__(self, size, width):
        self.rows, self.count = torch.zeros(size, width), 0
    def add(self, row):
        self.rows[self.count] = row
        self.count += 1
    def sample(self, n: int):
        return self.rows[torch.randint(self.count, (n,))]
"""


@pytest.mark.parametrize(("qualname", "line"), [("Agent.update", 25), ("Ring.sample", 34)])
def test_what_an_object_holds_is_filled_before_it_is_read(
    worker: WorkerClient, tmp_path: Path, qualname: str, line: int
) -> None:
    text = "import collections\nimport random\n" + IMPORTS + FILLED
    result, told = ran(worker, tmp_path, source_of(text), qualname)
    assert result.outcome == "passed", (result.data.get("search"), result.error)
    assert not told
    assert line in {shape.line for shape in result.shapes}


LAYERS = """\
class Net(nn.Module):
    def __init__(self, words, size, layers):
        super().__init__()
        self.table, self.rnn = nn.Embedding(words, size), nn.GRU(size, size, layers, batch_first=True)
    def forward(self, words):
        return self.rnn(self.table(words), torch.zeros({state}, self.rnn.hidden_size))[0]
"""


def test_a_batch_has_a_size_of_its_own(worker: WorkerClient, tmp_path: Path) -> None:
    text = LAYERS.format(state="self.rnn.num_layers, words.shape[0]")
    result, _ = ran(worker, tmp_path, source_of(IMPORTS + text), "Net.forward")
    assert result.outcome == "passed"
    sizes = {given.name: given.value for given in result.inputs}
    assert sizes["words"].startswith("int64 [6, ")


def test_integers_stay_in_range_whatever_is_drawn(worker: WorkerClient, tmp_path: Path) -> None:
    text = "def lost(x, labels):\n    return F.cross_entropy(F.linear(x, torch.ones(7, x.shape[1])), labels)\n"
    target = target_named(source_of(IMPORTS + text), "lost")
    assert target is not None
    options = RunOptions(root=tmp_path, device="cpu", search_seconds=20.0)
    plans = plan_runs(source_of(IMPORTS + text), tmp_path / "program.py", target, options)
    assert not isinstance(plans, Missing)
    result = Result.read(worker.run(plans[0].as_json()))
    [written] = [entry["text"] for entry in result.data["search"]["inputs"] if entry["name"] == "labels"]
    high = int(written.partition(", ")[2].partition(",")[0])
    assert 2 <= high <= 7


def test_a_batch_has_the_size_that_the_code_asks_for(worker: WorkerClient, tmp_path: Path) -> None:
    text = LAYERS.format(state="2, 2")
    result, _ = ran(worker, tmp_path, source_of(IMPORTS + text), "Net.forward")
    assert result.outcome == "passed"
    sizes = {given.name: given.value for given in result.inputs}
    assert sizes["words"].startswith("int64 [2, ")


UNFITTING = """\
import decimal
def join(a, b, store):
    low = torch.max(a[:, None, :2], b[None, :, :2])
    return low - torch.min(a[:, None, 2:], b[None, :, 2:]) + decimal.Context.sqrt(store, 2)
"""


def test_sizes_that_must_change_together_are_no_fault(worker: WorkerClient, tmp_path: Path) -> None:
    result, told = ran(worker, tmp_path, source_of(IMPORTS + UNFITTING), "join", seconds=1.0)
    assert result.outcome == "no-inputs"
    assert not told


EMPTY = """\
class Buffer:
    def __init__(self, size):
        self.rows, self.count = torch.zeros(size, 3), 0
    def take(self, number: int):
        return self.rows[torch.randint(self.count, (number,))]
"""


def test_what_a_program_would_fill_is_no_error(worker: WorkerClient, tmp_path: Path) -> None:
    _, told = ran(worker, tmp_path, source_of(IMPORTS + EMPTY), "Buffer.take")
    assert not told


SCRIPT = """\
import argparse
def build(args):
    data = torch.load(args.data)
    return torch.utils.data.TensorDataset(data["x"], data["y"])
def weigh(data, scale):
    return data.sum() * scale
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch-size", type=int, default=4)
    build(parser.parse_args())
    weigh(torch.load("weights.pt"), 2.0)
"""


FIRST_ANOTHER = """\
class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(2, 2)
    def forward(self, y):
        return self.net(y)
def step(f, y):
    return y + f(y)
if __name__ == "__main__":
    step(lambda y: -y, torch.randn(4, 2))
    step(Dynamics(), torch.randn(4, 2))
"""


@pytest.mark.parametrize(
    ("program", "qualname"), [(SCRIPT, "build"), (SCRIPT, "weigh"), (FIRST_ANOTHER, "Dynamics.forward")]
)
async def test_a_call_that_cannot_be_made_here_gives_way_to_a_search(
    tmp_path: Path, program: str, qualname: str
) -> None:
    source = source_of(IMPORTS + program)
    target = target_named(source, qualname)
    assert target is not None
    runs = DryRuns()
    try:
        home = Home(Path(sys.executable), tmp_path)
        options = RunOptions(device="cpu", search_seconds=20.0)
        records = await runs.dry_run(source, tmp_path / "program.py", target, home, options, Settings())
    finally:
        await runs.close()
    assert isinstance(records, list)
    assert records[0].result.outcome == "passed", records[0].result.error
    assert records[0].plan.proposal is not None
    assert "its call in this file could not be built" in records[0].result.notes
