"""One run: prepares torch and the instruments, executes the plan, and gathers the result."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import sys
import time
from contextlib import nullcontext, suppress
from functools import partial
from itertools import islice
from types import CodeType
from typing import TYPE_CHECKING, Any, Callable

import torch

from drygrad.worker import adapt, allowance, errors, forgiving, further, graphs, inputs, outcomes, probe, pytest_run
from drygrad.worker.absent import Absences
from drygrad.worker.arriving import Call, Program
from drygrad.worker.elsewhere import CallFailed, Elsewhere
from drygrad.worker.hooks import Hooks
from drygrad.worker.instruments import all_instruments
from drygrad.worker.launching import Launch
from drygrad.worker.lines import Lines
from drygrad.worker.loops import Loops, Progress
from drygrad.worker.modules import folders_around, forget_shadowed
from drygrad.worker.namespace import Namespace, PackageError, WorkspaceFinder, give_source
from drygrad.worker.resolving import resolve, resolve_call
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.watch import watching

if TYPE_CHECKING:
    from drygrad.worker.forecast.tracing import Tracing

MAX_THREADS = 4

Give = Callable[[], "tuple[Any, list[inputs.Given]]"]
"""Gives the object that the target is called on, and its arguments."""


class Execution:
    """A run from its plan to its result."""

    def __init__(
        self,
        plan: dict[str, Any],
        tell: Callable[[str], None],
        show: Callable[[dict[str, Any]], None] = lambda result: None,
    ) -> None:
        self.plan = plan
        self.begun = time.monotonic()
        self.run = Run(plan, Lines(plan["path"], plan.get("root")))
        self.run.lines.give_source(plan["path"], plan["text"])
        self.progress = Progress(self.run)
        self._forecast = _forecast(plan, self.run)
        chosen = [self._forecast] if self._forecast else [kind(self.run) for kind in _chosen(plan)]
        self.instruments: list[Instrument] = [*chosen, self.progress]
        self.loops = Loops(self.run, self.progress)
        self.instruments += [self.loops.trail] if self.loops.trail else []
        self.hooks = Hooks(self.run, self.loops, self.instruments)
        self.launch = Launch(plan, self.run.note)
        self.absences = Absences(self.run)
        self.program: Program | None = None
        self._waiting: list[Instrument] = []
        """Those that hear of nothing until a program has come to the target."""
        self._gathered: dict[str, Any] | None = None
        """The result, where a program is still to be ended."""
        if plan.get("program"):
            self.program = Program(plan, self.run, self.hooks, self.launch.tests, self._in_program)
            self._waiting, self.instruments[:] = [*self.instruments], [self.progress]
        self._code: CodeType | None = None
        """The code that the program has called, where one gives the inputs."""
        self.backward = "none"
        self.tell = tell
        self._show = show
        """Hears what is known by now, where the answer takes its time."""
        self._trains = False
        """Whether the target is the forward of a module that is being trained: its caller goes backward from there."""
        self._forgiven: str | None = None
        """How a run ends that went on behind an error."""
        self._called: Place | None = None
        """Where the target begins, once it was called."""

    def result(self) -> dict[str, Any]:
        """Execute the plan; return the result, whatever the user's code does short of ending the process."""
        outcome = self._outcome()
        return self._gathered or self.gather(outcome)

    def _outcome(self) -> str:
        try:
            self.prepare()
            program = self.program
            namespace = program.namespace(self.absences) if program else Namespace(self.plan, self.absences)
            self.launch.read(namespace.tree)
        except SyntaxError as error:
            return self._unreadable(error)
        except CallFailed as error:
            self.run.because(str(error))
            return "no-inputs"
        return self._end_of(lambda: self._watched(namespace))

    def _watched(self, namespace: Namespace) -> None:
        self._begin_to_listen()
        with self._forecast.virtually() if self._forecast else nullcontext(), watching(self.run, self.instruments):
            self._execute(namespace)

    def _begin_to_listen(self) -> None:
        for instrument in self.instruments:
            instrument.start()
        if self.plan.get("forgive") and (self.program is None or self.program.is_over):
            self.run.forgive = forgiving.Forgiving(self.run, self._behind)

    def _end_of(self, work: Callable[[], None]) -> str:
        """Return how the run of the user's code ends."""
        try:
            work()
        except SystemExit as error:
            if error.code in (None, 0):
                return self._ended_itself()
            return errors.settle(self.run, self.instruments, error)
        except inputs.InputError as error:
            return self._cannot_begin(error, f"the input {error.name} cannot be created: ")
        except PackageError as error:
            start = Place(self.plan["path"], 1)
            return self._cannot_begin(error, f"the package `{error.package}` cannot be imported: ", start)
        except (CallFailed, pytest_run.NothingRan) as error:
            self.run.because(str(error))
            return "no-inputs"
        except BaseException as error:
            if self._called is None and self.run.lines.place_of_error(error) is None:
                raise
            if self._forgiven is not None:
                return self._forgiven
            return errors.settle(self.run, self.instruments, error, self._called)
        return self._forgiven or "passed"

    def _behind(self, error: RuntimeError) -> None:
        """Tell of an error behind which the run goes on: the first is what it ends with."""
        if self._forgiven is None:
            self._forgiven = errors.settle(self.run, self.instruments, error, self._called)
            return
        place = self.run.lines.place_of_error(error)
        fault = errors.explained(self.instruments, error, place)
        if fault is not None:
            fault.facts["behind"] = True
            self.run.report(fault, error)

    def _ended_itself(self) -> str:
        """Return the outcome of a program that ended itself: a function that it did not come to has not run."""
        if self.plan.get("target") is None or self._called is not None:
            return "passed"
        self.run.because("the program exits before it reaches the call")
        return "no-inputs"

    def _unreadable(self, error: SyntaxError) -> str:
        place = Place(self.plan["path"], error.lineno or 1, (error.offset or 1) - 1)
        self.run.report(Fault("DG907", f"{type(error).__name__}: {error.msg}", place))
        return "failed"

    def _cannot_begin(self, error: Exception, what: str, otherwise: Place | None = None) -> str:
        """Report why an input or a package cannot be had, at its line or else at another place."""
        cause = error.__cause__
        assert cause is not None
        outcome = errors.outcome_of(cause, self.run)
        if outcome in ("unsupported", "blocked", "missing-package", "no-inputs"):
            return errors.settle(self.run, self.instruments, cause)
        place = self.run.lines.place_of_error(cause) or otherwise
        self.run.result["error"] = errors.described(self.run, cause, place)
        fault = errors.explained(self.instruments, cause, place)
        self.run.report(fault or errors.user_error(cause, place, what))
        return outcome

    def prepare(self) -> None:
        """Set this process up for the user's code: where modules are found, seeds, threads, what torch may do."""
        plan = self.plan
        root = plan.get("root") or os.path.dirname(plan["path"])
        own_path = [str(entry) for entry in plan.get("sys_path") or ()]
        forget_shadowed(own_path)
        sys.path[:0] = own_path
        program = self.program
        buffers: dict[str, str] = {**(plan.get("buffers") or {}), plan["path"]: plan["text"]}
        around = folders_around(plan["path"], root)
        finder = WorkspaceFinder(self.run.lines, buffers, self.launch.read, self.absences, around)
        self.hooks.tells_elsewhere = plan.get("compare") is True or program is not None
        finder.observed = plan["path"] if program else None
        sys.meta_path.insert(0, finder)
        give_source(plan["path"], plan["text"])
        self.launch.enter(root)
        if self.launch.world > 1:
            self.run.world = self.launch.world
            self.launch.become(0, self.launch.world, begin=False)
        forks = plan.get("experiments") or (program is not None and program.is_tried)
        torch.set_num_threads(1 if forks else min(MAX_THREADS, torch.get_num_threads()))
        seed_all(int(plan.get("seed") or 0))
        adapt.adapt(self.run, self.loops)
        self.launch.install()
        self.absences.install()
        self.hooks.install()

    def _execute(self, namespace: Namespace) -> None:
        asked: dict[str, Any] = self.plan.get("experiments") or {}
        if asked.get("ranks"):
            from drygrad.worker.ranks import conducting  # most runs are alone

            conducting.conduct(self, partial(self._as_rank, namespace))
            others = self.plan.get("target") is not None and [*asked["codes"]] != [conducting.CODE]
            if not others and not self.plan.get("compare"):
                return
        self._execute_alone(namespace)

    def _as_rank(self, namespace: Namespace) -> None:
        """Do all of it in the process of a rank, which has executed nothing yet."""
        self.plan["experiments"], self.tell = None, _say_nothing
        self._execute_alone(namespace)

    def _execute_alone(self, namespace: Namespace) -> None:
        target, setup = self.plan.get("target"), self.plan.get("setup")
        specs: list[dict[str, Any]] = self.plan.get("arguments") or []
        self.tell(allowance.IMPORTING)
        if self.program is not None:
            self.program.run_until_called(namespace)
            return
        namespace.import_parent()
        if target is None and specs:
            self.tell("inputs")
            values = inputs.evaluate(namespace, specs)
            self.run.result["inputs"] = inputs.described(None, values)
            namespace.names.update({spec["name"]: value for spec, value in values if spec.get("name")})
        if target is None:
            self.run.tell("begins", namespace.names, {})
            self.tell("target")
        if self.launch.tests is not None and target is None:
            pytest_run.run(self.run, self.launch.tests)
        elif setup is None:
            namespace.execute_all()
        else:
            namespace.execute(setup)
        if target is not None:
            self._call(namespace, target, specs)

    def _call(self, namespace: Namespace, target: str, specs: list[dict[str, Any]]) -> None:
        other = Elsewhere(self.plan, self.run, self.absences) if self.plan.get("elsewhere") else None
        giving = other.held(other.namespace) if other else namespace
        with namespace.contexts, giving.contexts:
            given = partial(self._given, giving, specs)
            give = partial(other.held, given) if other else given
            returned = self._carried_out(namespace.names, target, give)
        self._follow(returned)

    def _in_program(self, call: Call) -> None:
        """Call the target where the program of the plan has come to it; its own run begins and ends there."""
        self.run.imports.add(call.seconds)
        self.tell(allowance.IMPORTING)
        self.instruments[:] = self._waiting
        self._begin_to_listen()
        self.run.listen(self.instruments)
        self._code = call.code
        outcome = self._end_of(lambda: self._follow(self._called_by(call)))
        self._gathered = self.gather(outcome)
        self.run.listen([])

    def _called_by(self, call: Call) -> Any:
        with torch.enable_grad() if call.is_applied else nullcontext():
            return self._carried_out(call.names, str(self.plan["target"]), call.give)

    def _carried_out(self, names: dict[str, Any], target: str, give: Give) -> Any:
        """Return what the target returns; nothing where only experiments are made with it."""
        if self.plan.get("experiments"):
            self._experiment(names, target, give)
            if not self.plan.get("compare"):
                return None
        return self._returned(names, target, give)

    def _follow(self, returned: Any) -> None:
        """Go backward from what the target has returned, as its caller would."""
        if not self.plan.get("backward_probe", True):
            return
        if self.backward == "none":
            self._probe(returned)
        elif self._trains:
            self._probe_again(returned)

    def resolved(self, names: dict[str, Any], target: str, owner: Any) -> Callable[..., Any]:
        """Return what to call: what is known by the target's name, on its object."""
        return resolve_call(names, target, owner, self._code) if self._code else resolve(names, target, owner)

    def _experiment(self, names: dict[str, Any], target: str, give: Give) -> None:
        """Try the relations that the plan names, each in a fork of this process, which has called nothing yet."""
        from drygrad.worker.experiments import conducting  # most runs have none

        conducting.conduct(conducting.Bench(self, names, target, give), self.tell, self._so_far)

    def _so_far(self) -> None:
        if not self.plan.get("compare"):
            self._show(self.snapshot("passed"))

    def _given(self, namespace: Namespace, specs: list[dict[str, Any]]) -> tuple[Any, list[inputs.Given]]:
        """Return the receiver and the arguments."""
        caller = self.plan.get("through")
        if caller is not None:
            return self._passed_on(namespace, caller)
        return self._evaluated(namespace, self.plan.get("receiver"), specs)

    def _evaluated(
        self, namespace: Namespace, receiver: dict[str, Any] | None, specs: list[dict[str, Any]]
    ) -> tuple[Any, list[inputs.Given]]:
        earlier: dict[str, Any] = {}
        owner = inputs.evaluate_one(namespace, {"name": "self", **receiver}, earlier) if receiver else None
        earlier |= {str(receiver["name"]): owner} if receiver and receiver.get("name") else {}
        return owner, inputs.evaluate(namespace, specs, earlier)

    def _passed_on(self, namespace: Namespace, caller: dict[str, Any]) -> tuple[Any, list[inputs.Given]]:
        """Return what another function passes on to the target; what happens on the way there is not told."""
        from drygrad.worker.search import through  # most runs search nothing

        owner, values = self._evaluated(namespace, caller["receiver"], caller["arguments"])
        function = resolve(namespace.names, caller["target"], owner)
        positional, named = inputs.arguments(values)
        seed_all(int(self.plan.get("seed") or 0))
        code = through.wanted(namespace.names, str(self.plan["target"]))
        known = len(self.run.faults)
        try:
            with self.hooks.unnoticed():
                reached = through.passed_on(lambda: finish(function(*positional, **named), self.loops.limit), code)
        except Exception as error:
            raise CallFailed(f"`{caller['target']}` does not reach the target: {errors.first_line(error)}") from error
        del self.run.faults[known:]
        namespace.contexts.enter_context(torch.set_grad_enabled(reached.grad))
        return through.given_by(reached.given, reached.code, self.plan.get("method_of"), self._passing()["source"])

    def _passing(self) -> dict[str, str]:
        """Return what is said of inputs that another function, or a program, passes on."""
        if self.program is not None:
            return {"source": self.program.source}
        caller = self.plan.get("through")
        return {"source": f"search, passed on by `{caller['target']}`"} if caller is not None else {}

    def _returned(self, names: dict[str, Any], target: str, given: Give) -> Any:
        self.tell("inputs")
        receiver = self.plan.get("receiver")
        owner, values = given()
        function = self.resolved(names, target, owner)
        own: dict[str, Any] = {**self._passing(), **(receiver or {}), "name": "self"}
        told = [(own, owner)] if receiver or owner is not None else []
        described = self.run.result["inputs"] = inputs.described(function, [*told, *values])
        given_values = [owner, *(value for _, value in values)] if told else [value for _, value in values]
        self.run.tell("begins", names, {d["name"]: v for d, v in zip(described, given_values)})
        positional, named = inputs.arguments(values)
        del values, given_values
        before = self.progress.backwards
        self._called = self._beginning(function)
        self._trains = isinstance(function, torch.nn.Module) and all(part.training for part in function.modules())
        self.tell("target")
        returned = self._from_call(function, positional, named)
        line = self.hooks.last_return
        self.run.returned_at = Place(self.plan["path"], line) if line else self._called
        self.run.tell("returned", returned, self.run.returned_at)
        if self.progress.backwards > before:
            self.backward = "target"
        if self.plan.get("further"):
            return self._further(function, positional, named, returned)
        return returned

    def _from_call(self, function: Callable[..., Any], positional: list[Any], named: dict[str, Any]) -> Any:
        """Return what the call gives. Raises CallFailed where the target takes other arguments and is not entered."""
        try:
            return finish(function(*positional, **named), self.loops.limit)
        except TypeError as error:
            if inputs.fit(function, positional, named) or inputs.has_begun(function, error):
                raise
            self._called = None
            why = errors.shortened(errors.first_line(error))
            raise CallFailed(f"the call does not fit `{self.plan['target']}`: {why}") from error

    def _further(
        self, function: Callable[..., Any], positional: list[Any], named: dict[str, Any], returned: Any
    ) -> Any:
        """Go on after the call; return what a backward pass may begin from."""
        further.go_on(lambda: finish(function(*positional, **named), self.loops.limit), returned)
        if self.backward != "none" or probe.outputs(returned):
            return returned
        with suppress(Exception):  # whether it can be given what requires grad is not asked
            return function(*map(further.with_gradient, positional), **further.with_gradients(named))
        return returned

    def _beginning(self, function: Callable[..., Any]) -> Place:
        code = inputs.code_of(function)
        return Place(self.plan["path"], code.co_firstlineno if code is not None else 1)

    def _probe(self, returned: Any) -> None:
        roots = probe.outputs(returned)
        if roots:
            self.tell("backward")
            self.backward = "probe" if self.backward == "none" else self.backward
            self.run.probing = True
            try:
                probe.backward(roots, int(self.plan.get("seed") or 0), without_memory=self._forecast is not None)
            except RuntimeError as error:
                # The target has freed no graph: who calls it did, and goes backward no more.
                if self.backward != "probe" or graphs.SECOND not in str(error):
                    raise
            finally:
                self.run.probing = False

    def _probe_again(self, returned: Any) -> None:
        """Go backward from what a module returns that ran a backward pass itself; what fails there is no error yet.

        One that returns the loss it went backward from makes the whole step: nobody goes backward from there.
        """
        if any(node._sequence_nr() in self.progress.begun for node in graphs.nodes(probe.outputs(returned))):
            return
        try:
            self._probe(returned)
        except RuntimeError as error:
            fault = errors.explained(self.instruments, error, self._called)
            if fault is not None:
                fault.severity = "warning"
                self.run.report(fault)

    def gather(self, outcome: str) -> dict[str, Any]:
        """Return the result as it stands; also from another thread while the target still runs."""
        self.run.judge(outcome)
        if self.progress.backwards and self.backward == "none":
            self.backward = "target"
        for instrument in self.instruments:
            try:
                instrument.finish()
            except Exception as error:  # noqa: BLE001 - the other instruments' findings are worth more
                self.run.failed(instrument, error, "failed")
        return self.snapshot(outcome)

    def snapshot(self, outcome: str) -> dict[str, Any]:
        """Return what is known now, without asking the instruments for more."""
        return {
            **outcomes.base_result(self.plan),
            **self.run.result,
            "outcome": outcome,
            "seconds": round(time.monotonic() - self.begun, 4),
            "import_seconds": round(self.run.imports.seconds, 4),
            "skipped": self.program.skipped if self.program else 0,
            "way_seconds": round(self.program.seconds if self.program else 0.0, 4),
            "faults": [fault.as_json() for fault in list(self.run.faults)],
            "called": self._called is not None,
            "blocks": sorted(self.hooks.blocks),
            "blocks_elsewhere": self.hooks.elsewhere(),
            "backward": self.backward,
            "notes": list(self.run.notes),
            "instrument_failures": list(self.run.failures),
        }


def _chosen(plan: dict[str, Any]) -> list[type[Instrument]]:
    """Return the instruments that a plan asks for."""
    wanted, compares = plan.get("instruments"), plan.get("compare") is True
    kinds = all_instruments().items()
    return [k for name, k in kinds if (wanted is None or name in wanted) and (compares or not k.only_to_compare)]


def _forecast(plan: dict[str, Any], run: Run) -> Tracing | None:
    """Return what follows a program without memory, where that is asked for."""
    if not plan.get("forecast"):
        return None
    from drygrad.worker.forecast.tracing import Tracing  # most runs compute

    return Tracing(run)


def _say_nothing(phase: str) -> None:
    pass


def seed_all(seed: int) -> None:
    """Seed every generator that is there."""
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def finish(returned: Any, limit: int) -> Any:
    """Run what a call has only begun: the first elements of a generator, a coroutine to its end."""
    if inspect.isgenerator(returned):
        return list(islice(returned, limit))
    if inspect.iscoroutine(returned):
        return asyncio.run(returned)
    if inspect.isasyncgen(returned):
        return asyncio.run(_first(returned, limit))
    return returned


async def _first(elements: Any, limit: int) -> list[Any]:
    found: list[Any] = []
    async for element in elements:
        found.append(element)
        if len(found) >= limit:
            break
    return found
