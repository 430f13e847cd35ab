"""The number that decides how many samples there are is found under its many names, and where it has none."""

from __future__ import annotations

import pytest

from drygrad.dryrun.inputs.arguments import Argument
from drygrad.dryrun.what_if.sizes import BATCH, SEQUENCE, batch_of, sizes, with_batch
from drygrad.fixing import apply_edits
from drygrad.static.source import Source


@pytest.mark.parametrize(
    "text",
    [
        "batch_size = 64",
        "BATCH_SIZE = 64",
        "cfg.batch_size = 64",
        "bs: int = 64",
        "B, T, C = 64, 128, 768",
        "def main(lr=0.1, batch_size=64): pass",
        "def main(*, batch=64): pass",
        "loader = DataLoader(data, batch_size=64, shuffle=True)",
        "args = TrainingArguments(per_device_train_batch_size=64)",
        "parser.add_argument('--batch-size', '-b', type=int, default=64)",
        "config = {'lr': 1e-3, 'batch_size': 64}",
        "def train():\n    x = torch.randn(64, 3, 224, 224)\n    y = torch.randint(0, 10, (64,))",
    ],
)
def test_the_size_of_a_batch_is_found_and_changed(text: str) -> None:
    source = Source(text + "\n")
    found = sizes(source, BATCH)[0]
    assert found.value == 64
    assert apply_edits(source, found.edits(source, 48)) == text.replace("64", "48") + "\n"


@pytest.mark.parametrize(
    "text",
    [
        "eval_batch_size = 64",
        "test_loader = DataLoader(data, val_batch_size=64)",
        "hidden = 64",
        "class Net:\n    def __init__(self):\n        self.w = torch.randn(64, 64)",
        "x = torch.randn(n, 64)",
        "batches = 64",
        "batch_size = '64'",
        "batch_size = True",
    ],
)
def test_other_numbers_are_left_alone(text: str) -> None:
    assert not sizes(Source(text + "\n"), BATCH)


def test_a_named_size_comes_before_one_in_shapes_and_a_long_name_before_a_letter() -> None:
    text = "b = 3\nbatch_size = 8\nx = torch.randn(32, 10)\ny = torch.zeros(32)\n"
    assert [(size.name, size.value) for size in sizes(Source(text), BATCH)] == [("batch_size", 8), ("", 32)]


@pytest.mark.parametrize("text", ["block_size = 1024", "B, T = 8, 1024", "seq_len = 1024", "f(max_length=1024)"])
def test_the_length_of_a_sequence_is_found(text: str) -> None:
    assert [size.value for size in sizes(Source(text + "\n"), SEQUENCE)] == [1024]


def test_the_batch_of_inputs_that_are_given_is_changed_in_all_of_them() -> None:
    given = [
        Argument("x", "torch.randn(8, 3, device='cuda')", "--inputs"),
        Argument("y", "torch.randint(0, 10, (8,))", "--inputs"),
    ]
    assert batch_of(given) == 8
    assert [with_batch(each, 32) for each in given] == [
        "torch.randn(32, 3, device='cuda')",
        "torch.randint(0, 10, (32,))",
    ]
    assert batch_of([*given, Argument("z", "torch.zeros(5, 8)", "--inputs")]) is None
    assert batch_of([Argument("x", "make(8)", "--inputs")]) is None
