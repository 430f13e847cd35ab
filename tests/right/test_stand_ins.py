"""Stand-ins for what Hugging Face's libraries would download, in those libraries as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_harness import run_program

PYTHON = os.environ.get("DRYGRAD_RIGHT_PYTHON", sys.executable)
NAME = "google/electra-small-discriminator"
PROGRAM = f"""\
import sys

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{NAME}")
sets = load_dataset("glue", "mrpc")
model = AutoModelForSequenceClassification.from_pretrained("{NAME}", num_labels=3)


def encode(rows):
    return tokenizer(rows["sentence1"], rows["sentence2"], truncation=True, padding="max_length", max_length=24)


columns = ["input_ids", "token_type_ids", "attention_mask", "labels"]
encoded = sets["train"].select(range(32)).map(encode, batched=True).rename_column("label", "labels")
encoded.set_format("torch", columns=columns)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
weights = torch.ones(int(sys.argv[1]))
for batch in DataLoader(encoded, batch_size=8, shuffle=True):
    labels = batch.pop("labels")
    logits = model(**batch).logits
    loss = torch.nn.functional.cross_entropy(logits, labels, weight=weights)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
some = load_dataset("ag_news", split="train[:1%]")
assert sorted(sets) == ["test", "train", "validation"]
assert len(some) == 50 and some.features["label"].num_classes == 4
assert model.config.hidden_size == 256
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the program, where the libraries are to be had."""
    if subprocess.run([PYTHON, "-c", "import datasets, transformers"], capture_output=True, check=False).returncode:
        pytest.skip(f"{PYTHON} has not both libraries")
    (tmp_path / "tune.py").write_text(PROGRAM)
    return tmp_path


def run(folder: Path, classes: str) -> dict[str, Any]:
    options = ["--python", PYTHON, "--timeout", "200", "--no-progress", "--output-format", "json"]
    return json.loads(run_program("run", *options, "--", "tune.py", classes, cwd=folder).out)


@pytest.mark.xdist_group("stand-ins")
def test_a_model_is_fine_tuned_of_which_nothing_is_here(folder: Path) -> None:
    report = run(folder, "3")
    assert [run["outcome"] for run in report["runs"]] == ["passed"], report
    notes = report["runs"][0]["notes"]
    assert [note.partition(";")[0] for note in notes if note.startswith("not on this machine")] == [
        f"not on this machine: `{NAME}`",
        f"not on this machine: the tokenizer of `{NAME}`",
        "not on this machine: the data set `glue`, `mrpc`",
        "not on this machine: the data set `ag_news`",
    ]
    assert f"weights that the program would download are random: {NAME}" in notes
    assert not report["findings"]


@pytest.mark.xdist_group("stand-ins")
def test_a_fault_is_found_with_them_and_only_hinted_at(folder: Path) -> None:
    """The number of classes could be that of the settings that are not here."""
    report = run(folder, "2")
    assert [run["outcome"] for run in report["runs"]] == ["failed"]
    told = [(found["code"], found["severity"], found["start"]["line"]) for found in report["findings"]]
    assert told == [("DG301", "hint", 25)]
