"""The worker as a program: started by path, it says that it is ready, and each run ends in a result."""

from __future__ import annotations

from pathlib import Path

import pytest
from worker_client import WorkerClient, argument, plan

SMALL = """\
import torch
def f(x):
    y = x.exp()
    return y
"""


def test_a_function_with_an_argument(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, SMALL, "f", arguments=[argument("torch.ones(3, requires_grad=True)", "x")]))
    assert result["outcome"] == "passed"
    assert result["backward"] == "probe"
    assert result["blocks"] == [3]
    assert result["inputs"] == [{"name": "x", "value": "float32 [3] on cpu", "source": "comment"}]


def test_an_error_of_the_users_stands_in_its_line(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, "settings = {}\nrate = settings['lr']\n"))
    assert result["outcome"] == "failed"
    (fault,) = result["faults"]
    assert (fault["code"], fault["message"], fault["at"]["line"]) == ("DG907", "KeyError: 'lr'", 2)


def test_without_fork_a_process_serves_one_run_and_ends(tmp_path: Path) -> None:
    with WorkerClient("--no-fork") as worker:
        assert worker.receive("ready")["once"]
        result = worker.run(plan(tmp_path, SMALL, "f", arguments=[argument("torch.ones(3)")]))
        assert result["outcome"] == "passed"
        assert worker.process.wait(180) == 0


def test_what_makes_a_run_fail_is_one_fault_and_an_error(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import torch\ndef f(x):\n    y = torch.exp(x)\n    y.clamp_(max=1)\n    return y.sum()\n"
    result = worker.run(plan(tmp_path, text, "f", arguments=[argument("torch.ones(3, requires_grad=True)", "x")]))
    assert [(f["code"], f["at"]["line"], f["severity"]) for f in result["faults"]] == [("DG101", 4, "error")]


def test_an_error_that_the_code_words_anew_keeps_its_cause(worker: WorkerClient, tmp_path: Path) -> None:
    text = """\
import torch
def f(x):
    try:
        return x @ torch.ones(5, 2)
    except RuntimeError as error:
        raise ValueError("no product") from error
"""
    result = worker.run(plan(tmp_path, text, "f", arguments=[argument("torch.ones(3, 4)", "x")]))
    assert [(f["code"], f["at"]["line"]) for f in result["faults"]] == [("DG314", 4)]
    assert result["error"]["message"] == "no product"


@pytest.mark.parametrize(
    ("name", "part", "codes"),
    [("task_loss", "part", ["DG105"]), ("task_loss", "part.item()", []), ("scores", "part", [])],
)
def test_a_loss_that_is_returned_without_its_graph(
    worker: WorkerClient, tmp_path: Path, name: str, part: str, codes: list[str]
) -> None:
    text = (
        "import torch\nmodel = torch.nn.Linear(2, 2)\n"
        f"def {name}(x):\n    parts = [model(x).sum(), model(x).mean()]\n"
        f"    return torch.tensor([{part} for part in parts]).sum()\n"
    )
    result = worker.run(plan(tmp_path, text, name, arguments=[argument("torch.ones(3, 2)", "x")]))
    assert [fault["code"] for fault in result["faults"]] == codes


def test_nan_that_is_returned_is_named_where_it_was_born(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import torch\ndef f(x):\n    y = x.log()\n    return {'y': y}\n"
    result = worker.run(plan(tmp_path, text, "f", arguments=[argument("-torch.ones(3)", "x")]))
    (fault,) = result["faults"]
    assert (fault["code"], fault["at"]["line"]) == ("DG410", 3)
    assert [(r["message"], r["at"]["line"]) for r in fault["related"]] == [("NaN is returned", 4)]


PLAYERS = """\
import torch
def total(judge, x):
    return judge(x).sum()
def play(judge, maker, optimizer, x):
    first = total(judge, x)
    score = total(judge, maker(x))
    loss = -score
    first.backward({kept})
    optimizer.step()
    loss.backward()
judge, maker = (torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)) for _ in range(2))
play(judge, maker, torch.optim.SGD(judge.parameters(), 0.1), torch.ones(3, 2))
"""


@pytest.mark.parametrize(("kept", "line"), [("", 6), ("retain_graph=True", 9)])
def test_a_loss_computed_before_the_step_that_changes_its_weights(
    worker: WorkerClient, tmp_path: Path, kept: str, line: int
) -> None:
    result = worker.run(plan(tmp_path, PLAYERS.format(kept=kept)))
    fault = next(fault for fault in result["faults"] if fault["code"] == "DG101")
    assert fault["at"]["line"] == line
    assert ("`optimizer.step()` (SGD) changes the weights here" in str(fault["related"])) == (line == 6)
