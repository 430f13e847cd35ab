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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from drygrad.dryrun.inputs.arguments import Argument
from drygrad.dryrun.inputs.callers import Caller
from drygrad.dryrun.inputs.proposing import Proposal
from drygrad.dryrun.launches.launch import Launch
from drygrad.dryrun.layout import packages_around, project_folders
from drygrad.dryrun.program import Program
from drygrad.dryrun.slicing import Bind, Enter, Step
from drygrad.dryrun.targets import Target
from drygrad.gpus import Gpu
from drygrad.model import Span
from drygrad.static.source import Source

_PROGRAMS_SHARE = 0.3
"""A program that waits is ended after two and a half times what it may compute."""


@dataclass(frozen=True)
class Experiments:
    """What a run tries instead of the call alone: relations by their codes, for so many seconds.

    ``invented`` and ``unprepared`` say what the run that passed had for inputs, for these are given as it had them;
    ``trains`` whether it went backward by itself, ``samples_axis`` which axis of its inputs counts samples, by its text
    or by the loader that they come from.
    """

    codes: tuple[str, ...]
    seconds: float
    invented: bool = False
    unprepared: bool = False
    trains: bool = True
    samples_axis: int | None = None
    ranks: int = 0
    """How many ranks of the program are run and compared; 0: none."""
    launched: bool = False
    """Whether they have a launch's variables, as those have not that a program starts itself."""
    rank_seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return them as they cross the wire."""
        return {
            "codes": list(self.codes),
            "seconds": self.seconds,
            "invented": self.invented,
            "unprepared": self.unprepared,
            "trains": self.trains,
            "samples_axis": self.samples_axis,
            "ranks": self.ranks,
            "launched": self.launched,
            "rank_seconds": self.rank_seconds,
        }


@dataclass(frozen=True)
class Forecast:
    """What a forecast is for: a GPU, or none in particular; ``changes`` are what is to be different then."""

    gpu: Gpu | None = None
    changes: tuple[str, ...] = ()
    ranks: int | None = None
    """How many ranks the program is one of; None: as many as it is launched as."""

    def as_json(self) -> dict[str, Any]:
        """Return it as it crosses the wire."""
        return {"gpu": self.gpu.as_wire() if self.gpu else None, "changes": list(self.changes), "ranks": self.ranks}


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
    callers: tuple[Caller, ...] = ()
    """Other files whose calls of the target may give its inputs, where its own file has none."""
    programs: tuple[Program, ...] = ()
    """Programs of the project that may come to the target, for where no call of it can be built."""
    program_seconds: float = 10.0
    """How long one of them may compute until it does, imports not counted; 0: none is run."""
    further: bool = False
    """Whether the run goes on after the call: to a second one, and to batches of the loaders that it has made."""
    forgive: bool = False
    """Whether the run goes on where tensors of several devices have met, to see what else is on the wrong one."""
    compare: bool = False
    """Whether the run takes note of what it can be compared by with a run of a repaired text."""
    forecast: Forecast | None = None
    """What is asked of a run that neither takes memory nor computes."""
    experiments: Experiments | None = None
    """The relations that are tried before the call, each in a process of its own."""
    ranks: int | None = None
    """How many ranks the program is launched as; None: nobody has said."""
    own_calls: bool = True
    """Whether calls in the target's own file may give its inputs; not where they turned out to be impossible."""
    pinned: tuple[tuple[str, str], ...] = ()
    """Inputs that an earlier run has had, as expressions by their names, beside which only ``also`` is searched."""
    also: tuple[str, ...] = ()
    """Parameters with a default that are to be given nevertheless."""
    uncovered: frozenset[int] = frozenset()
    """Lines that earlier runs have left out: inputs are searched that come by one of them."""
    launch: Launch | None = None
    """How the program is started that is run, or that the target is part of."""


def started_by(launch: Launch | None, options: RunOptions) -> RunOptions:
    """Return the conditions of a run whose program is started in a way of its own."""
    if launch is None:
        return options
    device = "cpu" if launch.hides_devices and options.device == "auto" else options.device
    return replace(options, launch=launch, device=device, devices=max(options.devices, launch.devices))


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
    in_comment: bool = False
    """Whether the comment that gives inputs cannot be read: who wrote it hears of it, whatever else is run."""
    comment: str = ""
    """What a comment could say, where a search has come to something."""


@dataclass(frozen=True)
class Elsewhere:
    """What a run takes of another file: the steps before the call there, in whose names the arguments are evaluated."""

    caller: Caller
    steps: tuple[Step, ...]
    line: int

    def as_json(self) -> dict[str, Any]:
        """Return it as it crosses the wire."""
        packages = packages_around(self.caller.path, self.caller.source)
        return {
            "path": str(self.caller.path),
            "text": self.caller.source.text,
            "setup": [_step_json(step) for step in self.steps],
            "module_name": _module_name(self.caller.path, packages),
            "package": _package_name(packages),
            "shown": f"{self.caller.shown}:{self.line}",
        }


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
    elsewhere: Elsewhere | None = None
    """Where the inputs come from, if that is another file."""
    program: Program | None = None
    """The program that calls the target, if it is one that gives the inputs."""
    within: Plan | None = None
    """The run that is looked at from a file that it only imports; ``source`` and ``path`` are then that file's."""
    partial: bool = False
    """Whether the state of an input may not be the one that the program has it in: a list that a loop would fill."""

    def as_json(self) -> dict[str, Any]:
        """Return the plan as it crosses the wire."""
        if self.within is not None:
            return self.executed.as_json()
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
            "sys_path": [str(folder) for folder in self.sys_path if folder not in self._searched_last],
            "sys_path_last": [str(folder) for folder in self._searched_last],
            "buffers": dict(options.buffers),
            "root": str(options.root or self.path.parent),
            "device": options.device,
            "devices": options.devices,
            "seed": options.seed,
            "timeout": options.timeout,
            "loop_limit": options.loop_limit,
            "further": options.further,
            "forgive": options.forgive,
            "compare": options.compare,
            "experiments": options.experiments.as_json() if options.experiments else None,
            "forecast": options.forecast.as_json() if options.forecast else None,
            "instruments": None if options.instruments is None else list(options.instruments),
            "memory_limit": options.memory_limit,
            "gpu_memory": options.gpu_memory,
            "backward_probe": True,
            "search": self._search(),
            "method_of": self.target.receiver,
            "elsewhere": self.elsewhere.as_json() if self.elsewhere else None,
            "launch": self.program.start if self.program else options.launch.as_json() if options.launch else None,
            "program": self.program.as_json(self.source, self.target, self._program_seconds) if self.program else None,
        }

    def _search(self) -> dict[str, Any] | None:
        if self.proposal is None:
            return None
        through = [{"target": name, "inputs": dict(inputs)} for name, inputs in self.proposal.through]
        found = {"inputs": dict(self.proposal.inputs), "seconds": self.options.search_seconds, "through": through}
        return {**found, "uncovered": sorted(self.options.uncovered)} if self.options.uncovered else found

    @property
    def executed(self) -> Plan:
        """The plan that is executed: itself, or the run that this file takes part in, with the text it has here."""
        if self.within is None:
            return self
        buffers = {**self.options.buffers, str(self.path): self.source.text}
        return replace(self.within, options=replace(self.options, buffers=buffers))

    @property
    def input_sources(self) -> frozenset[str]:
        """Where the arguments and the receiver come from."""
        given = (*self.arguments, *([self.receiver] if self.receiver else ()))
        invented = frozenset(("search",)) if self.proposal else frozenset[str]()
        return frozenset(argument.source.partition(" in ")[0] for argument in given) | invented

    @property
    def contexts(self) -> list[str]:
        """What the target is called in, such as ``torch.no_grad()``."""
        steps = (*(self.steps or ()), *(self.elsewhere.steps if self.elsewhere else ()))
        return [step.text for step in steps if isinstance(step, Enter)]

    @cached_property
    def key(self) -> str:
        """What the result depends on, as a digest: two texts that differ only in what is not executed have the same."""
        options = self.options
        parts = [
            self.target.qualname,
            self._executed(),
            self._executed_elsewhere(),
            self.program
            and [self.program.as_json(self.source, self.target, self._program_seconds), self.program.start],
            [(a.name, a.star, a.text) for a in self.arguments],
            self.receiver.text if self.receiver else None,
            self._search(),
            [options.device, options.devices, options.seed, options.loop_limit, options.timeout, options.torch],
            [options.further, options.forgive],
            options.experiments and options.experiments.as_json(),
            options.forecast and options.forecast.as_json(),
            options.launch and options.launch.as_json(),
            [options.gpu_memory, options.memory_limit, options.instruments and [*options.instruments]],
            sorted(options.buffers.items()),
            str(self.path),
        ]
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def _launch(self) -> Launch | None:
        """How the program is started: the one that gives the inputs has a launch of its own."""
        return self.program.launch if self.program else self.options.launch

    @property
    def _program_seconds(self) -> float:
        """What a program may take of the run's time; the target has all of that again."""
        return min(self.options.program_seconds, _PROGRAMS_SHARE * self.options.timeout)

    def _executed(self) -> list[str]:
        if self.steps is None:
            return [self.source.text]
        return [_step_text(step, self.source) for step in self.steps]

    def _executed_elsewhere(self) -> list[str]:
        other = self.elsewhere
        return [str(other.caller.path), *(_step_text(s, other.caller.source) for s in other.steps)] if other else []

    @property
    def module_name(self) -> str:
        """The name that the text's module has: ``__main__`` for a script, else by the packages around the file."""
        if (self.steps is None and self.program is None) or self.target.is_entry:
            return "__main__"
        return self.elsewhere.caller.module if self.elsewhere else _module_name(self.path, self._packages)

    @property
    def package(self) -> str:
        """The package that the file is in, which relative imports start from; empty where it is in none."""
        if self.elsewhere is None:
            return _package_name(self._packages)
        module = self.elsewhere.caller.module
        return module if self.path.stem == "__init__" else module.rpartition(".")[0]

    @cached_property
    def _packages(self) -> tuple[Path, ...]:
        return packages_around(self.path, self.source)

    @cached_property
    def sys_path(self) -> tuple[Path, ...]:
        """The folders that imports are searched in first: above the packages (as ``python -m``), the script's own.

        Then those that the project names, as where it is installed or tested.
        """
        home = self._packages[-1].parent if self._packages else self.path.parent
        beside = [self.path.parent] if self.steps is None and self.program is None else []
        launch = self._launch
        own = launch is not None and (launch.file == self.path or self.program is not None)
        first = launch.sys_path if launch is not None and own else ()
        above = self.program.folders if self.program else ()
        project = project_folders(self.path)
        last = self.options.root or home
        return tuple(dict.fromkeys([*first, *above, home, *beside, *self._folders_elsewhere(), *project, last]))

    @property
    def _searched_last(self) -> tuple[Path, ...]:
        """Those of these folders that a launch does not name: installed packages come first, as without drygrad."""
        launch = self._launch
        if launch is None or launch.kind not in ("script", "module") or self.steps is not None or self.program:
            return ()
        return tuple(folder for folder in self.sys_path if folder not in launch.sys_path)

    def _folders_elsewhere(self) -> list[Path]:
        """Return the folders in which the other file's imports are found, the target's own file among them."""
        if self.elsewhere is None:
            return []
        caller = self.elsewhere.caller
        path, depth = caller.path, caller.module.count(".")
        packages = packages_around(path, caller.source)
        above = self.path.parents[min(depth, len(self.path.parents) - 1)]
        return [packages[-1].parent if packages else path.parent, above]

    @property
    def modules(self) -> tuple[str, ...]:
        """The top-level names of the third-party modules that the run imports."""
        steps = (*(self.steps or ()), *(self.elsewhere.steps if self.elsewhere else ()))
        own = self.source.tree.body if self.steps is None else [s for s in steps if isinstance(s, ast.stmt)]
        statements = [*own, *(self.program.source.tree.body if self.program else ())]
        found = {name.partition(".")[0] for statement in statements for name in _imported(statement)}
        return tuple(sorted(name for name in found if name != "torch" and self._is_third_party(name)))

    def _is_third_party(self, name: str) -> bool:
        if name in sys.stdlib_module_names or name == "__future__":
            return False
        return not any((folder / name).is_dir() or (folder / f"{name}.py").is_file() for folder in self.sys_path)


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


def _module_name(path: Path, packages: Sequence[Path]) -> str:
    package = _package_name(packages)
    if path.stem == "__init__" and package:
        return package
    return f"{package}.{path.stem}" if package else path.stem


def _package_name(packages: Sequence[Path]) -> str:
    return ".".join(folder.name for folder in reversed(packages))


def _imported(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
