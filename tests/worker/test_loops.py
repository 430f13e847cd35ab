"""Loops that neither step nor load: after some passes that are alike they are left, or go on without instruments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_client import WorkerClient, plan

WORK = """\
import torch
large = torch.ones(5_000_000, dtype=torch.int8)
def work():
    any(large.neg() is None for _ in range(40))
passes = []
"""
"""What three passes of are more than a run goes on with; it appends to nothing that such a loop can reach."""
SMALL = """\
import torch
weight = torch.eye(4)
def act(x):
    for _ in range(2):
        x = ((x @ weight).tanh() + 1).clamp(0, 3) * 0.5
    return x
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerClient]:
    with WorkerClient() as client:
        client.receive("ready")
        yield client


def ran(worker: WorkerClient, folder: Path, text: str) -> dict[str, Any]:
    result = worker.run(plan(folder, text))
    assert result["outcome"] == "passed", result["error"]
    assert result["instrument_failures"] == []
    return result


def left(result: dict[str, Any]) -> list[tuple[int, int]]:
    return [(entry["line"], entry["iterations"]) for entry in result.get("truncated", [])]


def resting(result: dict[str, Any]) -> list[str]:
    return [note for note in result["notes"] if "without instruments" in note]


def test_an_evaluation_of_many_passes_is_left(worker: WorkerClient, tmp_path: Path) -> None:
    text = WORK + (
        "@torch.no_grad()\n"
        "def evaluate():\n"
        "    losses = torch.zeros(300)\n"
        "    for k in range(300):\n"
        "        work()\n"
        "        losses[k] = 1.0\n"
        "    return losses\n"
        "print(int(evaluate().sum()), int(evaluate().sum()))\n"
        "w = torch.ones(1, requires_grad=True)\n(w * evaluate()[-1]).log().sum().backward()\n"
    )
    result = ran(worker, tmp_path, text)
    assert left(result) == [(9, 3)]
    assert "the loop at line 9 was stopped after 3 of 300 passes, which were alike" in result["notes"]
    assert result["output"]["text"].splitlines()[0] == "3 2", "what is known from the first time takes a pass less"
    (fault,) = result["faults"]
    assert (fault["at"]["line"], fault["facts"]["loop_left"]) == (15, {"line": 9, "for_good": True})


@pytest.mark.parametrize(
    "loop",
    [
        "for k in range(5):\n        work()\n        seen.append(k)",
        "for k in range(5):\n        work()\n        if k > 5:\n            break",
        "for k in range(5):\n        work()\n    else:\n        k = 4",
        "for k in [0, 1, 2, 3, 4]:\n        work()",
        "for k in range(5):\n        work()\n        torch.ones(k)",
        "for k in range(5):\n        work()\n        torch.ones(2) @ weights[k]",
        "k = 0\n    while k < 4:\n        work()\n        k += 1",
    ],
)
def test_a_loop_is_not_left_where_its_end_or_its_passes_matter(worker: WorkerClient, tmp_path: Path, loop: str) -> None:
    text = f"{WORK}weights = [torch.nn.Parameter(torch.ones(2)) for _ in range(5)]\n@torch.no_grad()\n"
    text += f"def f():\n    seen = []\n    {loop}\n    return k\nassert f() == 4\n"
    assert left(ran(worker, tmp_path, text)) == []


def test_a_loop_that_may_come_to_train_is_not_left(worker: WorkerClient, tmp_path: Path) -> None:
    assert left(ran(worker, tmp_path, WORK + "for k in range(5):\n    work()\nassert k == 4\n")) == []


def test_small_operations_go_on_without_instruments(worker: WorkerClient, tmp_path: Path) -> None:
    text = SMALL + "x = torch.ones(4)\nfor i in range(600):\n    x = act(x)\nassert i == 599\nprint(x.sum().item())\n"
    expected: dict[str, Any] = {}
    exec(text.replace("print", "total = "), expected)
    result = ran(worker, tmp_path, text)
    assert float(result["output"]["text"]) == expected["total"]
    assert resting(result) == ["the loop at line 8 went on without instruments after 16 passes: they were alike"]
    assert left(result) == []


ROLLOUT = (
    SMALL
    + """\
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(4)
for i in range(5000):
    x = act(x)
"""
)


def test_what_is_new_is_heard_after_many_passes_that_were_alike(worker: WorkerClient, tmp_path: Path) -> None:
    new = "    if i == 700:\n        y = torch.nn.functional.mse_loss(torch.ones(4, 1), x)\n"
    text = f"{ROLLOUT}{new}    if i == 800:\n        break\n"
    result = ran(worker, tmp_path, text)
    assert resting(result)
    assert [(fault["code"], fault["at"]["line"]) for fault in result["faults"]] == [("DG303", 13)]


def test_a_loop_that_begins_to_train_is_followed_as_any_other(worker: WorkerClient, tmp_path: Path) -> None:
    text = ROLLOUT + "    if i > 700:\n        model(x).sum().backward()\n        optimizer.step()\n"
    result = ran(worker, tmp_path, text)
    assert resting(result)
    assert [(fault["code"], fault["at"]["line"]) for fault in result["faults"]] == [("DG703", 13)]
    assert left(result) == [(10, 704)]


def test_an_error_in_an_operation_that_nobody_heard_of_is_explained(worker: WorkerClient, tmp_path: Path) -> None:
    text = SMALL + (
        "table = torch.ones(3, 4)\nindex = torch.zeros(1, dtype=torch.long)\nx = torch.ones(4)\n"
        "for i in range(900):\n    x = act(x)\n    index += i == 700\n    index *= 3\n    table[index]\n"
    )
    result = worker.run(plan(tmp_path, text))
    assert not resting(result), "it is repeated with all instruments"
    assert (result["outcome"], result["error"]["at"]["line"]) == ("failed", 14), result
    (fault,) = result["faults"]
    assert fault["message"] == "`index[0]` = 3 is outside [-3, 3): dimension 0 of `table` has 3 entries"


AFTER_LOOP = "y = torch.nn.functional.mse_loss(torch.ones(4, 1), x)"


@pytest.mark.parametrize(
    "loop",
    [
        "while i < 700:\n    x, i = act(x), i + 1",
        "while True:\n    x, i = act(x), i + 1\n    if i == 700:\n        break",
        "for i in range(900):\n    x = act(x)\n    if i == 700:\n        break",
        "def f(x):\n    for i in range(900):\n        x = act(x)\n        if i == 700:\n            return x\nx = f(x)",
        "def f(x):\n    while True:\n        x = act(x)\n        if next(limit) > 700:\n            return x\nx = f(x)",
        "try:\n    for i in range(900):\n        x = act(x)\n        if i == 700:\n            raise KeyError\n"
        "except KeyError:\n    pass",
        "try:\n    while True:\n        x, i = act(x), i + 1\n        table[i]\nexcept IndexError:\n    pass",
    ],
)
def test_what_comes_after_a_loop_is_heard_however_it_ends(worker: WorkerClient, tmp_path: Path, loop: str) -> None:
    text = f"{SMALL}x, i, limit, table = torch.ones(4), 0, iter(range(900)), [0] * 700\n{loop}\n{AFTER_LOOP}\n"
    result = ran(worker, tmp_path, text)
    assert resting(result)
    assert [(fault["code"], fault["at"]["line"]) for fault in result["faults"]] == [("DG303", text.count("\n"))]


def test_a_block_of_another_file_is_heard_when_it_is_new(worker: WorkerClient, tmp_path: Path) -> None:
    helper = (
        "from torch.nn import functional as F\ndef seldom(x, i):\n    if i == 700:\n        F.mse_loss(x[:, None], x)\n"
    )
    (tmp_path / "helper.py").write_text(helper)
    text = (
        f"from helper import seldom\n{SMALL}x = torch.ones(4)\nfor i in range(800):\n    x = act(x)\n    seldom(x, i)\n"
    )
    result = ran(worker, tmp_path, text)
    assert resting(result)
    ((code, at),) = [(fault["code"], fault["at"]) for fault in result["faults"]]
    assert (code, Path(at["path"]).name, at["line"]) == ("DG303", "helper.py", 4)


def test_nan_that_is_born_in_a_pass_that_nobody_heard_is_found_at_its_line(
    worker: WorkerClient, tmp_path: Path
) -> None:
    text = SMALL + (
        "w = torch.ones(4, requires_grad=True)\nx, small = torch.ones(4), torch.ones(4)\n"
        "for i in range(300):\n    x = act(x)\n    small = small - 2.0 * (i == 280)\n    root = small.sqrt()\n"
        "(w * root).sum().backward()\n"
    )
    result = worker.run(plan(tmp_path, text))
    assert not resting(result), "it is repeated with all instruments"
    assert [(fault["code"], fault["at"]["line"]) for fault in result["faults"]] == [("DG410", 12)]


def test_a_mode_of_the_programs_is_left_as_it_was_entered(worker: WorkerClient, tmp_path: Path) -> None:
    text = (
        "from torch.utils.flop_counter import FlopCounterMode\n"
        + SMALL
        + (
            "x = torch.ones(4)\nfor i in range(800):\n    with FlopCounterMode(display=False):\n        x = act(x)\n"
            f"        if i == 700:\n            {AFTER_LOOP}\n    if i == 750:\n        {AFTER_LOOP}\n"
        )
    )
    result = ran(worker, tmp_path, text)
    assert resting(result)
    assert [fault["at"]["line"] for fault in result["faults"]] == [13, 15]


def test_what_runs_between_the_passes_of_a_generator_is_heard(worker: WorkerClient, tmp_path: Path) -> None:
    text = SMALL + (
        "def passes(x):\n    for i in range(600):\n        x = act(x)\n        yield x\n"
        f"states = passes(torch.ones(4))\nseen = [next(states) for _ in [0] * 99]\nx = next(states)\n{AFTER_LOOP}\n"
    )
    result = ran(worker, tmp_path, text)
    assert [(fault["code"], fault["at"]["line"]) for fault in result["faults"]] == [("DG303", text.count("\n"))]


def test_a_run_that_cannot_be_repeated_in_time_answers_with_what_it_knows(worker: WorkerClient, tmp_path: Path) -> None:
    text = (
        f"import time\n{SMALL}heard, x = torch._C._len_torch_dispatch_stack, torch.ones(4)\n"
        "for i in range(3000):\n    x = act(x)\n    time.sleep(0.02 * heard())\nraise KeyError\n"
    )
    result = worker.run({**plan(tmp_path, text), "timeout": 8.0})
    assert (result["outcome"], result["error"]["type"]) == ("failed", "KeyError"), result["notes"]


@pytest.mark.parametrize(
    "update",
    [
        "w.data.add_(w.grad, alpha=-0.1)",
        "with torch.no_grad():\n        w -= 0.1 * w.grad",
        "w.data = w.data - 0.1 * w.grad",
    ],
)
def test_a_loop_that_steps_by_hand_is_bounded_as_one_with_an_optimizer(
    worker: WorkerClient, tmp_path: Path, update: str
) -> None:
    text = (
        f"import torch\nw = torch.ones(3, requires_grad=True)\nfor i in range(80):\n    w.grad = None\n    {update}\n"
    )
    text = text.replace("w.grad = None\n", "w.grad = None\n    (w * w).sum().backward()\n")
    assert left(ran(worker, tmp_path, text)) == [(3, 3)]


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_a_loop_that_changes_nothing_it_learns_is_not(worker: WorkerClient, tmp_path: Path, dtype: str) -> None:
    text = f"import torch\nw = torch.ones(3, dtype=torch.{dtype}, requires_grad=True)\n"
    text += "for i in range(80):\n    (w * w).abs().sum().backward()\n"
    assert left(ran(worker, tmp_path, text)) == []


def test_an_evaluation_in_which_the_run_rests_is_left_once_it_is_much_work(
    worker: WorkerClient, tmp_path: Path
) -> None:
    text = WORK.replace("5_000_000", "100_000").replace("range(40)", "range(700)")
    text += "with torch.no_grad():\n    for k in range(300):\n        work()\nassert k == 4\n"
    result = ran(worker, tmp_path, text)
    assert resting(result) == ["the loop at line 7 went on without instruments after 3 passes: they were alike"]
    assert left(result) == [(7, 5)]


def test_a_second_epoch_takes_fewer_batches(worker: WorkerClient, tmp_path: Path) -> None:
    text = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(100, 4)), batch_size=8)
for epoch in range(9):
    sizes = []
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        sizes.append(len(x))
    print(sizes)
"""
    assert ran(worker, tmp_path, text)["output"]["text"] == "[8, 8, 8, 4]\n[8, 8]\n"


def test_a_parameter_without_a_shape_is_no_hindrance(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import torch\nnet = torch.nn.LazyLinear(3)\nfor i in range(9):\n    net(torch.ones(2, 4))\n"
    ran(worker, tmp_path, text)
