"""The callbacks in real trainers: a job with a fault ends before it begins, a right one is trained."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_harness import environment

pytest.importorskip("torch")
PYTHON = os.environ.get("DRYGRAD_RIGHT_PYTHON", sys.executable)

LIGHTNING = """\
import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from drygrad.callbacks.lightning import DryRun


class Net(lightning.LightningModule):
    def __init__(self, classes):
        super().__init__()
        self.head = torch.nn.Linear(8, classes)

    def training_step(self, batch, number):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.head(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    data = TensorDataset(torch.randn(32, 8), torch.arange(32) % 6)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=1, callbacks=[DryRun(timeout=300)], **quiet)
    trainer.fit(Net(int(sys.argv[1])), DataLoader(data, batch_size=8))
    print("TRAINED")
"""
TRANSFORMERS = """\
import sys

import torch
from transformers import Trainer, TrainingArguments

from drygrad.callbacks.transformers import DryRun


class Net(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.head = torch.nn.Linear(8, classes)

    def forward(self, x, labels):
        scores = self.head(x)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


data = [{"x": torch.randn(8), "labels": torch.tensor(number % 6)} for number in range(32)]
settings = TrainingArguments("out", max_steps=3, report_to=[], save_strategy="no", disable_tqdm=True)
Trainer(Net(int(sys.argv[1])), settings, train_dataset=data, callbacks=[DryRun(timeout=300)]).train()
print("TRAINED")
"""


@pytest.mark.parametrize(("package", "text"), [("lightning", LIGHTNING), ("transformers", TRANSFORMERS)])
@pytest.mark.xdist_group("callbacks")
def test_a_job_is_dry_run_before_it_begins(tmp_path: Path, package: str, text: str) -> None:
    if subprocess.run([PYTHON, "-c", f"import {package}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{PYTHON} has no {package}")
    (tmp_path / "train.py").write_text(text)
    variables = {**environment(), "PYTHONWARNINGS": "ignore"}

    def train(classes: str) -> subprocess.CompletedProcess[str]:
        words = [PYTHON, "train.py", classes]
        return subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)

    faulty = train("4")
    assert faulty.returncode == 1
    assert "DryRunFailed: the dry run of this job has found faults" in faulty.stderr
    assert "error[DG302]: " in faulty.stderr
    assert "TRAINED" not in faulty.stdout
    right = train("6")
    assert (right.returncode, right.stdout.splitlines()[-1]) == (0, "TRAINED"), right.stderr
    assert "train.py: passed on " in right.stderr
