"""What to run: the target, the statements before it, its arguments, and the conditions of the run.

The plan's ``setup`` is a list of steps in the order of execution. A step is one of

- ``[line, column]``: the start of a statement of the text, as ``ast`` counts;
- ``{"bind": "x, y", "to": "next(iter(loader))", "line", "column"}``: an assignment that is executed at this point;
- ``{"enter": "torch.no_grad()", "as": name | null, "line", "column"}``: a context that is entered here and left after
  the call.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from drygrad.dryrun.inputs.arguments import Argument, Problem, listed, missing_parameters, unknown_argument
from drygrad.dryrun.inputs.call_site import find_call, stands_alone
from drygrad.dryrun.inputs.classes import constructor_text, objects_of
from drygrad.dryrun.inputs.comment import comments_above, comments_of_script, read_flag
from drygrad.dryrun.inputs.docstrings import example_of
from drygrad.dryrun.inputs.proposing import Proposal, propose
from drygrad.dryrun.names import bound_names, needed_names
from drygrad.dryrun.slicing import GIVEN, Bind, Enter, Imports, Step, backward_slice, free_of_text, steps_before
from drygrad.dryrun.targets import Target
from drygrad.model import Span
from drygrad.static.source import Located, Source, SourceError

LENT = frozenset(("torch", "types"))
"""Names that the text of an input may use though the file does not bind them."""


@dataclass(frozen=True)
class RunOptions:
    """The conditions of a run. ``timeout`` counts seconds, the memory limits bytes; ``root`` is the project's folder.

    ``buffers`` are the unsaved texts of other files by absolute path; ``torch`` the version that will run, if known.
    """

    device: str = "auto"
    devices: int = 1
    timeout: float = 30.0
    seed: int = 0
    loop_limit: int = 3
    inputs: str | None = None
    gpu_memory: int | None = None
    memory_limit: int | None = None
    instruments: Sequence[str] | None = None
    root: Path | None = None
    buffers: Mapping[str, str] = field(default_factory=dict[str, str])
    torch: str | None = None
    search_seconds: float = 2.0
    """How long the worker may search inputs that nothing gives; 0: not at all."""


@dataclass(frozen=True)
class Missing:
    """Why a target cannot be run: inputs that nothing gives, or that cannot be read.

    ``names`` are those that a comment would have to give; none where there is a comment that must be corrected.

    ``in_flag`` says that ``span`` counts in the text of ``--inputs``.
    """

    target: Target
    message: str
    span: Span
    names: tuple[str, ...] = ()
    in_flag: bool = False
    comment: str = ""
    """What a comment could say, where a search has come to something."""


@dataclass(frozen=True)
class Plan:
    """One run. ``steps`` None means the whole text."""

    source: Source
    path: Path
    target: Target
    steps: tuple[Step, ...] | None
    arguments: tuple[Argument, ...]
    receiver: Argument | None
    options: RunOptions
    proposal: Proposal | None = None
    """What the worker is to search the inputs from, where nothing gives them."""

    def as_json(self) -> dict[str, Any]:
        """Return the plan as it crosses the wire."""
        options = self.options
        return {
            "path": str(self.path),
            "text": self.source.text,
            "target": self.target.qualname,
            "setup": None if self.steps is None else [_step_json(step) for step in self.steps],
            "arguments": [argument.as_json() for argument in self.arguments],
            "receiver": self.receiver.as_json() if self.receiver else None,
            "module_name": self.module_name,
            "package": self.package,
            "modules": list(self.modules),
            "sys_path": [str(folder) for folder in self.sys_path],
            "buffers": dict(options.buffers),
            "root": str(options.root or self.path.parent),
            "device": options.device,
            "devices": options.devices,
            "seed": options.seed,
            "timeout": options.timeout,
            "loop_limit": options.loop_limit,
            "instruments": None if options.instruments is None else list(options.instruments),
            "memory_limit": options.memory_limit,
            "gpu_memory": options.gpu_memory,
            "backward_probe": True,
            "search": self._search(),
        }

    def _search(self) -> dict[str, Any] | None:
        if self.proposal is None:
            return None
        return {"inputs": dict(self.proposal.inputs), "seconds": self.options.search_seconds}

    @property
    def input_sources(self) -> frozenset[str]:
        """Where the arguments and the receiver come from."""
        given = (*self.arguments, *([self.receiver] if self.receiver else ()))
        invented = frozenset(("search",)) if self.proposal else frozenset[str]()
        return frozenset(argument.source for argument in given) | invented

    @cached_property
    def key(self) -> str:
        """What the result depends on, as a digest: two texts that differ only in what is not executed have the same."""
        options = self.options
        parts = [
            self.target.qualname,
            self._executed(),
            [(a.name, a.star, a.text) for a in self.arguments],
            self.receiver.text if self.receiver else None,
            self._search(),
            [options.device, options.devices, options.seed, options.loop_limit, options.timeout, options.torch],
            [options.gpu_memory, options.memory_limit, options.instruments and [*options.instruments]],
            sorted(options.buffers.items()),
            str(self.path),
        ]
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def _executed(self) -> list[str]:
        if self.steps is None:
            return [self.source.text]
        return [_step_text(step, self.source) for step in self.steps]

    @property
    def module_name(self) -> str:
        """The name that the text's module has: ``__main__`` for a script, else by the packages around the file."""
        if self.steps is None:
            return "__main__"
        if self.path.stem == "__init__" and self.package:
            return self.package
        return f"{self.package}.{self.path.stem}" if self.package else self.path.stem

    @property
    def package(self) -> str:
        """The package that the file is in, which relative imports start from; empty where it is in none."""
        return ".".join(folder.name for folder in reversed(_packages(self.path)))

    @property
    def sys_path(self) -> tuple[Path, ...]:
        """The folders that imports are searched in first: above the packages (as ``python -m``), the script's own."""
        packages = _packages(self.path)
        home = packages[-1].parent if packages else self.path.parent
        beside = [self.path.parent] if self.steps is None else []
        return tuple(dict.fromkeys([home, *beside, self.options.root or home]))

    @property
    def modules(self) -> tuple[str, ...]:
        """The top-level names of the third-party modules that the run imports."""
        statements = self.source.tree.body if self.steps is None else [s for s in self.steps if isinstance(s, ast.stmt)]
        found = {name.partition(".")[0] for statement in statements for name in _imported(statement)}
        return tuple(sorted(name for name in found if name != "torch" and self._is_third_party(name)))

    def _is_third_party(self, name: str) -> bool:
        if name in sys.stdlib_module_names or name == "__future__":
            return False
        return not any((folder / name).is_dir() or (folder / f"{name}.py").is_file() for folder in self.sys_path)


def plan_runs(source: Source, path: Path, target: Target, options: RunOptions) -> list[Plan] | Missing:
    """Return the runs of a target: one for each comment above it, else the one that ``--inputs`` or a call gives."""
    planner = _Planner(source, path, target, options)
    return planner.script() if target.function is None else planner.function()


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
        needed = missing_names(self.source.tree)
        plans: list[Plan] = []
        for arguments in given or [()]:
            missing = [name for name in needed if name not in {argument.name for argument in arguments}]
            if missing:
                what = "this name" if len(missing) == 1 else "these names"
                return self._missing(f"the script uses {listed(missing)}, and nothing in it binds {what}", missing)
            plans.append(self._plan(None, arguments, None))
        return plans

    def function(self) -> list[Plan] | Missing:
        function = self.target.function
        assert function is not None
        given = self._written([c for c in comments_above(self.source, function) if not c.skip])
        if isinstance(given, Missing):
            return given
        if given:
            plans = [self._from_text(arguments) for arguments in given]
            return next((p for p in plans if isinstance(p, Missing)), [p for p in plans if isinstance(p, Plan)])
        called = find_call(self.source, self.target, self.imports)
        if called.site:
            steps, arguments = _without_clashes(called.slice.steps, called.site.arguments, called.site.call)
            return [self._plan(steps, arguments, called.site.receiver)]
        if self._required(()) or (self.needs_receiver and self._receiver() is None):
            return self._documented() or self._searched() or self._no_inputs(called.unresolved)
        if self._takes_any_number and (guessed := self._documented() or self._searched()):
            return guessed
        plan = self._from_text(())
        return plan if isinstance(plan, Missing) else [plan]

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
                return Missing(self.target, read.message, read.span)
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
            return self._missing(f"the inputs leave out {listed(missing)}", ())
        if receiver is None and self.needs_receiver:
            receiver = self._receiver()
            if receiver is None:
                return self._missing(
                    f"nothing makes the `{name}` of `{self.target.qualname}`", () if given else (str(name),)
                )
        return self._sliced(arguments, receiver)

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
        proposal = propose(self.source.tree, self.target) if self.options.search_seconds > 0 else None
        if proposal is None:
            return None
        wanted = {str(self.target.qualname).partition(".")[0]} | proposal.names
        steps = steps_before(self.source.tree.body, (), self.imports)
        sliced = backward_slice(steps, wanted & _bound_by(steps), (), self.imports)
        if sliced.unresolved or not stands_alone(sliced.steps):
            return None
        return [replace(self._plan(sliced.steps, (), None), proposal=proposal)]

    @property
    def needs_receiver(self) -> bool:
        return self.target.receiver is not None and not self.target.is_class_method

    def _sliced(self, arguments: tuple[Argument, ...], receiver: Argument | None) -> Plan | Missing:
        wanted = {str(self.target.qualname).partition(".")[0]}
        earlier: set[str] = set()
        for argument in (*([receiver] if receiver else ()), *arguments):
            wanted |= free_of_text(argument.text) - earlier
            earlier |= {argument.name} if argument.name else set()
        steps = steps_before(self.source.tree.body, (), self.imports)
        lent = LENT - _bound_by(steps)
        sliced = backward_slice(steps, wanted - lent, (), self.imports)
        if sliced.unresolved:
            return self._missing(f"the inputs use {listed(sliced.unresolved)}, which the file does not bind", ())
        return self._plan(sliced.steps, arguments, receiver)

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
        why = "no comment gives them, and no call of it in this file can be built"
        if unresolved:
            why += f" (a call uses {listed(unresolved)}, which the file does not bind)"
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


def _step_json(step: Step) -> Any:
    if isinstance(step, ast.stmt):
        return [step.lineno, step.col_offset]
    place = {"line": step.node.lineno, "column": step.node.col_offset}
    if isinstance(step, Bind):
        return {"bind": step.target, "to": step.text, **place}
    return {"enter": step.text, "as": step.name, **place}


def _step_text(step: Step, source: Source) -> str:
    if isinstance(step, Bind):
        return f"{step.target} = {step.text}"
    if isinstance(step, Enter):
        return f"with {step.text} as {step.name}"
    decorators: list[ast.expr] = getattr(step, "decorator_list", [])
    return "\n".join([*(ast.unparse(decorator) for decorator in decorators), source.segment(step)])


def _packages(path: Path) -> list[Path]:
    """Return the folders around a file that are packages, the nearest first."""
    found: list[Path] = []
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        found.append(folder)
        folder = folder.parent
    return found


def _imported(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


__all__ = ["Missing", "Plan", "RunOptions", "SourceError", "missing_names", "plan_runs"]
