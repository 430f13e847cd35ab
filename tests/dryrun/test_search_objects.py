"""Inputs without asking, of objects that a program fills, of modules told apart by their methods, and of values."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.targets import target_named

pytestmark = pytest.mark.slow

IMPORTS = (
    "import random\nfrom collections import deque, namedtuple\n\nimport numpy as np\nimport torch\n"
    "import torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
)
LEARNING = """\
class Learner:
    def __init__(self, width, kinds):
        self.net = nn.Linear(width, kinds)
    def learn(self, memory: Memory, count=32):
        seen, action, reward = {batch}
        chosen = self.net(seen).gather(1, action[:, None]).squeeze(1)
        return F.mse_loss(chosen, reward)
"""
PROGRAMS = {
    "a memory that is an argument, filled by a method that takes any number": (
        "Learner.learn",
        """\
Step = namedtuple("Step", "seen action reward")

class Memory:
    def __init__(self, capacity=100):
        self.steps = deque(maxlen=capacity)
    def push(self, *step):
        self.steps.append(Step(*step))
    def sample(self, count):
        steps = Step(*zip(*random.sample(self.steps, count)))
        return torch.stack(steps.seen), torch.tensor(steps.action), torch.tensor(steps.reward)
"""
        + LEARNING.format(batch="memory.sample(count)"),
    ),
    "a memory of arrays": (
        "Learner.learn",
        """\
class Memory:
    def __init__(self, capacity, width):
        self.seen = np.zeros((capacity, width), dtype=np.float32)
        self.action, self.reward = np.zeros(capacity, dtype=np.int64), np.zeros(capacity, dtype=np.float32)
        self.count = 0
    def add(self, seen: np.ndarray, action, reward):
        at = self.count % len(self.action)
        self.seen[at], self.action[at], self.reward[at] = seen, action, reward
        self.count += 1
    def sample(self, count):
        at = np.random.choice(min(self.count, len(self.action)), count)
        return [torch.from_numpy(each[at]) for each in (self.seen, self.action.clip(0, 1), self.reward)]
"""
        + LEARNING.format(batch="memory.sample(count)"),
    ),
    "a module that is known by its methods": (
        "fit",
        """\
class Forecaster(nn.Module):
    def __init__(self, n_features):
        super().__init__()
        self.rnn, self.static = nn.GRU(n_features, 16, batch_first=True), nn.Linear(3, 16)
        self.head = nn.Linear(16, 4)
    def forward(self, x, static):
        return self.head(self.rnn(x, self.static(static)[None])[0][:, -1])
    def training_step(self, batch):
        x, static, y = batch
        return F.mse_loss(self(x, static), y)
    def optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def fit(module, loader):
    optimizer = module.optimizers()
    for batch in loader:
        loss = module.training_step(tuple(t.to("cpu") for t in batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    "a name that must be one of several": (
        "Probe.run",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 2)
    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))

class Probe:
    def __init__(self, net: Net, layer: str):
        layers = dict(net.named_children())
        if layer not in layers:
            raise KeyError(f"no layer {layer!r}; choose from {sorted(layers, reverse=True)}")
        self.layer = layers[layer]
    def run(self, x):
        return self.layer(x).mean((2, 3))
""",
    ),
    "a method of a class that others complete": (
        "Mix.forward",
        """\
class Mix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
    def scale(self):
        raise NotImplementedError()
    def forward(self, x):
        return x * self.scale()

class Fixed(Mix):
    def __init__(self, width, by=2.0):
        super().__init__(width)
        self.by = nn.Parameter(torch.full((width,), by))
    def scale(self):
        return self.by
""",
    ),
    "actions that a distribution must have": (
        "loss",
        """\
def loss(logits: torch.Tensor, actions: torch.Tensor, gains: torch.Tensor):
    chosen = torch.distributions.Categorical(logits=logits).log_prob(actions)
    return -(chosen * gains).mean()
""",
    ),
    "a covariance": (
        "score",
        """\
def score(mean: torch.Tensor, covariance: torch.Tensor, x: torch.Tensor):
    root = torch.linalg.cholesky(covariance)
    made = torch.distributions.MultivariateNormal(mean, covariance_matrix=covariance)
    return made.log_prob(x) + root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
""",
    ),
    "an encoder that takes images": (
        "Twins.forward",
        """\
class Twins(nn.Module):
    def __init__(self, encoder: nn.Module, width: int):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(width, 16)
    def forward(self, views):
        b, n, c, h, w = views.shape
        return self.head(self.encoder(views.flatten(0, 1))).view(b, n, -1)
""",
    ),
    "an object of a class that a check asks for, made otherwise than the one that is annotated": (
        "Explained.forward",
        """\
class Method:
    def __init__(self, function):
        self.function = function

class Ablation(Method):
    def __init__(self, baseline):
        super().__init__(abs)
        self.baseline = baseline

class Explained(nn.Module):
    KNOWN = (Ablation,)
    def __init__(self, method: Method):
        super().__init__()
        assert isinstance(method, self.KNOWN), "no such method"
        self.method = method
    def forward(self, x):
        return x.sum(-1)
""",
    ),
    "a setting that is None by default, and has to be there": (
        "Trainer.step",
        """\
class Settings:
    def __init__(self, seed: int = 3, rate: float = 0.1):
        self.seed, self.rate = seed, rate

class Trainer:
    def __init__(self, settings: Settings = None):
        torch.manual_seed(settings.seed)
        assert isinstance(settings, Settings)
        self.settings = settings
    def step(self, x):
        return x * self.settings.rate
""",
    ),
    "an object whose program sets more of it before the call": (
        "Plugin.before",
        """\
class Strategy:
    def __init__(self, model: nn.Module):
        self.model = model
        self.experience = None
        self.memory = None

class Plugin:
    def __init__(self):
        self.seen = 0
    def before(self, strategy: Strategy, x: torch.Tensor):
        task = strategy.experience.task_label
        old = strategy.memory[0]
        return strategy.model(x) + old.sum(), task
""",
    ),
    "an object whose attributes the program assigns": (
        "after",
        """\
class Strategy:
    def __init__(self):
        self.seen = 0

def after(strategy: Strategy, x: torch.Tensor):
    return strategy.batch_x + x, len(strategy.history.losses)
""",
    ),
    "a table of columns with methods": (
        "table",
        """\
def table(frame):
    return frame["weight"].sum() + frame.describe_it().sum()
""",
    ),
    "something with a length and attributes": (
        "Decoder.forward",
        """\
class Decoder(nn.Module):
    def __init__(self, alphabet):
        super().__init__()
        self.emb = nn.Embedding(len(alphabet), 6, padding_idx=alphabet.padding_idx)
        self.tokenize = alphabet.get_batch_converter()
    def forward(self, tokens):
        return self.emb(tokens).sum()
""",
    ),
    "an array beside those that the code makes": (
        "field",
        """\
def field(data, order, coefficients):
    shape = np.array(data.shape[1:])
    total = np.zeros(shape)
    for i in range(order):
        total += np.transpose(coefficients[i] * np.ones(shape), (0, 1))
    return torch.from_numpy(np.exp(total)) + data.float()
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_to_its_end(worker: WorkerClient, tmp_path: Path, name: str) -> None:
    qualname, text = PROGRAMS[name]
    source = source_of(IMPORTS + text)
    target = target_named(source, qualname)
    assert target is not None
    options = RunOptions(root=tmp_path, device="cpu", timeout=120.0, search_seconds=60.0)
    plans = plan_runs(source, tmp_path / "program.py", target, options)
    assert not isinstance(plans, Missing)
    result = Result.read(worker.run(plans[0].as_json()))
    assert result.outcome == "passed", (result.data.get("search"), result.error)
