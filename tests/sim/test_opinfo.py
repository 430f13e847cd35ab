"""Torch's own database of operators: forward and backward as on the CPU, refusals as on a GPU.

A fixed sample by default; all of it, and the three figures, with ``DRYGRAD_SIM_ALL=1`` (``make test-sim``).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import opinfo_misses
import pytest
from worker_client import PYTHON

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("opinfo_program.py")
ALL = bool(os.environ.get("DRYGRAD_SIM_ALL"))
EVERY = 24
NAMED = """add addmm bmm cat clamp cumsum einsum gather index_add index_put index_select linalg.inv logsumexp matmul
masked_fill mean nn.functional.batch_norm nn.functional.conv2d nn.functional.cross_entropy nn.functional.dropout
nn.functional.embedding nn.functional.gelu nn.functional.layer_norm nn.functional.linear nn.functional.max_pool2d
nn.functional.mse_loss nn.functional.scaled_dot_product_attention scatter softmax sort stack topk where""".split()


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    command = [PYTHON, "-W", "ignore", str(PROGRAM), *([] if ALL else ["--every", str(EVERY), *NAMED])]
    path = str(PROGRAM.parents[2] / "analyzers")
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [json.loads(line) for line in done.stdout.splitlines()]


def figure(what: str, right: int, total: int) -> float:
    print(f"{what}: {right} of {total}, {100 * right / total:.1f} %")
    return right / total


@pytest.mark.parametrize(
    ("direction", "known"), [("forward", opinfo_misses.FORWARD), ("backward", opinfo_misses.BACKWARD)]
)
def test_results(answers: list[dict[str, Any]], direction: str, known: dict[str, str]) -> None:
    compared = {answer["name"]: answer[direction] for answer in answers if answer[direction] is not None}
    wrong = {name: said for name, said in compared.items() if said != "ok"}
    assert not {name: said for name, said in wrong.items() if name not in known}
    if ALL:
        assert wrong.keys() == known.keys()
        assert figure(direction, len(compared) - len(wrong), len(compared)) >= 0.99


def test_dtypes(answers: list[dict[str, Any]]) -> None:
    """Halves and integers are taken where a GPU takes them; what is unsupported says so."""
    claims = {(answer["name"], dtype): said for answer in answers for dtype, said in answer.get("dtypes", {}).items()}
    wrong = {claim: said for claim, said in claims.items() if said != "ok"}
    unexpected = {
        (name, dtype): said
        for (name, dtype), said in wrong.items()
        if name not in opinfo_misses.DTYPES and not said.startswith("refused: Unsupported")
    }
    assert not unexpected
    if ALL:
        assert figure("dtypes", len(claims) - len(wrong), len(claims)) >= 0.97


def test_refusals(answers: list[dict[str, Any]]) -> None:
    cases = {answer["name"]: answer["errors"] for answer in answers if answer["errors"]}
    wrong = {name: [case for case in tried if case[1] != "ok"] for name, tried in cases.items()}
    known = opinfo_misses.ERRORS
    assert not {name: missed for name, missed in wrong.items() if len(missed) > known.get(name, (0, ""))[0]}
    if ALL:
        assert {name: len(missed) for name, missed in wrong.items() if missed} == {n: k for n, (k, _) in known.items()}
        total = sum(map(len, cases.values()))
        assert figure("refusals", total - sum(map(len, wrong.values())), total) >= 0.97
