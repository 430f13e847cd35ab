"""An instrument that fails is an error of ours that nobody misses; what the user's code prints has none of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from instrument_harness import watch
from worker_client import WorkerClient, plan

from drygrad.dryrun import failures
from drygrad.worker.instruments.inplace import Inplace
from drygrad.worker.watch import Op

ROOT = Path(__file__).parents[2]


class Faulty(Inplace):
    """Fails at the first write."""

    def before_op(self, op: Op) -> None:
        raise ZeroDivisionError("of ours\nwith more")


@pytest.mark.failing_instruments
def test_a_failure_is_recorded_and_printed_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = watch(tmp_path, "torch.ones(3).add_(1)", Faulty)
    (failure,) = run.failures
    assert (failure["instrument"], failure["error"]) == ("inplace", "ZeroDivisionError: of ours")
    assert failure["at"].startswith("test_failing_instruments.py:")
    assert capfd.readouterr() == ("", "")
    assert Path(os.environ[failures.VARIABLE]).read_text("utf-8").count("of ours") == 1


@pytest.mark.failing_instruments
def test_an_instrument_that_cannot_explain(tmp_path: Path) -> None:
    text = 'raise RuntimeError("of the program\'s")'
    broken = (
        "import sys\nfrom drygrad.worker.instruments.inplace import Inplace\n"
        "def explain(self, error, place): raise KeyError('of ours')\n"
        "Inplace.explain = explain\n"
    )
    with WorkerClient() as worker:
        result = worker.run(plan(tmp_path, broken + text))
    assert Inplace.name in [failure["instrument"] for failure in result["instrument_failures"]]
    assert [fault["code"] for fault in result["faults"]] == ["DG907"]
    assert "Traceback" not in result["output"]["text"]


def test_a_test_in_which_an_instrument_fails_fails(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(
        "from drygrad.dryrun import failures\n\n"
        "def test_that_fails():\n    failures.record({'instrument_failures': [{'instrument': 'births'}]})\n\n"
        "def test_after_it():\n    failures.record({'instrument_failures': []})\n"
    )
    path = os.pathsep.join(str(ROOT / name) for name in ("server", "analyzers", "tests/support"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert "2 passed, 1 error" in done.stdout
    assert "an instrument failed" in done.stdout
