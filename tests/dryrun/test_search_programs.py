"""Inputs without asking: programs with neither comment nor call run to their end, and what such runs may claim."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.findings import findings
from drygrad.dryrun.plan import Missing, Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.refuting import refutes
from drygrad.dryrun.result import Fault, Place, Result
from drygrad.dryrun.targets import target_named
from drygrad.dryrun.written_inputs import comment_text
from drygrad.model import Finding
from drygrad.settings import Settings

pytestmark = pytest.mark.slow

IMPORTS = "import math\n\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"


def planned(folder: Path, text: str, qualname: str, **options: object) -> Plan:
    source = source_of(text)
    target = target_named(source, qualname)
    assert target is not None
    # A machine that is busy with other things does less in two seconds; how long a search takes is told elsewhere.
    given = {"device": "cpu", "timeout": 120.0, "search_seconds": 60.0, **options}
    conditions = RunOptions(root=folder, **given)  # type: ignore[arg-type]
    plans = plan_runs(source, folder / "program.py", target, conditions)
    assert not isinstance(plans, Missing), plans.message
    return plans[0]


def ran(worker: WorkerClient, plan: Plan) -> tuple[Result, list[Finding]]:
    result = Result.read(worker.run(plan.as_json()))
    assert result.outcome != "error", result.notes
    return result, findings(result, plan, plan.source, Settings(), "run")


SMALL_CNN = """\
class SmallCNN(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 7 * 7, 128)
        self.fc2 = nn.Linear(128, num_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return self.fc2(F.relu(self.fc1(x)))
"""

PROGRAMS = {
    "small CNN": (
        "SmallCNN.forward",
        SMALL_CNN,
    ),
    "transformer block with a mask": (
        "Block.forward",
        """\
class Block(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.n_heads, d // self.n_heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.n_heads)
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e9)
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))
""",
    ),
    "LSTM tagger": (
        "Tagger.forward",
        """\
class Tagger(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, tagset_size):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, batch_first=True, bidirectional=True)
        self.tag = nn.Linear(2 * hidden_dim, tagset_size)

    def forward(self, sentence, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embed(sentence), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        out, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return F.log_softmax(self.tag(out), dim=-1)
""",
    ),
    "U-Net": (
        "UNet.forward",
        """\
class UNet(nn.Module):
    def __init__(self, in_channels, out_channels, base=8):
        super().__init__()
        self.down1 = self.double(in_channels, base)
        self.down2 = self.double(base, base * 2)
        self.bottom = self.double(base * 2, base * 4)
        self.up2 = nn.ConvTranspose2d(base * 4, base * 2, 2, stride=2)
        self.dec2 = self.double(base * 4, base * 2)
        self.up1 = nn.ConvTranspose2d(base * 2, base, 2, stride=2)
        self.dec1 = self.double(base * 2, base)
        self.head = nn.Conv2d(base, out_channels, 1)

    @staticmethod
    def double(a, b):
        first, second = nn.Conv2d(a, b, 3, padding=1), nn.Conv2d(b, b, 3, padding=1)
        return nn.Sequential(first, nn.BatchNorm2d(b), nn.ReLU(), second, nn.ReLU())

    def forward(self, x):
        d1 = self.down1(x)
        d2 = self.down2(F.max_pool2d(d1, 2))
        m = self.bottom(F.max_pool2d(d2, 2))
        u2 = self.dec2(torch.cat([self.up2(m), d2], dim=1))
        return self.head(self.dec1(torch.cat([self.up1(u2), d1], dim=1)))
""",
    ),
    "VAE": (
        "VAE.forward",
        """\
class VAE(nn.Module):
    def __init__(self, latent_dim):
        super().__init__()
        self.enc = nn.Linear(784, 400)
        self.mu, self.logvar = nn.Linear(400, latent_dim), nn.Linear(400, latent_dim)
        self.dec = nn.Sequential(nn.Linear(latent_dim, 400), nn.ReLU(), nn.Linear(400, 784), nn.Sigmoid())

    def forward(self, x):
        h = F.relu(self.enc(x.view(-1, 784)))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return self.dec(z), mu, logvar
""",
    ),
    "VAE loss": (
        "vae_loss",
        """\
def vae_loss(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x.view(-1, 784), reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
""",
    ),
    "GAN step": (
        "gan_step",
        """\
class Generator(nn.Module):
    def __init__(self, z_dim, img_dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(z_dim, 128), nn.LeakyReLU(0.1), nn.Linear(128, img_dim), nn.Tanh())

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, img_dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(img_dim, 128), nn.LeakyReLU(0.1), nn.Linear(128, 1))

    def forward(self, x):
        return self.net(x)


def gan_step(generator, discriminator, opt_g, opt_d, real, z_dim, device):
    real = real.to(device)
    z = torch.randn(real.size(0), z_dim, device=device)
    fake = generator(z)
    loss_d = F.softplus(discriminator(fake.detach())).mean() + F.softplus(-discriminator(real)).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    loss_g = F.softplus(-discriminator(fake)).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    return loss_d.item(), loss_g.item()
""",
    ),
    "training function": (
        "train",
        """\
def train(model, loader, optimizer, criterion, device):
    model.train()
    model.to(device)
    total = 0.0
    for batch_idx, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)
""",
    ),
    "training function with its model": (
        "train",
        SMALL_CNN
        + """


def train(model, loader, optimizer, criterion, device):
    model.train()
    model.to(device)
    total = 0.0
    for batch_idx, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)
""",
    ),
}


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize(("qualname", "text"), PROGRAMS.values(), ids=PROGRAMS.keys())
def test_it_runs_to_its_end(qualname: str, text: str, device: str, worker: WorkerClient, tmp_path: Path) -> None:
    plan = planned(tmp_path, IMPORTS + text, qualname, device=device)
    result, found = ran(worker, plan)
    assert (result.outcome, result.error) == ("passed", None)
    assert result.backward != "none" or "class" not in text
    assert result.data["search"]["found"]
    assert [f for f in found if f.severity in ("error", "warning")] == []


def test_what_was_found_stands_in_a_comment_and_runs_from_it(worker: WorkerClient, tmp_path: Path) -> None:
    qualname, text = PROGRAMS["small CNN"]
    plan = planned(tmp_path, IMPORTS + text, qualname)
    result, _ = ran(worker, plan)
    assert [(i.name, i.value, i.source) for i in result.inputs] == [
        ("self", "SmallCNN with 206,922 parameters", "constructor"),
        ("x", "float32 [2, 1, 28, 28] on cpu", "search: Linear expects 1568 features"),
    ]
    comment = comment_text(plan, result)
    assert comment == "# dry-run: self=SmallCNN(), x=torch.randn(2, 1, 28, 28)"
    given = planned(tmp_path, (IMPORTS + text).replace("    def forward", f"    {comment}\n    def forward"), qualname)
    assert given.proposal is None
    assert ran(worker, given)[0].outcome == "passed"
    assert comment_text(given, Result("passed")) == comment


UNFIT = (
    IMPORTS
    + """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(20, 30), nn.Linear({}, 5)

    def forward(self, x):
        return self.two(self.one(x))
"""
)


def test_layers_that_never_fit_each_other_are_a_fault(worker: WorkerClient, tmp_path: Path) -> None:
    result, found = ran(worker, planned(tmp_path, UNFIT.format(40), "Net.forward"))
    assert result.outcome == "failed"
    assert [(f.code, f.severity, f.span.start.line) for f in found] == [("DG314", "error", 14)]
    assert ran(worker, planned(tmp_path, UNFIT.format(30), "Net.forward"))[1] == []


def test_a_number_that_does_not_matter_keeps_no_fault_from_being_told(worker: WorkerClient, tmp_path: Path) -> None:
    text = UNFIT.format(40).replace("__init__(self)", "__init__(self, classes)").replace(", 5)", ", classes)")
    _, found = ran(worker, planned(tmp_path, text, "Net.forward"))
    assert [(f.code, f.severity, f.span.start.line) for f in found] == [("DG314", "error", 14)]


COUPLING = (
    IMPORTS
    + """\
class Net(nn.Module):
    def __init__(self, channels, kernels):
        super().__init__()
        pairs = zip(channels[:-1], channels[1:], kernels)
        self.layers = nn.Sequential(*[nn.Conv2d(a, b, k, padding=k // 2) for a, b, k in pairs])

    def forward(self, x):
        return self.layers(x)

class Coupling(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.net = Net([channels // 2, hidden, hidden, channels], [3, 1, 3])

    def forward(self, z):
        a, b = z.chunk(2, dim=1)
        return torch.cat([a, b + self.net(a)[:, : b.shape[1]]], 1)
"""
)


def test_sizes_that_hang_on_an_invented_number_are_no_fault(worker: WorkerClient, tmp_path: Path) -> None:
    _, found = ran(worker, planned(tmp_path, COUPLING, "Coupling.forward", search_seconds=4.0))
    assert [f.code for f in found if f.severity in ("error", "warning")] == []


JACOBIAN = "def jacobian(y, x):\n    return torch.autograd.grad(y.sum(), x)[0]\n"
CUT = """\
def step(model: nn.Module, x, y):
    loss = F.mse_loss(model(x), y).detach()
    loss.backward()
"""


def test_that_invented_tensors_have_no_graph_is_no_fault(worker: WorkerClient, tmp_path: Path) -> None:
    _, found = ran(worker, planned(tmp_path, IMPORTS + JACOBIAN, "jacobian", search_seconds=4.0))
    assert [f.code for f in found if f.severity in ("error", "warning")] == []
    _, found = ran(worker, planned(tmp_path, IMPORTS + CUT, "step"))
    assert [f.code for f in found if f.severity in ("error", "warning")] == ["DG106"]


NOT_FOUND = "import decimal\ndef score(x, store):\n    x = x.sum()\n    return x * decimal.Context.sqrt(store, 2)\n"


def test_an_argument_that_cannot_be_built_is_no_fault_of_the_code(worker: WorkerClient, tmp_path: Path) -> None:
    for seconds in (0.5, 5.0, 50.0):  # on a busy machine half a second may not lead to line 4
        result, found = ran(worker, planned(tmp_path, NOT_FOUND, "score", search_seconds=seconds, timeout=120.0))
        if "on line 4" in found[0].message:
            break
    assert result.outcome == "no-inputs"
    assert [f.code for f in found] == ["DG901"]
    assert "on line 4" in found[0].message
    assert found[0].fixes[0].edits[0].new_text.startswith("# dry-run: x=torch.randn(2, 64), store=")


REFUSING = """\
class Store:
    def __init__(self, path):
        raise KeyError(f"nothing at {path}")

def fetch(x, store: Store):
    return x.sum() + store.size
"""


def test_an_input_that_cannot_even_be_made_is_named(worker: WorkerClient, tmp_path: Path) -> None:
    _, found = ran(worker, planned(tmp_path, REFUSING, "fetch", search_seconds=0.5))
    assert [f.code for f in found] == ["DG901"]
    assert "`store` cannot be created: KeyError" in found[0].message


ENERGY = """\
import torch

def energy(x):
    scale = torch.ones(1, requires_grad=True)
    loss = torch.log(x * scale).sum()
    loss.backward()
    return loss
"""


def test_a_fault_of_values_is_a_hint_that_names_the_invention(worker: WorkerClient, tmp_path: Path) -> None:
    plan = planned(tmp_path, ENERGY, "energy")
    result, found = ran(worker, plan)
    assert result.outcome == "passed"
    born = next(f for f in found if f.code == "DG410")
    assert born.severity == "hint"
    assert "(with invented inputs: x=torch.randn(2, 64))" in born.message


def test_a_fault_of_structure_stays(worker: WorkerClient, tmp_path: Path) -> None:
    text = IMPORTS + "def step(layer: nn.Module, x):\n    y = torch.exp(layer(x))\n    y += 1\n    return y.sum()\n"
    text = text.replace("layer: nn.Module, x", "x").replace("layer(x)", "x * torch.ones(1, requires_grad=True)")
    _, found = ran(worker, planned(tmp_path, text, "step"))
    assert [(f.code, f.severity) for f in found] == [("DG101", "error")]


def test_a_searched_run_refutes_nothing(worker: WorkerClient, tmp_path: Path) -> None:
    plan = planned(tmp_path, "def f(x):\n    y = x.exp()\n    y += 1\n    return y\n", "f")
    result, _ = ran(worker, plan)
    assert result.outcome == "passed"
    finding = Finding("DG314", "shape-mismatch", "", "error", plan.target.name_span)
    assert "search" in plan.input_sources
    assert not refutes(plan, result, finding, plan.source)


def test_attempts_leave_no_trace_in_the_run(worker: WorkerClient, tmp_path: Path) -> None:
    text = (
        IMPORTS
        + """\
SEEN = []

def shout(x):
    print("called")
    SEEN.append(1)
    if len(SEEN) > 1:
        print("called before")
    return nn.Linear(30, 5)(x)
"""
    )
    result, _ = ran(worker, planned(tmp_path, text, "shout"))
    assert result.outcome == "passed"
    assert result.output == "called\n"


def test_the_search_ends_where_the_code_does_not(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import time\n\ndef wait(x, **more):\n    x.sum()\n    time.sleep(3600)\n"
    result, _ = ran(worker, planned(tmp_path, text, "wait", search_seconds=0.3, timeout=2.0))
    assert result.outcome == "deadline"
    assert not result.data.get("search", {}).get("found")


def test_a_cancel_in_the_middle_of_a_search_is_answered(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import time\n\ndef wait(x):\n    x.sum()\n    time.sleep(3600)\n"
    plan = planned(tmp_path, text, "wait", search_seconds=300.0, timeout=300.0)
    run = worker.start(plan.as_json())
    worker.send({"type": "cancel", "run": run})
    assert worker.receive("result", run)["result"]["outcome"] == "cancelled"


EVALUATE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 4)

    def forward(self, x):
        return self.fc(x)


def evaluate(model, loader, device):
    hits = 0
    for x, y in loader:
        hits += (model(x.to(device)).argmax(1) == {}).sum()
    return hits
"""


SAMPLER = """\
def generator_of(seed: int, device: torch.device) -> torch.Generator:
    return torch.Generator({}).manual_seed(seed)


class Sampler:
    def __init__(self, model: nn.Module, device: torch.device):
        self.model, self.device = model, device

    def noise(self, n: int, generator: torch.Generator):
        return torch.randn((n, 3), device=self.device, generator=generator)

    def sample(self, n: int):
        return self.model(self.noise(n, generator_of(0, self.device)))
"""


def test_a_generator_of_the_cpu_is_no_matter_of_the_inputs(worker: WorkerClient, tmp_path: Path) -> None:
    _, found = ran(worker, planned(tmp_path, IMPORTS + SAMPLER.format(""), "Sampler.sample", device="sim"))
    assert [f.code for f in found] == ["DG205"]
    assert "is a generator on the CPU" in found[0].message
    result, found = ran(worker, planned(tmp_path, IMPORTS + SAMPLER.format("device"), "Sampler.sample", device="sim"))
    assert (result.outcome, found) == ("passed", [])


def test_what_a_loader_yields_is_on_the_cpu(worker: WorkerClient, tmp_path: Path) -> None:
    result, found = ran(worker, planned(tmp_path, IMPORTS + EVALUATE.format("y"), "evaluate", device="sim"))
    assert result.data["search"]["assumes"] == "what `loader` yields is on the CPU"
    assert [(f.code, f.severity) for f in found] == [("DG205", "warning")]
    assert found[0].message.startswith("`y` is on the CPU")
    assert found[0].message.endswith("(if what `loader` yields is on the CPU)")


@pytest.mark.parametrize("read", ["y.to(device)", "y.cuda()"])
def test_a_batch_that_the_code_moves_is_no_fault(read: str, worker: WorkerClient, tmp_path: Path) -> None:
    result, found = ran(worker, planned(tmp_path, IMPORTS + EVALUATE.format(read), "evaluate", device="sim"))
    assert (result.outcome, found) == ("passed", [])


def test_a_loader_needs_no_move_where_nothing_is_on_the_gpu(worker: WorkerClient, tmp_path: Path) -> None:
    text = (IMPORTS + EVALUATE.format("y")).replace(".to(device)", "")
    result, found = ran(worker, planned(tmp_path, text, "evaluate", device="sim"))
    assert (result.outcome, found) == ("passed", [])


WAITING = """\
import queue


class Feed:
    def __init__(self):
        self.ready = queue.Queue(maxsize=1)

    def fill(self, x):
        for row in (x, x):
            self.ready.put(row)
"""


def test_a_wait_that_another_thread_ends_in_the_program_is_no_endless_one(tmp_path: Path) -> None:
    invented = planned(tmp_path, WAITING, "Feed.fill")
    given = planned(
        tmp_path, WAITING.replace("    def fill", "    # dry-run: self=Feed(), x=1\n    def fill"), "Feed.fill"
    )
    for plan, codes in ((invented, []), (given, ["DG604"])):
        place = Place(str(plan.path), 10)
        result = Result("deadline", faults=(Fault("DG604", "waits for ever", place),))
        assert [f.code for f in findings(result, plan, plan.source, Settings(), "run")] == codes


WALK = """\
class Walk:
    def __init__(self, n=4):
        self.state = torch.randn(n, 4)

    def step(self, action):
        reward = ((self.state[:, 0] > 0) == (action == 1)).float()
        done = torch.rand(len(action)) < 0.1
        self.state = torch.where(done[:, None], torch.randn_like(self.state), self.state)
        return self.state, reward, done
"""


def test_the_length_of_a_sequence_that_was_searched_is_no_fault_of_the_code(
    worker: WorkerClient, tmp_path: Path
) -> None:
    _, found = ran(worker, planned(tmp_path, IMPORTS + WALK, "Walk.step"))
    assert [f.message for f in found if f.severity in ("error", "warning")] == []


ACTOR_CRITIC = """\
import torch
from torch import nn

class Agent:
    def __init__(self, obs_dim: int, n_actions: int):
        self.actor, self.critic = nn.Linear(obs_dim, n_actions), nn.Linear(obs_dim, 1)

    def update(self, rollout: dict[str, torch.Tensor]):
        dist = torch.distributions.Categorical(logits=self.actor(rollout["obs"]))
        advantage = rollout["returns"] - self.critic(rollout["obs"]).squeeze(-1)
        return -(dist.log_prob(rollout["actions"]) * advantage).mean()
"""


def test_what_a_distribution_is_asked_of_has_the_shape_that_it_draws(worker: WorkerClient, tmp_path: Path) -> None:
    result, found = ran(worker, planned(tmp_path, ACTOR_CRITIC, "Agent.update"))
    assert (result.outcome, found) == ("passed", [])
    assert any("a distribution draws such values" in given.source for given in result.inputs)
