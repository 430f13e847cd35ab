"""What only a device can show: operands on two of them, kernels that would assert, waits and copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from simulated import Simulated

SCRIPT = """
from pathlib import Path
from drygrad.worker.instruments import all_instruments
from instrument_harness import watch

result = []
for program in {programs!r}:
    run = watch(Path({folder!r}), program, *all_instruments().values(), device="sim")
    faults = [(fault.code, fault.message) for fault in run.faults]
    error = run.result.pop("error", None)
    result.append(dict(faults=faults, error=type(error).__name__, notes=run.notes, result=run.result))
"""

MISMATCHES = {
    "pred, target = torch.randn(4, 3).cuda(), torch.randn(4, 3)\nF.mse_loss(pred, target)": (
        "DG205",
        "`target` is on the CPU, `pred` on cuda:0: move `target` to cuda:0",
    ),
    "logits, y = torch.randn(4, 5).cuda(), torch.tensor([1, 2, 3, 4])\nnn.CrossEntropyLoss()(logits, y)": (
        "DG205",
        "`y` is on the CPU, `logits` on cuda:0: move `y` to cuda:0",
    ),
    "fc, x = nn.Linear(5, 3).cuda(), torch.randn(4, 5)\nfc(x)": (
        "DG201",
        "`x` is on the CPU, the weight of `fc` on cuda:0: move `x` to cuda:0",
    ),
    "conv, x = nn.Conv2d(1, 8, 3), torch.randn(4, 1, 28, 28).cuda()\nconv(x)": (
        "DG201",
        "the weight of `conv` is on the CPU, `x` on cuda:0: move the model to cuda:0",
    ),
    "a, b = torch.randn(3).cuda(), torch.randn(3)\ntorch.cat([a, b])": (
        "DG205",
        "`b` is on the CPU, `a` on cuda:0: move `b` to cuda:0",
    ),
    "a, b = torch.randn(3).cuda(0), torch.randn(3).cuda(1)\na + b": (
        "DG205",
        "`b` is on cuda:1, `a` on cuda:0: move `b` to cuda:0",
    ),
    "b, i = torch.randn(3), torch.tensor([0]).cuda()\nb[i]": (
        "DG205",
        "`b` is on the CPU, `i` on cuda:0: move `b` to cuda:0",
    ),
    "x = torch.randn(4).cuda()\nx.numpy()": (
        "DG207",
        "`x` is on cuda:0, but NumPy reads host memory only; call `.cpu()` first",
    ),
    "class Net(nn.Module):\n    def forward(self, x):\n        return x + torch.randn(x.shape)\n"
    "Net()(torch.randn(3).cuda())": (
        "DG203",
        "`torch.randn(x.shape)` is on the CPU, `x` on cuda:0: move `torch.randn(x.shape)` to cuda:0",
    ),
    "def step(a, b):\n    return a * (b + 1)\n"
    "def trained():\n    a, b = torch.ones(2).cuda(), torch.ones(2)\n"
    "    try:\n        step(a, b)\n    except RuntimeError:\n        torch.ones(3).cuda().cpu() * 2\n        raise\n"
    "trained()": (
        "DG205",
        "`b` is on the CPU, `a` on cuda:0: move `b` to cuda:0",
    ),
    "n = torch.tensor([3, 2]).cuda()\nnn.utils.rnn.pack_padded_sequence(torch.randn(3, 2, 4).cuda(), n)": (
        "DG205",
        "`n` is on cuda:0, but packing needs lengths on the CPU",
    ),
    "w, x, y = torch.ones(2), torch.randn(4, 2).cuda(), torch.zeros(4).long().cuda()\n"
    "nn.CrossEntropyLoss(weight=w)(x, y)": (
        "DG205",
        "the weight of CrossEntropyLoss is on the CPU, `x` on cuda:0: move the loss to cuda:0",
    ),
    "w, seed = torch.ones(3, device='cuda', requires_grad=True), torch.ones(3)\n(w * 2).backward(seed)": (
        "DG205",
        "`seed` is on the CPU, the result of backward on cuda:0: move `seed` to cuda:0",
    ),
    "w = torch.ones(3, device='cuda', requires_grad=True)\nx, y = w * 2, w * 3\n"
    "torch.autograd.grad([x, y], w, [None, torch.ones(3)] if x.sum is None else [torch.ones_like(x), torch.ones(3)])": (
        "DG205",
        "the gradient of grad is on the CPU, `y` on cuda:0: move the gradient of grad to cuda:0",
    ),
}

ASSERTS = {
    "scores, y = torch.randn(4, 5).cuda(), torch.tensor([0, 1, 5, 2]).cuda()\nF.cross_entropy(scores, y)": (
        "DG302",
        "`y[2]` = 5 is outside [0, 5): the model has 5 classes",
    ),
    "embedding, ids = nn.Embedding(10, 3).cuda(), torch.tensor([[1, 10]]).cuda()\nembedding(ids)": (
        "DG302",
        "`ids[0, 1]` = 10 is outside [0, 10): `embedding` has num_embeddings=10",
    ),
    "p = torch.tensor([0.2, 1.5]).cuda()\nF.binary_cross_entropy(p, torch.ones(2).cuda())": (
        "DG307",
        "`p[1]` = 1.5 is outside [0, 1]: binary_cross_entropy expects probabilities",
    ),
    "p = torch.tensor([-1.0, 2.0]).cuda()\ntorch.multinomial(p, 1)": (
        "DG316",
        "`p[0]` = -1: multinomial expects finite, non-negative weights",
    ),
    "x, i = torch.zeros(3).cuda(), torch.tensor([3])\nx[i]": (
        "DG302",
        "`i[0]` = 3 is outside [-3, 3): dimension 0 of `x` has 3 entries",
    ),
}


Answers: TypeAlias = Callable[[list[str]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def process() -> Iterator[Simulated]:
    process = Simulated(devices=2)
    yield process
    process.close()


@pytest.fixture
def answers(process: Simulated, tmp_path: Path) -> Answers:
    """Return what runs programs under all instruments, in a process of their own."""
    return lambda programs: process.run(SCRIPT.format(programs=programs, folder=str(tmp_path)))


def test_operands_on_two_devices(answers: Answers) -> None:
    found = [answer["faults"] for answer in answers([*MISMATCHES])]
    assert found == [[[*fault]] for fault in MISMATCHES.values()]


def test_kernels_that_would_assert_are_not_started(answers: Answers) -> None:
    found = answers([*ASSERTS])
    assert [answer["faults"] for answer in found] == [[[*fault]] for fault in ASSERTS.values()]
    assert {answer["error"] for answer in found} == {"DeviceAssert"}


ROUND_TRIP = """
x = torch.randn(8, 4, device="cuda", requires_grad=True)
for step in range(3):
    mean = x.cpu().mean().cuda()
"""
TRAINING = """
model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    x = torch.randn(8, 4).cuda()
    loss = model(x).sum()
    loss.backward()
    {synchronize}
    optimizer.step()
    optimizer.zero_grad()
    loss.item()
"""


def test_round_trips_and_needless_waits(answers: Answers) -> None:
    synchronised = TRAINING.format(synchronize="torch.cuda.synchronize()")
    plain = TRAINING.format(synchronize="")
    timed = "import time\n" + synchronised
    trip, wait, *others = answers([ROUND_TRIP, synchronised, plain, timed])
    assert trip["faults"] == [
        ["DG206", "copied to the CPU and back (3 times in this run), with two copies and a sync each time"]
    ]
    counts = {(row["line"], row["kind"]): row["count"] for row in trip["result"]["syncs"]}
    assert counts[7, "d2h"] == counts[7, "h2d"] == 3
    assert wait["faults"] == [
        ["DG602", "the host synchronizes with the device in every step (3 times here) without need"]
    ]
    assert [other["faults"] for other in others] == [[], []]
    rows = {(row["line"], row["op"]): row["count"] for row in others[0]["result"]["syncs"]}
    assert rows[14, "aten::_local_scalar_dense"] == 3
    assert rows[8, "aten::copy_"] == 3


MOVED = """
model = nn.Sequential(nn.Linear(4, 4), nn.LSTM(4, 2))
for device in ("cuda", "cpu", "cuda"):
    model.to(device)
x = torch.randn(8, 4).cuda()
index = x[x > 0].nonzero()[0].item()
"""


def test_a_module_that_moves_is_one_copy_and_a_line_has_one_row_for_each_kind(answers: Answers) -> None:
    (answer,) = answers([MOVED])
    rows = [(row["line"], row["kind"], row["count"]) for row in answer["result"]["syncs"]]
    assert rows == [(7, "d2h", 1), (7, "h2d", 2), (8, "h2d", 1), (9, "sync", 3)]


def test_memory_of_the_device(answers: Answers) -> None:
    on_host = "x = torch.zeros(1 << 20)\ny = x.cuda()\nz = torch.zeros(3, device='cuda')"
    (answer,) = answers([on_host])
    memory = answer["result"]["memory"]
    assert memory["peak_bytes"] == (4 << 20) + 512
    assert [(row["line"], row["bytes"]) for row in memory["by_line"]] == [(5, 4 << 20), (6, 512)]


HEALTHY = """
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16, padding_idx=0)
        self.norm = nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.out = nn.Linear(16, 5)

    def forward(self, tokens):
        hidden = self.norm(self.embedding(tokens))
        mask = torch.triu(torch.ones(6, 6, dtype=torch.bool, device=tokens.device), 1)
        hidden = hidden + self.attention(hidden, hidden, hidden, attn_mask=mask)[0]
        return self.out(hidden)

model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
history = []
for step in range(4):
    tokens = torch.randint(0, 20, (8, 6), device="cuda")
    target = torch.randint(0, 5, (8, 6), device="cuda")
    target[:, -1] = -100
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(tokens).flatten(0, 1), target.flatten())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    history.append(loss.item())
model.eval()
with torch.no_grad():
    scores, beams = model(tokens)[:, -1].topk(3)
    chosen = tokens.gather(1, beams)
    torch.func.vmap(lambda row: row.softmax(-1))(scores)
    correct = (model(tokens).argmax(-1) == target).float().mean().item()
"""


def test_a_healthy_program(answers: Answers) -> None:
    (answer,) = answers([HEALTHY])
    assert (answer["error"], answer["faults"]) == ("NoneType", [])
    assert len(answer["result"]["memory"]["steps"]) == 4


def test_what_instruments_read_is_no_wait_of_the_users(answers: Answers) -> None:
    program = """\
m = nn.Linear(4, 2).to("cuda")
x, y = torch.randn(8, 4, device="cuda"), torch.zeros(8, dtype=torch.long, device="cuda")
nn.Embedding(3, 2, device="cuda")(y)
loss = F.cross_entropy(m(x).log_softmax(1), y)
loss.backward()
torch.optim.SGD(m.parameters(), 0.1).step()
loss.item()
"""
    (answer,) = answers([program])
    assert [(row["line"], row["kind"]) for row in answer["result"]["syncs"]] == [(4, "h2d"), (10, "sync")]
