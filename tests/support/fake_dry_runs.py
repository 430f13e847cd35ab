"""Dry runs without torch or processes, so that the server can be tested apart from them.

What a function calls decides how its run ends: ``fault()`` is a DG102 on its line, ``leak()`` of the small analyzer is
confirmed, unless ``harmless()`` stands in the same function, which refutes it; ``hang()`` never ends, ``unknown()`` has
no inputs, ``no_torch()`` no interpreter, ``note()`` is logged. Each assignment of ``tensor()`` was seen.
"""

from __future__ import annotations

import ast
import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drygrad.dryrun.result import Input, Outcome, Result, Shape, Tried
from drygrad.lsp.dry_run_service import RunSettings, Seen, Target, WorkerState
from drygrad.lsp.forecasted import Forecasted
from drygrad.model import Edit, Finding, Fix, Position, Related, Span
from drygrad.static.source import Source

log = logging.getLogger("drygrad.fake")


@dataclass(frozen=True)
class FakeTarget:
    qualname: str | None
    span: Span
    name_span: Span
    node: ast.stmt


@dataclass(frozen=True)
class FakeSeen:
    run_id: str
    text: str
    line: int
    result: Result
    findings: tuple[Finding, ...]
    files: frozenset[Path] = frozenset()
    elsewhere: tuple[Finding, ...] = ()


class FakeDryRuns:
    """The service."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []
        self._state = WorkerState("stopped")
        self._count = 0

    def targets(self, source: Source) -> Sequence[FakeTarget]:
        return list(_targets(source))

    def target_at(self, source: Source, position: Position) -> FakeTarget | None:
        return next((t for t in _targets(source) if t.span.start.line <= position.line <= t.span.end.line), None)

    def applied(self, seen: Seen, source: Source) -> FakeSeen | None:
        assert isinstance(seen, FakeSeen)
        target = next((t for t in _targets(source) if source.slice(t.span) == seen.text), None)
        if target is None:
            return None
        down = target.span.start.line - seen.line
        lines = frozenset(line + down for line in seen.result.blocks)
        result = replace(seen.result, blocks=lines)
        return replace(
            seen, line=target.span.start.line, result=result, findings=tuple(f.shifted(down) for f in seen.findings)
        )

    def inputs_edit(self, seen: Seen, source: Source) -> Edit | None:
        assert isinstance(seen, FakeSeen)
        given = ", ".join(f"{i.name}={i.value}" for i in seen.result.inputs)
        return Edit(Span.of(seen.line, 0, seen.line, 0), f"# dry-run: {given}\n") if given else None

    def written_inputs(self, source: Source, qualname: str | None, inputs: str, number: int) -> Edit | str:
        if inputs.endswith("("):
            return "their brackets do not balance"
        target = next(t for t in _targets(source) if t.qualname == qualname)
        line = target.span.start.line
        return Edit(Span.of(line, 0, line, 0), f"# dry-run: {inputs} # {number}\n")

    def merge(
        self, static: Sequence[Finding], seen: Sequence[Seen], source: Source, others: Sequence[Finding] = ()
    ) -> tuple[Finding, ...]:
        found = {(f.code, f.span.start.line): f for run in seen for f in run.findings}
        harmless = {line for run in seen if "harmless" in run.result.notes for line in run.result.blocks}
        kept = [f for f in static if (f.code, f.span.start.line) not in found and f.span.start.line not in harmless]
        return tuple(sorted([*kept, *found.values()], key=lambda f: f.span))

    def expect(self, how: RunSettings) -> None:
        self._change(WorkerState("ready", interpreter=str(how.interpreter)))

    async def dry_run(
        self, source: Source, path: Path, target: Target, how: RunSettings, on_phase: Callable[[str], None]
    ) -> Sequence[Seen]:
        self._count += 1
        self._change(WorkerState("ready", torch="2.9.0", interpreter=str(how.interpreter), devices=("sim", "cpu")))
        on_phase("target")
        text = source.slice(target.span)
        if "note()" in text:
            log.debug("a note")
        if "hang()" in text:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return [_seen(f"record-{self._count}", source, target, how)]

    async def experiment(
        self, seen: Seen, how: RunSettings, on_phase: Callable[[str], None], on_more: Callable[[Seen], None]
    ) -> FakeSeen:
        """What calls ``later()`` breaks a relation there, and holds another, which never ends with ``endless()``."""
        assert isinstance(seen, FakeSeen)
        await asyncio.sleep(0)
        if "later()" not in seen.text or not how.experiment_time:
            return seen
        line = seen.line + seen.text[: seen.text.index("later()")].count("\n")
        found = Finding("DG921", "devices-differ", "later", "warning", Span.of(line, 4, line, 11), run=seen.run_id)
        broken, held = Tried("DG921", "devices are equal", "broken"), Tried("DG925", "evaluation repeats", "held")
        on_phase("experiments: devices are equal, 1 of 2")
        more = replace(seen, findings=(*seen.findings, found), result=replace(seen.result, tried=(broken,)))
        on_more(more)
        on_phase("experiments: evaluation repeats, 2 of 2")
        if "endless()" in seen.text:
            await asyncio.Event().wait()
        return replace(more, result=replace(seen.result, tried=(broken, held)))

    async def vary(self, seen: Seen, how: RunSettings) -> Sequence[Seen]:
        """No option is left."""
        await asyncio.sleep(0)
        return ()

    async def verify(self, seen: Seen, source: Source, how: RunSettings) -> FakeSeen:
        """Every fix holds."""
        assert isinstance(seen, FakeSeen)
        await asyncio.sleep(0)
        held = (replace(f, fixes=tuple(replace(fix, verified=True) for fix in f.fixes)) for f in seen.findings)
        return replace(seen, findings=tuple(held))

    async def forecast(
        self, source: Source, path: Path, target: Target, how: RunSettings, on_phase: Callable[[str], None]
    ) -> Forecasted:
        """Nothing is traced; ``hang()`` never ends."""
        on_phase("target")
        if "hang()" in source.slice(target.span):
            await asyncio.Event().wait()
        return Forecasted("", path, Result("no-inputs", device="sim"), why=f"nothing is traced for {how.gpu}")

    async def what_if(self, forecast: Forecasted, how: RunSettings, on_phase: Callable[[str], None]) -> Forecasted:
        return forecast

    def forecast_applied(self, forecast: Forecasted, source: Source) -> Forecasted | None:
        return None

    def run_json(self, seen: Seen) -> dict[str, Any]:
        tried = [one.as_json() for one in seen.result.tried]
        return {"id": seen.run_id, "outcome": seen.result.outcome, "experiments": tried}

    @property
    def state(self) -> WorkerState:
        return self._state

    def on_state(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def restart(self) -> None:
        self._change(replace(self._state, name="starting"))

    def _change(self, state: WorkerState) -> None:
        self._state = state
        for listener in self._listeners:
            listener()


def _targets(source: Source) -> Iterator[FakeTarget]:
    for node in source.parse().body:
        if isinstance(node, ast.FunctionDef):
            yield FakeTarget(node.name, source.span(node), source.span(node), node)
        elif isinstance(node, ast.If):
            yield FakeTarget(None, source.span(node), source.span(node), node)


def _seen(run_id: str, source: Source, target: Target, how: RunSettings) -> FakeSeen:
    node = next(t.node for t in _targets(source) if t.qualname == target.qualname)
    text = source.slice(target.span)
    outcome: Outcome = "passed"
    notes = [
        *(["harmless"] if "harmless()" in text else []),
        *(f"buffer {p.name}: {t}" for p, t in how.buffers.items()),
    ]
    findings = tuple(_findings(run_id, source, node))
    if findings:
        outcome = "failed"
    if "unknown()" in text or "garbled()" in text:
        outcome = "no-inputs"
    if "no_torch()" in text:
        outcome, notes = "error", [f"no usable torch in {how.interpreter}"]
    shapes = tuple(_shapes(node))
    result = Result(
        outcome,
        device="sim" if how.device == "auto" else how.device,
        seconds=0.12,
        inputs=(Input("x", "float32 [8, 10] on cuda:0", "the call in line 9"),),
        shapes=shapes,
        blocks=frozenset(range(target.span.start.line, target.span.end.line + 1)),
        notes=tuple(notes),
        reason=next(iter(notes), None) if outcome != "passed" else None,
        data={"gradients": [{"name": "fc.weight", "norm": 0.5, "shape": [1]}]},
    )
    return FakeSeen(run_id, text, target.span.start.line, result, findings)


def _findings(run_id: str, source: Source, node: ast.stmt) -> Iterator[Finding]:
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    names = {source.segment(call.func) for call in calls}
    codes = {
        "fault": "DG102",
        **({} if "harmless" in names else {"leak": "DG101"}),
        "unknown": "DG901",
        "garbled": "DG901",
    }
    for call in calls:
        name = source.segment(call.func)
        if name in codes:
            above = Span.of(node.lineno - 1, 0, node.lineno - 1, 1)
            span = above if name == "garbled" else source.span(call)
            yield Finding(
                codes[name],
                f"{name}-found",
                f"{name} happened: target[2] = 5 is outside [0, 5)",
                "error",
                span,
                related=(Related("it begins here", source.span(node)),) if name != "leak" else (),
                fixes=(Fix("Mend it", (Edit(source.span(call.func), "mended"),), "safe"),),
                witness="dry-run",
                status="confirmed",
                run=run_id,
            )


def _shapes(node: ast.stmt) -> Iterator[Shape]:
    for n in ast.walk(node):
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call) and isinstance(n.targets[0], ast.Name):
            yield Shape(n.lineno, n.targets[0].id, (8, 10), "float32", "cuda:0", -1.5, 2.0, True)
