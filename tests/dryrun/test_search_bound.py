"""How long a search may take, whatever the code does meanwhile, and that it ends when nobody waits for it any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.plan import Missing, Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.targets import target_named
from drygrad.worker.search.isolated import WAITING

BOUND = 0.5
REFUSING = (
    "import decimal\nimport time\nimport torch\n\ndef f(x, by):\n    {work}\n    return decimal.Context.sqrt(by, x)\n"
)
WORK = {
    "it computes": "torch.randn(300, 300) @ torch.randn(300, 300)",
    "it waits": "time.sleep(0.05)",
    "it waits for ever": "time.sleep(1000)",
}


def planned(folder: Path, work: str, seconds: float, timeout: float = 30.0) -> Plan:
    source = source_of(REFUSING.format(work=work))
    target = target_named(source, "f")
    assert target is not None
    options = RunOptions(root=folder, device="cpu", timeout=timeout, search_seconds=seconds)
    plans = plan_runs(source, folder / "program.py", target, options)
    assert not isinstance(plans, Missing)
    return plans[0]


@pytest.mark.parametrize("work", ["it computes", "it waits"])
def test_a_search_keeps_to_its_bound(worker: WorkerClient, tmp_path: Path, work: str) -> None:
    result = worker.run(planned(tmp_path, WORK[work], BOUND, timeout=280.0).as_json())
    assert result["outcome"] == "no-inputs"
    assert result["search"]["found"] is False
    assert result["search"]["seconds"] <= BOUND * WAITING + 60.0


def test_one_attempt_that_does_not_end_is_given_up(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(planned(tmp_path, WORK["it waits for ever"], BOUND, timeout=4.0).as_json())
    assert result["outcome"] == "deadline"


def test_a_search_is_cancelled_in_the_middle(worker: WorkerClient, tmp_path: Path) -> None:
    run = worker.start(planned(tmp_path, WORK["it waits"], 1000.0, timeout=2000.0).as_json())
    with pytest.raises(TimeoutError):
        worker.receive("result", run, timeout=3.0)
    worker.send({"type": "cancel", "run": run})
    assert worker.receive("result", run)["result"]["outcome"] == "cancelled"
    after = worker.run(planned(tmp_path, WORK["it waits"], BOUND).as_json())
    assert after["outcome"] == "no-inputs"
