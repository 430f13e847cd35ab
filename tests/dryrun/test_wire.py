"""Whatever a worker says is read, or refused with a sentence, at once; it ends no more than its own run."""

from __future__ import annotations

import ast
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_answers import DREADFUL, LONG, MARK, Answer, broken, recorded

from drygrad.dryrun import wire
from drygrad.dryrun.findings import findings
from drygrad.dryrun.fixes import Candidates
from drygrad.dryrun.inputs import conventions
from drygrad.dryrun.launch import Launch
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Missing, Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.schema import Malformed
from drygrad.dryrun.states import Limits, State
from drygrad.dryrun.supervisor import Supervisor
from drygrad.dryrun.targets import target_named
from drygrad.dryrun.written_inputs import comment_text
from drygrad.fixing import apply_edits
from drygrad.settings import Settings
from drygrad.static.source import Source

ANSWERS = recorded()
PATH = Path("/project/program.py")
IN_PROCESS, THROUGH_PIPES = 10_000, 300
FAKE = Path(__file__).resolve().parents[1] / "support" / "fake_worker.py"


def test_what_runs_are_compared_by_can_be_said() -> None:
    sample: dict[str, Any] = {"name": "net.w[0]['k']", "shape": [2], "elements": [0.5, None]}
    said = {
        "values": [{**sample, "line": 3, "number": 1}],
        "state": [{**sample, "changed": True}],
        "gradients": [sample],
        "steps": [{**sample, "name": "1:0"}],
        "written": ["net.w"],
    }
    assert Result.read({"outcome": "passed", "comparison": said}).data["comparison"] == said


@pytest.mark.parametrize(
    "own", [conventions.SILENT, conventions.FOLDER, f"f({conventions.SILENT})", "Net.__new__(Net)"]
)
def test_what_drygrad_proposes_itself_may_come_back(own: str) -> None:
    assert wire.EXPRESSION(own) == own
    with pytest.raises(Malformed):
        wire.EXPRESSION(f"f({own}, __import__('os'))")


def plan_of(known: Answer) -> Plan:
    source = Source(known.text)
    target = target_named(source, known.target)
    assert target is not None
    plans = plan_runs(source, PATH, target, RunOptions("cpu", root=PATH.parent))
    assert not isinstance(plans, Missing)
    return plans[0]


def answers(count: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield names of programs and broken answers, the same ones each time."""
    chance = random.Random(seed)
    names = [*ANSWERS]
    for _ in range(count):
        name = chance.choice(names)
        yield name, broken(ANSWERS[name].answer, chance)


def edited(plan: Plan, result: Result) -> Iterator[str]:
    """Yield the texts that fixes and comments would make of what a run has said."""
    found = findings(result, plan, plan.source, Settings())
    candidates = Candidates(Record("run", plan, result, tuple(found)), (), Settings())
    for finding in found:
        for fix in (*finding.fixes, *candidates.of(finding)):
            yield apply_edits(plan.source, fix.edits)
    yield f"{comment_text(plan, result)}\n{plan.source.text}"


@pytest.mark.parametrize("name", ANSWERS)
def test_a_real_answer_is_read_whole(name: str) -> None:
    result = Result.read(ANSWERS[name].answer)
    assert result.data == ANSWERS[name].answer


@pytest.mark.parametrize("text", DREADFUL, ids=range(len(DREADFUL)))
def test_a_dreadful_answer_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        Result.read(wire.decoded(text))


@pytest.mark.slow
def test_ten_thousand_broken_answers_are_read_or_refused() -> None:
    plans = {name: plan_of(known) for name, known in ANSWERS.items()}
    read = refused = 0
    for name, text in answers(IN_PROCESS):
        try:
            result = Result.read(wire.decoded(text))
        except Malformed:
            refused += 1
            continue
        read += 1
        for edit in edited(plans[name], result) if read % 8 == 0 else ():
            names = (getattr(node, "id", None) or getattr(node, "attr", None) for node in ast.walk(ast.parse(edit)))
            assert MARK not in names, text
        json.dumps(result.data, allow_nan=False).encode()
    assert read > 500
    assert refused > 5000


@pytest.mark.parametrize(
    "wanted",
    [f"float32 if {MARK} else torch.float32", f"float32, {MARK}()", "float99", "torch.float32", 7.5, {"a": 1}],
    ids=str,
)
def test_a_forged_dtype_is_no_answer(wanted: object) -> None:
    answer = json.loads(json.dumps(ANSWERS["made"].answer))
    answer["faults"][0]["facts"]["wanted"] = wanted
    with pytest.raises(Malformed, match=r"faults\[0\].facts.wanted"):
        Result.read(answer)


def test_the_true_dtype_makes_the_fix() -> None:
    known = ANSWERS["made"]
    assert any("dtype=torch.float32" in text for text in edited(plan_of(known), Result.read(known.answer)))


@pytest.mark.parametrize(
    "text",
    [f"1\n{MARK}()", f"1) # {MARK}", f"'''\n{MARK}'''", f"x.__class__.{MARK}", f"{MARK} = 1", "1)+(1", "", "(" * 5000],
    ids=range(8),
)
def test_a_forged_input_is_no_answer(text: str) -> None:
    answer = json.loads(json.dumps(ANSWERS["search"].answer))
    answer["search"]["inputs"][0]["text"] = text
    with pytest.raises(Malformed, match=r"search.inputs\[0\].text"):
        Result.read(answer)


@pytest.mark.parametrize("value", [f"'''\n{MARK}()\n'''", f"(1,\n{MARK})", f"float32 if {MARK} [2] on cpu"])
def test_a_forged_value_is_no_code_in_a_comment(value: str) -> None:
    known = ANSWERS["dtypes"]
    plan = plan_of(known)
    answer = {**known.answer, "inputs": [{"name": "x", "value": value, "source": "call"}]}
    said = comment_text(plan, Result.read(answer))
    assert len(said.splitlines()) == 1
    assert MARK not in {getattr(node, "id", None) for node in ast.walk(ast.parse(f"{said}\n{known.text}"))}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{}", "type of a message"),
        (b'{"type": "resurrect"}', "type of a message"),
        (b'{"type": "ready"}', "missing"),
        (b'{"type": "phase", "run": "r", "phase": "p", "more": 1}', "no such field"),
        (b'{"type": "result", "run": ["r"], "answer": ""}', "not text"),
        (f'{{"type": "log", "text": "x", "at": {LONG}}}'.encode(), "digits"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 200_000, "no JSON"),
    ],
    ids=range(8),
)
def test_a_message_that_is_none_is_refused(line: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        wire.message(line)


def test_a_long_text_is_cut_and_a_lone_surrogate_replaced() -> None:
    result = Result.read({"outcome": "passed", "notes": ["\ud800 alone", "n" * 1_000_000, *["more"] * 10_000]})
    assert result.notes[0] == "\ufffd alone"
    assert len(result.notes[1]) < 10_000
    assert len(result.notes) < 1000


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("/project/program.py", "failed"),
        ("/project/package/module.py", "failed"),
        ("/elsewhere/calls.py", "failed"),
        ("/etc/shadow", "error"),
        ("/project/../etc/shadow", "error"),
        ("etc/shadow", "error"),
        ("/projects/other.py", "error"),
    ],
)
async def test_a_place_is_in_a_file_of_the_project(path: str, outcome: str) -> None:
    known = {"path": "/project/program.py", "root": "/project", "elsewhere": {"path": "/elsewhere/calls.py"}}
    place = {"path": path, "line": 1}
    faults = [
        {"code": "DG907", "message": "m", "at": place},
        {"code": "DG907", "message": "m", "at": None, "related": [{"message": "see", "at": place}]},
    ]
    supervisor = Supervisor(Launch((sys.executable, str(FAKE)), "python3.99"))
    try:
        for fault in faults:
            raw = json.dumps({"outcome": "failed", "faults": [fault]})
            assert (await supervisor.run(Request({**known, "raw": raw}))).outcome == outcome
    finally:
        await supervisor.close()


async def test_hundreds_of_broken_answers_end_their_own_runs_alone() -> None:
    launch = Launch((sys.executable, str(FAKE)), "python3.99")
    states: list[State] = []
    supervisor = Supervisor(launch, states.append, limits=Limits(garbage=0))
    texts = [*DREADFUL, *(text for _, text in answers(THROUGH_PIPES, seed=1))]
    try:
        for text in texts:
            result = await supervisor.run(Request({"raw": text}))
            assert result.outcome == "error" or result.data["outcome"] in text
        assert (await supervisor.run(Request({}))).outcome == "passed"
        assert {state.name for state in states} <= {"starting", "ready", "busy"}
    finally:
        await supervisor.close()


class Request:
    """A request for the fake worker."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request

    def as_json(self) -> dict[str, Any]:
        return {"timeout": 30.0, **self.request}
