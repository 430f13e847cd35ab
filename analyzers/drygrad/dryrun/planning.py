"""From a target to its runs: where its inputs come from, and the statements that must run before it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drygrad.dryrun.inputs.arguments import (
    Argument,
    Problem,
    listed,
    missing_parameters,
    told_defaults,
    unknown_argument,
)
from drygrad.dryrun.inputs.call_site import Found, find_call, stands_alone
from drygrad.dryrun.inputs.callers import find_call_elsewhere
from drygrad.dryrun.inputs.classes import constructor_text, objects_of
from drygrad.dryrun.inputs.comment import comments_above, comments_of_script, read_flag
from drygrad.dryrun.inputs.docstrings import SOURCE as DOCSTRING
from drygrad.dryrun.inputs.docstrings import example_of
from drygrad.dryrun.inputs.neighbours import neighbours_of
from drygrad.dryrun.inputs.proposing import makes_objects, propose
from drygrad.dryrun.names import bound_names, needed_names
from drygrad.dryrun.plan import Elsewhere, Missing, Plan, RunOptions
from drygrad.dryrun.slicing import GIVEN, Bind, Imports, Step, backward_slice, bound_by_text, free_of_text, steps_before
from drygrad.dryrun.targets import Target
from drygrad.model import Span
from drygrad.static.source import Located, Source

LENT = frozenset(("torch", "types"))
"""Names that the text of an input may use though the file does not bind them."""
IPYTHONS = frozenset(("display", "get_ipython"))
"""Names that every cell of a notebook may use."""


def plan_runs(source: Source, path: Path, target: Target, options: RunOptions) -> list[Plan] | Missing:
    """Return the runs of a target: one for each comment above it, else the one that ``--inputs`` or a call gives."""
    planner = _Planner(source, path, target, options)
    return planner.script() if target.function is None else planner.function()


def gives_nothing(plans: list[Plan] | Missing) -> bool:
    """Say whether only a docstring or a search gives the inputs: a call in another file would be better."""
    if isinstance(plans, Missing):
        return bool(plans.names)
    return any(plan.proposal is not None or DOCSTRING in plan.input_sources for plan in plans)


def invents(plans: list[Plan] | Missing) -> bool:
    """Say whether at most a search gives the inputs: a program of the project that calls the target would be better.

    So it would for an object that is made for the run alone.
    """
    if isinstance(plans, Missing):
        return bool(plans.names)
    return any(plan.proposal is not None or _is_made_anew(plan) for plan in plans)


def _is_made_anew(plan: Plan) -> bool:
    return plan.receiver is not None and plan.receiver.source == "constructor"


def without(plan: Plan, options: RunOptions) -> RunOptions | None:
    """Return the options without what gives the inputs of a plan, and what came before it; None where none did."""
    if plan.elsewhere is not None:
        return replace(options, callers=options.callers[options.callers.index(plan.elsewhere.caller) + 1 :])
    if plan.program is not None:
        return replace(options, programs=options.programs[options.programs.index(plan.program) + 1 :])
    return None


class _Planner:
    def __init__(self, source: Source, path: Path, target: Target, options: RunOptions) -> None:
        self.source = source
        self.path = path.absolute()
        self.target = target
        self.options = options
        self.imports = Imports(source.tree)

    def script(self) -> list[Plan] | Missing:
        given = self._written(comments_of_script(self.source))
        if isinstance(given, Missing):
            return given
        lent = IPYTHONS if self.path.suffix == ".ipynb" else frozenset[str]()
        needed = [name for name in missing_names(self.source.tree) if name not in lent]
        plans: list[Plan] = []
        for arguments in given or [()]:
            missing = [name for name in needed if name not in {argument.name for argument in arguments}]
            if missing:
                what = "this name" if len(missing) == 1 else "these names"
                return self._missing(f"the script uses {listed(missing)}, but nothing in it defines {what}", missing)
            plans.append(self._plan(self._entered(), arguments, None))
        return plans

    def _entered(self) -> tuple[Step, ...] | None:
        """Return the steps of a program that begins with a call of a function of the file; None for the whole text."""
        launch = self.options.launch
        if launch is None or launch.kind != "function" or launch.file != self.path or not self.source.tree.body:
            return None
        call = f"{launch.program.rpartition(':')[2].strip()}()"
        return (*self.source.tree.body, Bind("_", call, self.source.tree.body[-1]))

    def function(self) -> list[Plan] | Missing:
        function = self.target.function
        assert function is not None
        if self.options.pinned or self.options.also or self.options.uncovered:
            return self._searched() or self._no_inputs(())
        given = self._written([c for c in comments_above(self.source, function) if not c.skip])
        if isinstance(given, Missing):
            return given
        if given:
            plans = [self._from_text(arguments) for arguments in given]
            return next((p for p in plans if isinstance(p, Missing)), [p for p in plans if isinstance(p, Plan)])
        called = find_call(self.source, self.target, self.imports) if self.options.own_calls else Found()
        if called.site:
            steps, arguments = _without_clashes(called.slice.steps, called.site.arguments, called.site.call)
            plan = self._plan(steps, arguments, called.site.receiver)
            return [replace(plan, partial=called.slice.partial)]
        if self.target.is_entry:
            plan = self._sliced((), None)
            return plan if isinstance(plan, Missing) else [plan]
        told, untold = told_defaults(function)
        if untold:
            return self._missing(f"the command line passes {listed(untold)} of `{self.target.qualname}`", untold)
        if told and not self._required(told):
            plan = self._sliced(told, None)
            return plan if isinstance(plan, Missing) else [plan]
        if self._required(()) or (self.needs_receiver and self._receiver() is None):
            return self._guessed() or self._no_inputs(called.unresolved)
        if self._takes_any_number and (guessed := self._guessed()):
            return guessed
        plan = self._from_text(())
        if isinstance(plan, Missing):
            return plan
        made = _is_made_anew(plan) and self._in_program()
        return made or [replace(plan, partial=plan.partial or self.needs_receiver)]

    def _written(self, comments: Sequence[Any]) -> list[tuple[Argument, ...]] | Missing:
        """Return the arguments of the flag, else those of each comment."""
        flag = self.options.inputs
        if flag is not None:
            read = read_flag(flag)
            if isinstance(read, Problem):
                return Missing(self.target, read.message, read.span, in_flag=True)
            return [read]
        found: list[tuple[Argument, ...]] = []
        for comment in comments:
            read = comment.arguments()
            if isinstance(read, Problem):
                return Missing(self.target, read.message, read.span, in_comment=True)
            if not comment.skip:
                found.append(read)
        return found

    def _from_text(self, given: Sequence[Argument]) -> Plan | Missing:
        """Plan the run with arguments that a comment or the flag gives."""
        function, name = self.target.function, self.target.receiver
        assert function is not None
        receiver = next((a for a in given if a.name == name and name is not None), None)
        arguments = tuple(a for a in given if a is not receiver)
        for argument in arguments:
            wrong = argument.name and unknown_argument(argument.name, function, name, str(self.target.qualname))
            if wrong:
                return self._missing(wrong, (), self._span_of(argument))
        blank = [a for a in given if a.text == "..."]
        if blank:
            names = [str(a.name) for a in blank]
            return self._missing(f"fill in {listed(names)} in the inputs", (), self._span_of(blank[0]))
        missing = self._required(arguments)
        if missing:
            return self._missing(f"the inputs are missing {listed(missing)}", ())
        if receiver is None and self.needs_receiver:
            receiver = self._receiver()
            if receiver is None:
                return self._missing(
                    f"nothing creates the `{name}` of `{self.target.qualname}`", () if given else (str(name),)
                )
        return self._sliced(arguments, receiver)

    def _guessed(self) -> list[Plan] | None:
        """Plan a run whose inputs the file itself does not give."""
        return self._elsewhere() or self._documented() or self._in_program() or self._searched()

    def _elsewhere(self) -> list[Plan] | None:
        """Plan the run that a call in another file gives; None where none can be built."""
        called = find_call_elsewhere(self.source.tree, self.target, self.options.callers)
        if called is None or called[1].site is None:
            return None
        caller, found = called
        site = called[1].site
        steps, arguments = _without_clashes(found.slice.steps, site.arguments, site.call)
        before = steps_before(self.source.tree.body, (), self.imports)
        own = backward_slice(before, {str(self.target.qualname).partition(".")[0]}, (), self.imports)
        plan = self._plan(own.steps, arguments, site.receiver)
        there = Elsewhere(caller, steps, site.call.lineno)
        return [replace(plan, elsewhere=there, partial=found.slice.partial or not own.surroundings)]

    def _in_program(self) -> list[Plan] | None:
        """Plan the run that begins where a program of the project calls the target; None where there is none."""
        programs = self.options.programs
        return [replace(self._plan(None, (), None), program=programs[0])] if programs else None

    def _documented(self) -> list[Plan] | None:
        """Plan the run that an example in the docstring gives; None where there is none that stands alone."""
        example = example_of(self.target)
        if example is None:
            return None
        wanted = {str(self.target.qualname).partition(".")[0]}
        for argument in (*example.arguments, *([example.receiver] if example.receiver else ())):
            wanted |= free_of_text(argument.text)
        steps = [*steps_before(self.source.tree.body, (), self.imports), *example.before]
        sliced = backward_slice(steps, wanted, (), self.imports)
        if sliced.unresolved or not stands_alone(sliced.steps):
            return None
        steps, arguments = _without_clashes(sliced.steps, example.arguments, self.target.node.body[0])
        return [self._plan(steps, arguments, example.receiver)]

    def _searched(self) -> list[Plan] | None:
        """Plan a run whose inputs the worker searches; None where nothing can be proposed."""
        if self.options.search_seconds <= 0:
            return None
        root = self.options.root or self.path.parent
        neighbours = neighbours_of(self.source.tree, self.path, root, self.options.buffers)
        given = dict(self.options.pinned), self.options.also
        proposal = propose(self.source, self.target, neighbours, *given, varied=bool(self.options.uncovered))
        if proposal is None:
            return None
        wanted = {str(self.target.qualname).partition(".")[0]} | proposal.names
        steps = steps_before(self.source.tree.body, (), self.imports)
        sliced = backward_slice(steps, wanted & _bound_by(steps), (), self.imports)
        if sliced.unresolved or not stands_alone(sliced.steps):
            return None
        stateful = (self.needs_receiver and not self._required(())) or makes_objects(proposal.inputs)
        partial = stateful or not sliced.surroundings
        return [replace(self._plan(sliced.steps, (), None), proposal=proposal, partial=partial)]

    @property
    def needs_receiver(self) -> bool:
        return self.target.receiver is not None and not self.target.is_class_method

    def _sliced(self, arguments: tuple[Argument, ...], receiver: Argument | None) -> Plan | Missing:
        wanted = {str(self.target.qualname).partition(".")[0]}
        earlier: set[str] = set()
        for argument in (*([receiver] if receiver else ()), *arguments):
            earlier |= bound_by_text(argument.text)
            wanted |= free_of_text(argument.text) - earlier
            earlier |= {argument.name} if argument.name else set()
        steps = steps_before(self.source.tree.body, (), self.imports)
        lent = LENT - _bound_by(steps)
        sliced = backward_slice(steps, wanted - lent, (), self.imports)
        if sliced.unresolved:
            return self._missing(f"the inputs use {listed(sliced.unresolved)}, which this file does not define", ())
        return replace(self._plan(sliced.steps, arguments, receiver), partial=not sliced.surroundings)

    def _receiver(self) -> Argument | None:
        """Return the object to call a method on: one that the file makes, else one made without arguments."""
        owner = self.target.owner
        if owner is None:
            return None
        made = next(objects_of(self.source.tree, owner), None)
        if made is not None:
            sliced = backward_slice(steps_before(self.source.tree.body, (), self.imports), {made}, (), self.imports)
            if not sliced.unresolved and stands_alone(sliced.steps):
                return Argument(self.target.receiver, made, "call")
        text = constructor_text(self.source.tree, owner)
        return Argument(self.target.receiver, text, "constructor") if text else None

    @property
    def _takes_any_number(self) -> bool:
        """Say whether the function has ``*args``: a call without any would be a guess."""
        function = self.target.function
        return function is not None and function.args.vararg is not None

    def _required(self, arguments: Sequence[Argument]) -> list[str]:
        function = self.target.function
        return missing_parameters(function, self.target.receiver, arguments) if function else []

    def _no_inputs(self, unresolved: Sequence[str]) -> Missing:
        names = self._required(())
        if self.needs_receiver and self._receiver() is None:
            names = [str(self.target.receiver), *names]
        why = "there is no `# dry-run:` comment, and no call in this file could be used"
        if unresolved:
            why += f" (a call uses {listed(unresolved)}, which this file does not define)"
        return self._missing(f"no inputs for {listed(names)} of `{self.target.qualname}`: {why}", names)

    def _missing(self, message: str, names: Iterable[str], span: Span | None = None) -> Missing:
        return Missing(self.target, message, span or self.target.name_span, tuple(names))

    def _span_of(self, argument: Argument) -> Span | None:
        """Return the span of an argument's name in a comment."""
        if argument.line is None or argument.column is None or argument.name is None:
            return None
        before = self.source.line_text(argument.line)[: argument.column]
        start = before.rfind(argument.name)
        return Span.of(argument.line, start, argument.line, start + len(argument.name)) if start >= 0 else None

    def _plan(self, steps: tuple[Step, ...] | None, arguments: tuple[Argument, ...], receiver: Argument | None) -> Plan:
        return Plan(self.source, self.path, self.target, steps, arguments, receiver, self.options)


def missing_names(tree: ast.Module) -> list[str]:
    """Return the names that a script's top-level code reads and nothing in it binds."""
    if any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in ast.walk(tree)):
        return []
    bound = set(GIVEN) | {name for statement in tree.body for name in bound_names(statement)}
    bound |= {name for n in ast.walk(tree) if isinstance(n, ast.Global) for name in n.names}
    read = {name for statement in tree.body for name in needed_names(statement)}
    return sorted(read - bound)


def _without_clashes(
    steps: tuple[Step, ...], arguments: tuple[Argument, ...], call: Located
) -> tuple[tuple[Step, ...], tuple[Argument, ...]]:
    """Keep a call's arguments apart: evaluated by name, an earlier one would hide what a later one reads."""
    earlier: set[str] = set()
    clash = False
    for argument in arguments:
        clash |= bool(free_of_text(argument.text) & earlier)
        if argument.name is not None and argument.text != argument.name:
            earlier.add(argument.name)
    if not clash:
        return steps, arguments
    names = [f"_argument_{index}" for index in range(len(arguments))]
    values = ", ".join(f"({argument.text})" for argument in arguments)
    bound = Bind(", ".join(names) + ",", values + ",", call)
    renamed = tuple(replace(argument, text=name) for argument, name in zip(arguments, names, strict=True))
    return (*steps, bound), renamed


def _bound_by(steps: Sequence[Step]) -> set[str]:
    return {name for step in steps if isinstance(step, ast.stmt) for name in bound_names(step)}
