"""The model of torch is what the tools beside it make of the torch that is installed for the tests."""

from __future__ import annotations

import hashlib
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from drygrad.torchmodel import operations

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
GENERATED = ROOT / "analyzers" / "drygrad" / "torchmodel" / "generated"
NAMED = "mul exp max bucketize nn.functional.huber_loss nn.functional.gumbel_softmax".split()


def generated(name: str) -> Any:
    return json.loads((GENERATED / f"{name}.json").read_text(encoding="utf-8"))


def test_the_data_was_made_by_these_tools() -> None:
    """`python tools/make_torchmodel.py` makes it anew."""
    tools = [ROOT / "tools" / "make_torchmodel.py", *sorted((ROOT / "tools" / "probing").glob("*.py"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in tools)).hexdigest()
    assert generated("made_of")["tools"] == digest


@pytest.mark.skipif(
    torch.__version__.partition("+")[0] != generated("made_of")["torch"], reason="the data is of another torch"
)
def test_torch_answers_as_it_is_written_down() -> None:
    command = [sys.executable, "-W", "ignore", str(ROOT / "tools" / "make_torchmodel.py"), *NAMED]
    answers = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert answers == {name: generated("operations")[name] for name in NAMED}


def test_names_lead_to_operations() -> None:
    named = {"torch.clip": "clamp", "Tensor.relu": "nn.functional.relu", "torch.nn.functional.softmax": "softmax"}
    assert {name: op.name for name in named if (op := operations.named(name)) is not None} == named
    assert operations.named("torch.linalg.norm") != operations.named("torch.norm")
    assert operations.named("torch.load") is None


def test_every_keyword_that_the_database_of_operators_gives_is_one_that_torch_takes() -> None:
    # Imported here, for it takes seconds.
    operators: list[Any] = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db
    known: dict[str, set[str]] = {
        f"torch.{op.name}": {name for sample in op.sample_inputs("cpu", torch.float32) for name in sample.kwargs}
        for op in operators
        if f"torch.{op.name}" in generated("keywords") and torch.float32 in op.dtypes
    }
    assert len(known) > 300
    refused = {name: given - (operations.keywords_of(name) or frozenset()) for name, given in known.items()}
    assert {name: given for name, given in refused.items() if given} == {}
