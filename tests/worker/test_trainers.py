"""Trainers with loops of their own take few batches, and do what they do after the last one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_client import WorkerClient, plan

TRAINER = """\
class Trainer:
    def __init__(self, *, max_epochs=None, min_epochs=None, limit_train_batches=None, limit_val_batches=None,
                 accumulate_grad_batches=1, val_check_interval=None, fast_dev_run=False):
        self.seen = (limit_train_batches, limit_val_batches, val_check_interval)
        self.epochs = (max_epochs, min_epochs)
"""


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerClient]:
    with WorkerClient() as client:
        client.receive("ready")
        yield client


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ("max_epochs=5", "(3, 3, None)"),
        ("limit_train_batches=1.0, limit_val_batches=0", "(3, 0, None)"),
        ("limit_train_batches=1, limit_val_batches=0.5", "(1, 0.5, None)"),
        ("limit_train_batches=100, val_check_interval=50", "(3, 3, 3)"),
        ("accumulate_grad_batches=4", "(4, 4, None)"),
        ("fast_dev_run=True", "(None, None, None)"),
    ],
)
@pytest.mark.parametrize("package", ["lightning/pytorch", "pytorch_lightning"])
def test_a_trainer_of_lightning_is_told_how_many_batches_there_are(
    worker: WorkerClient, tmp_path: Path, package: str, arguments: str, seen: str
) -> None:
    folder = tmp_path / "installed" / package / "trainer"
    folder.mkdir(parents=True)
    (folder / "trainer.py").write_text(TRAINER)
    name = package.replace("/", ".")
    text = f"import sys\nsys.path.insert(0, {str(tmp_path / 'installed')!r})\n"
    text += f"from {name}.trainer.trainer import Trainer\nprint(Trainer({arguments}).seen)\n"
    result = worker.run(plan(tmp_path, text, loop_limit=3))
    assert (result["outcome"], result["output"]["text"]) == ("passed", seen + "\n"), result["faults"]


def test_a_trainer_of_lightning_takes_few_epochs(worker: WorkerClient, tmp_path: Path) -> None:
    folder = tmp_path / "lightning" / "pytorch" / "trainer"
    folder.mkdir(parents=True)
    (folder / "trainer.py").write_text(TRAINER)
    asked = ["", "max_epochs=1", "max_epochs=-1", "max_epochs=90, min_epochs=4", "max_epochs=9, fast_dev_run=True"]
    made = ", ".join(f"Trainer({arguments}).epochs" for arguments in asked)
    text = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nfrom lightning.pytorch.trainer.trainer import Trainer\n"
    result = worker.run(plan(tmp_path, f"{text}print([{made}])\n"))
    expected = "[(2, None), (1, None), (2, None), (2, 2), (9, None)]\n"
    assert result["output"]["text"] == expected, result["faults"]


TRANSFORMERS = """\
class Trainer:
    def __init__(self, args):
        self.args = args

    def train(self, again=None):
        given = self.args
        return (given.num_train_epochs, given.max_steps, given.eval_steps, given.save_steps, again)
"""


def test_a_trainer_of_transformers_takes_few_epochs_and_steps(worker: WorkerClient, tmp_path: Path) -> None:
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "trainer.py").write_text(TRANSFORMERS)
    text = f"""\
import sys
sys.path.insert(0, {str(tmp_path)!r})
from types import SimpleNamespace as A
from transformers.trainer import Trainer
long = A(num_train_epochs=50.0, max_steps=-1, eval_steps=500, save_steps=0.1, gradient_accumulation_steps=1)
short = A(num_train_epochs=1, max_steps=900, eval_steps=None, save_steps=2, gradient_accumulation_steps=4)
print(Trainer(long).train(again=True), Trainer(short).train())
"""
    result = worker.run(plan(tmp_path, text, loop_limit=3))
    assert result["output"]["text"] == "(2, -1, 3, 0.1, True) (1, 24, None, 2, None)\n", result["faults"]
