"""What command line and editor share: the choice of a device, workers per interpreter, a run's JSON."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from drygrad.dryrun.choice import choose
from drygrad.dryrun.launch import Launch, LaunchOptions, launch
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.report import missing_json, run_json
from drygrad.dryrun.service import KEPT, DryRuns, Home
from drygrad.dryrun.states import State
from drygrad.dryrun.targets import target_named
from drygrad.settings import Settings
from drygrad.static.source import Source

FAKE = Path(__file__).resolve().parents[1] / "support" / "fake_worker.py"
TEXT = "# dry-run: x=1\n# dry-run: x=2\ndef f(x):\n    return x\n\n\ndef g(x):\n    return x\n"
SOURCE = Source(TEXT)
PATH = Path("/project/f.py")


@pytest_asyncio.fixture
async def runs() -> AsyncGenerator[DryRuns]:
    def launch_at(home: Home) -> Launch:
        switches = {"old": ["--sim-broken"], "crowded": ["--gpu-refuses"]}.get(home.interpreter.name, [])
        return Launch([sys.executable, str(FAKE), *switches], str(home.interpreter))

    runs = DryRuns(launch_at=launch_at)
    yield runs
    await runs.close()


async def run(
    runs: DryRuns, qualname: str = "f", interpreter: str = "python", **options: Any
) -> list[Record] | Missing:
    target = target_named(SOURCE, qualname)
    assert target is not None
    home = Home(Path(interpreter), PATH.parent)
    return await runs.dry_run(SOURCE, PATH, target, home, RunOptions(**options), Settings())


async def test_each_comment_is_a_run_on_the_device_of_our_choice(runs: DryRuns) -> None:
    records = await run(runs)
    assert isinstance(records, list)
    assert [record.plan.arguments[0].text for record in records] == ["1", "2"]
    assert {record.plan.options.device for record in records} == {"sim"}
    assert {record.result.notes for record in records} == {("ran on sim: no GPU found",)}
    assert len({record.run_id for record in records}) == 2


async def test_what_puts_nothing_on_the_gpu_ran_on_the_cpu() -> None:
    def launch_at(home: Home) -> Launch:
        return Launch([sys.executable, str(FAKE), "--on-host"], str(home.interpreter))

    runs = DryRuns(launch_at=launch_at)
    records = await run(runs)
    await runs.close()
    assert isinstance(records, list)
    assert {record.result.notes for record in records} == {("ran on the CPU: the code puts no tensor on a GPU",)}


async def test_without_the_simulated_device_it_is_the_cpu_and_the_reason_is_told(runs: DryRuns) -> None:
    records = await run(runs, interpreter="old")
    assert isinstance(records, list)
    assert {record.result.device for record in records} == {"cpu"}
    assert "built without it" in records[0].result.notes[0]


async def test_a_gpu_that_refuses_when_it_comes_to_it_is_simulated(runs: DryRuns) -> None:
    records = await run(runs, interpreter="crowded")
    assert isinstance(records, list)
    assert {(record.plan.options.device, record.result.outcome) for record in records} == {("sim", "passed")}
    assert records[0].result.notes == ("ran on sim: the GPU cannot run this: GPU 0 has only 96 MiB free",)


async def test_a_device_that_was_asked_for_is_not_explained(runs: DryRuns) -> None:
    records = await run(runs, device="cpu")
    assert isinstance(records, list)
    assert [record.result.notes for record in records] == [(), ()]


async def test_what_has_no_inputs_starts_nothing(runs: DryRuns) -> None:
    missing = await run(runs, "g", search_seconds=0)
    assert isinstance(missing, Missing)
    assert missing_json(missing, "f.py")["outcome"] == "no-inputs"
    home = Home(Path("python"), PATH.parent)
    assert runs.supervisor(home).state.name == "stopped"


async def test_few_interpreters_keep_a_worker(runs: DryRuns) -> None:
    names = [f"python{number}" for number in range(KEPT + 2)]
    first = runs.supervisor(Home(Path(names[0]), PATH.parent))
    for name in names:
        await run(runs, interpreter=name)
    assert first.state.name == "stopped"
    assert runs.supervisor(Home(Path(names[-1]), PATH.parent)).state.name != "stopped"


async def test_the_json_of_a_run_has_one_form(runs: DryRuns) -> None:
    records = await run(runs)
    missing = await run(runs, "g", search_seconds=0)
    assert isinstance(records, list)
    assert isinstance(missing, Missing)
    told = run_json(records[0], path="f.py")
    assert told["target"] == "f.py::f"
    assert told["outcome"] == "passed"
    assert set(told) == set(missing_json(missing, "f.py"))


@pytest.mark.parametrize(
    ("cuda", "sim", "device", "why"),
    [
        ({"available": True, "free_bytes": [20 << 30]}, {"works": True}, "cuda", "20.0 GiB free"),
        ({"available": True, "free_bytes": [100 << 20]}, {"works": True}, "sim", "only 0.1 GiB free"),
        ({"available": True, "free_bytes": "?"}, {}, "cuda", "free"),
        ({"available": False}, {"works": None}, "sim", "no GPU"),
        (
            {"available": False},
            {"works": False, "why": "it moved"},
            "cpu",
            "it moved; device faults were not checked",
        ),
        ({}, {"works": False}, "cpu", "the probe failed"),
    ],
)
def test_the_choice_of_a_device(cuda: dict[str, Any], sim: dict[str, Any], device: str, why: str) -> None:
    chosen, reason = choose(State("ready", "python", ready={"cuda": cuda, "sim": sim}))
    assert chosen == device
    assert why in reason


def test_the_worker_does_not_inherit_the_way_to_drygrad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ours" / "drygrad").mkdir(parents=True)
    (tmp_path / "theirs").mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'ours'}:{tmp_path / 'theirs'}")
    started = launch(Path("/opt/python"), LaunchOptions(prefix=("srun", "--gres=gpu:1")))
    assert started.environment["PYTHONPATH"] == str(tmp_path / "theirs")
    assert list(started.command[:2]) == ["srun", "--gres=gpu:1"]
