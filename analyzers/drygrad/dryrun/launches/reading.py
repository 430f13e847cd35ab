"""From the words of a command to the launch of a program, through whatever stands in front of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drygrad.dryrun.launches import grammars
from drygrad.dryrun.launches.grammars import Grammar
from drygrad.dryrun.launches.launch import Kind, Launch, LaunchError
from drygrad.dryrun.launches.programs import Programs

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"(?:python|pypy|ipython)(?:\d(?:\.\d+)?)?(?:\.exe)?|py")
_MOST_WORDS = 10_000


@dataclass
class Command:
    """What is read of a command so far: the words to come, and what those before them have set."""

    words: list[str]
    folder: Path
    programs: Programs
    environment: dict[str, str] = field(default_factory=dict[str, str])
    ranks: int = 1
    through: list[str] = field(default_factory=list[str])
    arguments: list[str] = field(default_factory=list[str])
    """Those that a launcher puts in front of the program's own."""
    told: dict[str, str] = field(default_factory=dict[str, str])
    """The variables that launchers set by themselves."""

    def options(self, grammar: Grammar) -> dict[str, str]:
        """Take the options of the command that was named last."""
        given, self.words = grammar.read(self.through[-1], self.words)
        return given

    def set(self, assignment: str) -> bool:
        """Set the variable that a word assigns; say whether it assigns one."""
        match = _ASSIGNMENT.fullmatch(assignment)
        if match:
            self.environment[match[1]] = match[2]
        return match is not None

    def script(self, program: str) -> Launch:
        """Return the launch of a script, with the words that are left."""
        return self._launch("script", program, self.programs.script(program, self.folder))

    def module(self, name: str) -> Launch:
        """Return the launch of a module, or of the launcher that a module is."""
        again = _MODULES.get(name)
        if again is not None:
            self.words[:0] = again
            return follow(self)
        path = self.environment.get("PYTHONPATH", "")
        return self._launch("module", name, self.programs.module(name, self.folder, path))

    def target(self, what: str, *, is_module: bool) -> Launch:
        """Return the launch of the program that a launcher's last words name."""
        return self.module(what) if is_module else self.script(what)

    def next(self, what: str) -> str:
        """Take the next word."""
        if not self.words:
            raise LaunchError(f"`{self.through[-1]}` names no {what}")
        return self.words.pop(0)

    def _launch(self, kind: Kind, program: str, file: Path) -> Launch:
        return Launch(
            kind,
            program,
            file,
            (*self.arguments, *self.words),
            self.environment,
            self.folder,
            self.ranks,
            tuple(self.through),
            told=self.told,
        )

    def function(self, name: str, entry: str) -> Launch:
        """Return the launch of a console script of the project."""
        module = entry.partition(":")[0]
        file = self.programs.source_module(module, self.folder)
        if file is None:
            raise LaunchError(f"`{name}` is `{entry}`, and there is no module `{module}` in the project")
        self.through.append(name)
        return self._launch("function", entry, file)

    def tests(self) -> Launch:
        """Return the launch of pytest: the first of the words that names a file says whose run it is."""
        named = [self.folder / word.partition("::")[0] for word in self.words if not word.startswith("-")]
        file = next((path for path in named if path.suffix == ".py" and path.is_file()), None)
        if file is None:
            raise LaunchError("pytest: name a file of tests, such as `pytest tests/test_model.py::test_step`")
        return self._launch("tests", "pytest", file)


def read(
    words: Sequence[str], folder: Path, programs: Programs | None = None, environment: Mapping[str, str] | None = None
) -> Launch:
    """Return the launch that a command is, started in a folder. LaunchError where it cannot be read."""
    command = Command(list(words), folder.absolute(), programs or Programs(), dict(environment or {}))
    if not words or len(words) > _MOST_WORDS:
        raise LaunchError("the command is missing" if not words else "the command is too long")
    return follow(command)


def follow(command: Command) -> Launch:
    """Read on: assignments, a launcher, or the program itself."""
    while command.words and command.set(command.words[0]):
        command.words.pop(0)
    if not command.words:
        raise LaunchError("the command starts no program")
    word = command.words.pop(0)
    name = re.split(r"[/\\]", word)[-1]
    if _PYTHON.fullmatch(name):
        command.through.append("python")
        return _python(command)
    if name in ("pytest", "py.test"):
        return command.tests()
    if name in _FOLLOWED:
        command.through.append(name)
        return _FOLLOWED[name](command)
    entry = command.programs.console_script(name, command.folder)
    if entry is not None:
        return command.function(name, entry)
    if name.endswith(".py") or command.programs.is_script(word, command.folder):
        return command.script(word)
    raise LaunchError(f"`{word}` is not a command that drygrad can follow to a Python program")


def _python(command: Command) -> Launch:
    """Read ``python [-u] [-m pkg.train | train.py] ...``; what stands behind ``-m`` and its module is the program's."""
    rest: list[str] = command.words
    own: list[str] = []
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        own.append(word)
        letters = "" if word.startswith("--") else word[1:]
        takes = next((index for index, letter in enumerate(letters) if letter in "mcWX"), None)
        if takes is None:
            if word == "--check-hash-based-pycs" and rest:
                own.append(rest.pop(0))
            continue
        value = letters[takes + 1 :] or (rest.pop(0) if rest else None)
        if value is None:
            raise LaunchError(f"python: `{word}` needs a value")
        if letters[takes] == "c":
            raise LaunchError("python -c has no file that could be run; put its code into a script")
        if letters[takes] == "m":
            grammars.PYTHON.read("python", [f"-{letters[:takes]}"] if takes else [])
            return command.module(value)
        own.append(value)
    grammars.PYTHON.read("python", own)
    program = command.next("program")
    if program == "-":
        raise LaunchError("python - reads its program from its input; name a script")
    return command.script(program)


def _torchrun(command: Command) -> Launch:
    return _distributed(command, _torch_options(command))


def _torch_launch(command: Command) -> Launch:
    """Read ``python -m torch.distributed.launch``, which tells the program its local rank."""
    given = _torch_options(command)
    if "--use-env" not in given:
        command.arguments.append("--local-rank=0")
    return _distributed(command, given)


def _torch_options(command: Command) -> Mapping[str, str]:
    """Take the options of torch's launchers, and count the ranks that they ask for."""
    given = command.options(grammars.TORCHRUN)
    command.ranks *= _count(given.get("--nnodes", "1").rpartition(":")[2]) * _count(given.get("--nproc-per-node", "1"))
    return given


def _distributed(command: Command, given: Mapping[str, str]) -> Launch:
    """Return what a launcher of several processes starts."""
    if "--no-python" in given:
        return follow(command)
    return command.target(command.next("program"), is_module=bool(given.keys() & {"-m", "--module"}))


def _accelerate(command: Command) -> Launch:
    action = command.next("action")
    if action != "launch":
        raise LaunchError(f"`accelerate {action}` starts no program; `accelerate launch` does")
    return _accelerate_launch(command)


def _accelerate_launch(command: Command) -> Launch:
    given = command.options(grammars.ACCELERATE)
    command.ranks *= _count(given.get("--num-processes", "1"))
    if precision := given.get("--mixed-precision"):
        command.told.setdefault("ACCELERATE_MIXED_PRECISION", precision)
    if steps := given.get("--gradient-accumulation-steps"):
        command.told.setdefault("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", steps)
    if "--cpu" in given:
        command.told.setdefault("ACCELERATE_USE_CPU", "true")
    return _distributed(command, given)


def _deepspeed(command: Command) -> Launch:
    given = command.options(grammars.DEEPSPEED)
    command.ranks *= _count(given.get("--num-nodes", "1")) * _count(
        given.get("--num-gpus", given.get("--num-accelerators", "1"))
    )
    if "--no-local-rank" not in given:
        command.arguments.append("--local_rank=0")
    return _distributed(command, given)


def _lightning(command: Command) -> Launch:
    """Read ``fabric run``, ``lightning run`` and, as it was called before, ``lightning run model``."""
    action = command.next("action")
    if action != "run":
        raise LaunchError(f"`{command.through[-1]} {action}` starts no program; `{command.through[-1]} run` does")
    if command.words[:1] == ["model"]:
        command.words.pop(0)
    given = command.options(grammars.FABRIC)
    command.ranks *= _count(given.get("--devices", "1")) * _count(given.get("--num-nodes", "1"))
    for option in ("accelerator", "precision", "strategy"):
        if value := given.get(f"--{option}"):
            command.told.setdefault(f"LT_{option.upper()}", value)
    command.told.setdefault("LT_CLI_USED", "1")
    return command.script(command.next("program"))


def _srun(command: Command) -> Launch:
    given = command.options(grammars.SRUN)
    nodes = _count(given.get("-N", given.get("--nodes", "1")).partition("-")[0])
    each = _count(given.get("--ntasks-per-node", "1"))
    command.ranks *= _count(given.get("-n", given.get("--ntasks", str(nodes * each))))
    if folder := given.get("-D", given.get("--chdir")):
        command.folder = command.folder / folder
    for assignment in given.get("--export", "").split(","):
        command.set(assignment)
    command.told.update(_OF_SLURM)
    return follow(command)


_OF_SLURM = {
    "SLURM_JOB_ID": "1",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NTASKS": "1",
    "SLURM_NNODES": "1",
    "SLURM_JOB_NUM_NODES": "1",
    "SLURM_NTASKS_PER_NODE": "1",
    "SLURM_NODELIST": "localhost",
    "SLURM_JOB_NODELIST": "localhost",
    "SLURM_CPUS_PER_TASK": "1",
}
"""What a task of a step of one task knows of itself."""


def _mpirun(command: Command) -> Launch:
    kept: list[str] = []
    while command.words and command.words[0].startswith("-"):
        word = command.words.pop(0)
        if word.lstrip("-") in ("mca", "gmca"):
            del command.words[:2]
        elif word == "-x":
            command.set(command.next("variable"))
        else:
            kept.append(word)
            if word in grammars.MPIRUN.values:
                kept.append(command.next("value"))
    given, _ = grammars.MPIRUN.read(command.through[-1], kept)
    counts = [value for name, value in given.items() if name.lstrip("-") in ("n", "np", "c")]
    command.ranks *= _count(counts[0]) if counts else 1
    command.told.update(dict.fromkeys(("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"), "0"))
    command.told["OMPI_COMM_WORLD_SIZE"] = "1"
    return follow(command)


def _uv(command: Command) -> Launch:
    command.options(grammars.UV)
    if command.next("action") != "run":
        raise LaunchError("`uv` starts a program by `uv run`")
    given = command.options(grammars.UV)
    if folder := given.get("--directory"):
        command.folder = command.folder / folder
    if given.keys() & {"-m", "--module"}:
        return command.module(command.next("module"))
    if given.keys() & {"-s", "--script"}:
        return command.script(command.next("script"))
    return follow(command)


def _runner(grammar: Grammar) -> Callable[[Command], Launch]:
    """Return the reader of a tool whose ``run`` starts a command in an environment."""

    def run(command: Command) -> Launch:
        command.options(grammar)
        if command.next("action") != "run":
            raise LaunchError(f"`{command.through[-1]}` starts a program by `{command.through[-1]} run`")
        command.options(grammar)
        return follow(command)

    return run


def _front(grammar: Grammar, *, operands: int = 0) -> Callable[[Command], Launch]:
    """Return the reader of a command that has options, some words of its own, and then a command."""

    def front(command: Command) -> Launch:
        command.options(grammar)
        for _ in range(operands):
            command.next("value")
        return follow(command)

    return front


def _taskset(command: Command) -> Launch:
    command.options(grammars.TASKSET)
    command.next("mask")
    return follow(command)


def _env(command: Command) -> Launch:
    given = command.options(grammars.ENV)
    if folder := given.get("-C", given.get("--chdir")):
        command.folder = command.folder / folder
    return follow(command)


def _python_tool(grammar: Grammar, action: str = "") -> Callable[[Command], Launch]:
    """Return the reader of a program that runs another one in Python: a debugger, a profiler."""

    def tool(command: Command) -> Launch:
        if action and command.next("action") != action:
            raise LaunchError(f"`{command.through[-1]}` starts a program by `{command.through[-1]} {action}`")
        given = command.options(grammar)
        return command.target(command.next("program"), is_module="-m" in given)

    return tool


def _coverage(command: Command) -> Launch:
    """Read ``coverage run``; its ``-m`` has the module behind it."""
    if command.next("action") != "run":
        raise LaunchError("`coverage` starts a program by `coverage run`")
    given = command.options(Grammar(grammars.COVERAGE.values, grammars.COVERAGE.switches | {"-m", "--module"}))
    return command.target(command.next("program"), is_module=bool(given.keys() & {"-m", "--module"}))


def _nsys(command: Command) -> Launch:
    if command.next("action") not in ("profile", "launch", "nvprof"):
        raise LaunchError("`nsys` starts a program by `nsys profile`")
    command.options(grammars.NSYS)
    return follow(command)


def _shell(command: Command) -> Launch:
    """Read ``bash train.sh``: the first program that the script starts."""
    from drygrad.dryrun.launches.shell_scripts import first_launch  # noqa: PLC0415 - it reads commands in its turn

    given = command.options(grammars.SHELL)
    if "-c" in given:
        raise LaunchError("bash -c: give the command itself")
    script = command.next("script")
    return first_launch(command.folder / script, command.words, command)


def _count(text: str) -> int:
    """Return a number of processes; words like ``gpu`` and what only a shell would know mean one."""
    return max(1, int(text)) if text.isdecimal() else 1


_FOLLOWED: Mapping[str, Callable[[Command], Launch]] = {
    "torchrun": _torchrun,
    "torch-launch": _torch_launch,
    "accelerate": _accelerate,
    "accelerate-launch": _accelerate_launch,
    "deepspeed": _deepspeed,
    "fabric": _lightning,
    "lightning": _lightning,
    "srun": _srun,
    "mpirun": _mpirun,
    "mpiexec": _mpirun,
    "uv": _uv,
    "poetry": _runner(grammars.POETRY),
    "pdm": _runner(grammars.PDM),
    "hatch": _runner(grammars.HATCH),
    "rye": _runner(Grammar()),
    "pipenv": _runner(Grammar()),
    "conda": _runner(grammars.CONDA),
    "mamba": _runner(grammars.CONDA),
    "micromamba": _runner(grammars.CONDA),
    "pixi": _runner(grammars.PIXI),
    "env": _env,
    "nohup": _front(Grammar()),
    "exec": _front(Grammar()),
    "command": _front(Grammar()),
    "setsid": _front(Grammar()),
    "time": _front(grammars.TIME),
    "nice": _front(grammars.NICE),
    "timeout": _front(grammars.TIMEOUT, operands=1),
    "stdbuf": _front(grammars.STDBUF),
    "taskset": _taskset,
    "numactl": _front(grammars.NUMACTL),
    "nsys": _nsys,
    "coverage": _coverage,
    "kernprof": _python_tool(Grammar(grammars.PROFILE.values, frozenset(("-l", "-v", "-b")))),
    "cProfile": _python_tool(grammars.PROFILE),
    "pdb": _python_tool(grammars.PDB),
    "debugpy": _python_tool(grammars.DEBUGPY),
    "bash": _shell,
    "sh": _shell,
    "zsh": _shell,
}

_MODULES: Mapping[str, tuple[str, ...]] = {
    "torch.distributed.run": ("torchrun",),
    "torch.distributed.launch": ("torch-launch",),
    "accelerate.commands.launch": ("accelerate-launch",),
    "accelerate": ("accelerate",),
    "deepspeed": ("deepspeed",),
    "deepspeed.launcher.runner": ("deepspeed",),
    "lightning": ("lightning",),
    "lightning.fabric.cli": ("fabric", "run"),
    "pytest": ("pytest",),
    "coverage": ("coverage",),
    "cProfile": ("cProfile",),
    "profile": ("cProfile",),
    "pdb": ("pdb",),
    "ipdb": ("pdb",),
    "debugpy": ("debugpy",),
    "kernprof": ("kernprof",),
    "line_profiler": ("kernprof",),
}
"""Modules that start another program, as the command that does the same."""
