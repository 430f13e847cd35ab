"""What a program would take with parts of it on other ranks or on the host: torch's own code, put into one without."""

from __future__ import annotations

from typing import Any

import pytest
from worker_client import WorkerClient, plan

pytestmark = pytest.mark.slow  # a program forecast with each of several changes

PROGRAM = """\
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(512, 2048, bias=False), nn.Linear(2048, 512, bias=False)

    def forward(self, x):
        return x + self.down(self.up(x).tanh())

def train():
    model = nn.Sequential(*[Block() for _ in range(4)]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for _ in range(3):
        model(torch.randn(4096, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model

def grouped():
    torch.distributed.init_process_group("nccl")
    train()

def small():
    torch.manual_seed(0)
    big, kept = torch.randn(4096, 512, device="cuda"), []
    for k in range(50):
        value = torch.zeros(())
        value.copy_(big.sum().cpu())
        del value
        kept.append(torch.tensor(float(k)))
        assert kept[-1].item() == k

def sparse():
    x = torch.randn(2048, 2048, device="cuda")
    torch.sparse.mm(x.relu().to_sparse(), x)
"""
WEIGHTS = 4 * 4 * 2 * 512 * 2048
BLOCK = WEIGHTS // 4
WORDS = ("shards:8", "shards-once:8", "save-on-cpu", "states-on-cpu")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The forecasts of the program as it is, and with each change."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with WorkerClient() as worker:

        def of(target: str, *words: str, ranks: int | None = None) -> Any:
            asked: dict[str, Any] = {"gpu": None, "changes": words, "ranks": ranks}
            result = worker.run(plan(folder, PROGRAM, target=target, device="sim", forecast=asked))
            assert result["outcome"] == ("unsupported" if target == "sparse" else "passed"), result["error"]
            return result["forecast"]

        yield {
            "": of("train"),
            **{word: of("train", word) for word in WORDS},
            "grouped": of("grouped", "shards:8", ranks=2),
            "small": of("small"),
            "sparse": of("sparse"),
        }


@pytest.mark.parametrize("word", WORDS)
def test_it_saves_memory(told: Any, word: str) -> None:
    assert told[word]["changed"][word.partition(":")[0]] > 0
    assert told[word]["peak_allocated"] < told[""]["peak_allocated"]


def test_shards(told: Any) -> None:
    kinds = told["shards:8"]["kinds"]
    assert told[""]["kinds"]["states"] == pytest.approx(2 * WEIGHTS, rel=0.01)
    assert kinds["states"] == pytest.approx(2 * WEIGHTS / 8, rel=0.01)
    assert kinds["parameters"] <= WEIGHTS / 8 + 2 * BLOCK
    assert told["shards:8"]["ranks"] == 8


def test_parameters_that_stay(told: Any) -> None:
    kinds = told["shards-once:8"]["kinds"]
    assert kinds["states"] == pytest.approx(2 * WEIGHTS / 8, rel=0.01)
    assert kinds["parameters"] >= WEIGHTS


def test_optimizer_on_the_host(told: Any) -> None:
    assert "states" not in told["states-on-cpu"]["kinds"]


def test_activations_on_the_host(told: Any) -> None:
    assert told["save-on-cpu"]["kinds"].get("activations", 0) < told[""]["kinds"]["activations"] / 4


def test_programs_with_ranks_are_left_alone(told: Any) -> None:
    assert told["grouped"]["changed"] == {"shards": 0}
    assert told["grouped"]["ranks"] == 2


def test_what_is_unknown_is_so_for_its_own_life(told: Any) -> None:
    """A storage may have the identity of an earlier one, which held something unknown."""
    assert told["small"]["assumptions"] == []


def test_a_sparse_tensor_of_unknown_values_ends_a_forecast(told: Any) -> None:
    """What was needed until there is told as the least."""
    assert told["sparse"]["peak_allocated"] >= 2 * 4 * 2048 * 2048
