"""Completes a plan whose inputs are open: searches them, and says of the result what that means."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Callable

import torch

from drygrad.worker import devices, inputs
from drygrad.worker.errors import described
from drygrad.worker.execute import Execution, finish, seed_all
from drygrad.worker.namespace import Namespace
from drygrad.worker.resolving import resolve
from drygrad.worker.search import isolated, moving, reaching, seeking, through
from drygrad.worker.search.nodes import Node, read, text_of
from drygrad.worker.search.trial import Steps, Trials
from drygrad.worker.watch import watching

SECONDS = 2.0
_SEARCH, _STAND_IN = "search", "stand-in"
_MOST_REASONS = 3
_THROUGH = 1.0
"""Seconds for the search of the inputs of each function that could call the target."""
_REPAIR = 0.5
"""Seconds for what comes by the lines that are wanted, and fails there, to be repaired."""


def fill(plan: dict[str, Any], beat: Callable[[], None]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the plan with every input given, and the answer of the search; None where nothing was open.

    ``beat`` is called now and then while the search imports what it needs.
    """
    wanted = plan.get("search")
    if not wanted:
        return plan, None
    seconds = float(wanted.get("seconds") or SECONDS)
    start = read(wanted["inputs"])
    more = _THROUGH * len(wanted.get("through") or ()) + (seconds if _spared(start) is not None else 0.0)
    answer: dict[str, Any] | None = isolated.apart(
        lambda tell: _answer(plan, start, seconds, tell), seconds + more, beat
    )
    if answer is None:
        answer = {**_written(start), "found": False, "why": "the search did not finish"}
    receiver, arguments = answer.pop("receiver"), answer.pop("arguments")
    if "through" in answer:
        caller = {"target": answer["through"], "receiver": receiver, "arguments": arguments}
        return {**plan, "through": caller}, {**answer, "inputs": []}
    answer["inputs"] = [*([receiver] if receiver else []), *arguments]
    return {**plan, "receiver": receiver, "arguments": arguments}, answer


def settle(result: dict[str, Any], answer: dict[str, Any] | None) -> None:
    """Add what the search says to the result of the run; one that failed for want of inputs says so."""
    if answer is None:
        return
    result["search"] = answer
    if not answer["found"] and not answer.get("independent") and result["outcome"] == "failed":
        result["outcome"] = "no-inputs"


def _answer(plan: dict[str, Any], start: Node, seconds: float, tell: isolated.Tell) -> dict[str, Any]:
    begun = time.monotonic()
    devices.enter(plan)
    torch.set_num_threads(1)
    execution = Execution({**plan, "instruments": []}, lambda _: None)
    steps = Steps(execution.run)
    execution.instruments.append(steps)
    execution.prepare()
    namespace = Namespace(plan, execution.absences)
    with watching(execution.run, execution.instruments):
        try:
            namespace.import_parent()
            namespace.execute(plan.get("setup") or [])
        except Exception as error:  # noqa: BLE001 - the run itself will meet it again and report it
            why = f"{type(error).__name__}: {error}"[:200]
            return {**_written(start), "found": False, "why": why, "independent": True}
        begun = time.monotonic()
        tell({"begun": True})
        seeker = _Seeker(execution, namespace, steps, tell)
        found = seeker.found(start, seconds)
        spared = _spared(start)
        if spared is not None and found.failure is not None and (found.failure.building or ())[:1] == (start.text,):
            found = seeker.spared(found, spared, seconds)
        if plan["search"].get("uncovered"):
            return {**_said(seeker.reaching(found, seconds), execution), "seconds": round(time.monotonic() - begun, 3)}
        said = _said(found, execution)
        if not said["found"] and not said["independent"]:
            said = seeker.through(plan["search"].get("through") or []) or said
    return {**said, "seconds": round(time.monotonic() - begun, 3)}


def _spared(start: Node) -> Node | None:
    """Return what a search begins with where the receiver cannot be made."""
    receiver = start.part(start.text)
    return start.with_part(start.text, receiver.spare[0]) if receiver is not None and receiver.spare else None


class _Seeker:
    """The searches of one target."""

    def __init__(self, execution: Execution, namespace: Namespace, steps: Steps, tell: isolated.Tell) -> None:
        self._execution = execution
        self._namespace = namespace
        self._steps = steps
        self._tell = tell
        self._search: seeking.Search | None = None

    def found(self, start: Node, seconds: float) -> seeking.Found:
        """Return what a search of the target's own inputs comes to."""
        return self._searched(start, seconds, self._target, self._better)

    def _target(self, owner: Any, named: dict[str, Any]) -> None:
        self._call(str(self._execution.plan["target"]), owner, named)

    def spared(self, found: seeking.Found, spared: Node, seconds: float) -> seeking.Found:
        """Return what is found with a receiver that is made without its constructor; else what was found before."""
        other = self._searched(spared, seconds, self._target, lambda _: None)
        is_own = other.failure is None or other.is_moved
        return replace(other, trials=found.trials + other.trials) if is_own and other.is_over else found

    def reaching(self, found: seeking.Found, seconds: float) -> seeking.Found:
        """Return inputs near those that were found which come by lines that earlier runs have left out."""
        if found.failure is not None or self._search is None:
            return replace(found, is_over=False)
        until, search = time.process_time() + seconds, self._search

        def repaired(node: Node) -> Node | None:
            own = seeking.Search(search.trials, time.process_time() + _REPAIR, lambda _: None, settles=False)
            better = _bounded(own, node, _REPAIR)
            return better.proposal if better.failure is None and better.is_over else None

        wanted = frozenset(self._execution.plan["search"]["uncovered"])
        blocks = self._execution.hooks.blocks
        isolated.alarm(seconds * isolated.WAITING)
        try:
            other = reaching.reaching(moving.on_cpu(found.proposal), search.trials, blocks, wanted, until, repaired)
            return replace(found, is_over=False) if other is None else search.settled(other)
        except isolated.Overdue:
            return replace(found, is_over=False)
        finally:
            isolated.alarm(0)

    def through(self, callers: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return how to call one of several functions so that it calls the target; None where none does."""
        code = through.code_of(self._namespace.names, str(self._execution.plan["target"]))
        for caller in callers if code is not None else ():
            name = str(caller["target"])

            def reach(owner: Any, named: dict[str, Any], name: str = name, code: Any = code) -> None:
                reached = through.passed_on(lambda: self._call(name, owner, named), code)
                with torch.set_grad_enabled(reached.grad):
                    self._go_on(reached)

            found = self._searched(read(caller["inputs"]), _THROUGH, reach, lambda _: None, settles=False)
            if found.failure is None and found.is_over:
                return {**_said(found, self._execution), "through": name}
        return None

    def _call(self, name: str, owner: Any, named: dict[str, Any]) -> None:
        seed_all(int(self._execution.plan.get("seed") or 0))
        function = resolve(self._namespace.names, name, owner)
        finish(function(**named), self._execution.loops.limit)

    def _go_on(self, reached: through.Reached) -> None:
        """Call the target with what was passed on to it."""
        plan = self._execution.plan
        owner, values = through.given_by(reached.given, reached.code, plan.get("method_of"), "")
        function = resolve(self._namespace.names, str(plan["target"]), owner)
        positional, named = inputs.arguments(values)
        finish(function(*positional, **named), self._execution.loops.limit)

    def _better(self, found: seeking.Found) -> None:
        self._tell(_said(found, self._execution))

    def _searched(
        self,
        start: Node,
        seconds: float,
        call: Callable[[Any, dict[str, Any]], None],
        better: Callable[[seeking.Found], None],
        settles: bool = True,
    ) -> seeking.Found:
        trials = Trials(self._namespace, call, self._steps)
        search = self._search = seeking.Search(trials, time.process_time() + seconds, better, settles=settles)
        return _bounded(search, start, seconds)


def _bounded(search: seeking.Search, start: Node, seconds: float) -> seeking.Found:
    try:
        isolated.alarm(seconds * isolated.WAITING)
        return search.run(start)
    except isolated.Overdue:
        return search.best or seeking.Found(start, None, search.made, is_over=False)
    finally:
        isolated.alarm(0)


def _said(found: seeking.Found, execution: Execution) -> dict[str, Any]:
    answer = {
        **_written(found.proposal),
        "found": found.failure is None and found.is_over,
        "why": seeking.said(found),
        "independent": found.is_independent,
        "assumes": found.assumption,
        "trials": found.trials,
    }
    if found.failure is not None:
        place = execution.run.lines.place_of_error(found.failure.error)
        answer["error"] = described(execution.run, found.failure.error, place)
        answer["building"] = list(found.failure.building or ())
    return answer


def _written(proposal: Node) -> dict[str, Any]:
    """Return the receiver and the arguments as a plan has them."""
    specs = [
        {"name": name, "star": "", "text": text_of(node), "line": None, "column": None, "source": source_of(node)}
        for name, node in proposal.parts
    ]
    receiver = next((spec for spec in specs if spec["name"] == proposal.text), None)
    return {"receiver": receiver, "arguments": [spec for spec in specs if spec is not receiver]}


def source_of(node: Node) -> str:
    """Return where an input comes from, in words: ``search: Conv2d wants 3 channels``."""
    leaves = [leaf for _, leaf in node.leaves()]
    reasons = [why for why in dict.fromkeys((node.why, *(leaf.why for leaf in leaves))) if why]
    within = {*(leaf.source for leaf in leaves), *([_SEARCH] if reasons else [])}
    source = ", ".join(dict.fromkeys((node.source, *(kind for kind in (_SEARCH, _STAND_IN) if kind in within))))
    return f"{source}: {', '.join(reasons[:_MOST_REASONS])}" if reasons else source
