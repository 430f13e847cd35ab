"""The one table of settings: from it come validation, ``docs/settings.md`` and the editors' schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from drygrad import option_values as values
from drygrad.model import SEVERITIES
from drygrad.option_values import OptionError, did_you_mean
from drygrad.settings import Device, LogLevel

Scope = Literal["file", "editor", "both", "run"]
Place = Literal["file", "editor", "run"]
"""Where settings stand: in ``[tool.drygrad]``, in an editor, in ``[tool.drygrad.run]``."""
Reader: TypeAlias = Callable[[object], Any]


@dataclass(frozen=True)
class Complaint:
    """Why a value was refused. ``key`` leads to it; ``item`` is the text inside the value that is wrong, if one is."""

    key: tuple[str, ...]
    message: str
    item: str | None = None


@dataclass(frozen=True)
class Option:
    """One setting: how it is called, read, documented and offered by an editor."""

    name: str
    kind: str
    default: str
    description: str
    scope: Scope
    read: Reader
    schema: Mapping[str, Any]
    example: str
    of_runs: bool = False
    """Whether it stands in ``[tool.drygrad.run]``, too."""

    def stands_in(self, place: Place) -> bool:
        """Say whether it may be set there."""
        if place == "run":
            return self.of_runs or self.scope == "run"
        return self.scope in (place, "both")

    @property
    def attribute(self) -> str:
        """The name of the field in ``Settings`` or ``EditorSettings``."""
        return self.name.replace("-", "_")

    @property
    def editor_name(self) -> str:
        """The name below ``drygrad.`` in an editor."""
        return re.sub(r"-(\w)", lambda match: match.group(1).upper(), self.name)


@dataclass
class Validated:
    """The values that were good, by attribute name, and what was wrong with the others."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    complaints: list[Complaint] = field(default_factory=list[Complaint])


def validate(given: Mapping[str, object], place: Place) -> Validated:
    """Read the settings of a place: a file's (kebab-case), an editor's (camelCase); what is wrong keeps its default."""
    known = {(o.editor_name if place == "editor" else o.name): o for o in OPTIONS}
    result = Validated()
    for key, value in given.items():
        option = known.get(key)
        if option is None:
            result.complaints.append(Complaint((key,), f"unknown setting `{key}`{did_you_mean(key, known)}", key))
        elif not option.stands_in(place):
            result.complaints.append(Complaint((key,), f"`{key}` is set in {_home(option, place)}"))
        elif value is not None:
            _read(option, key, value, result)
    return result


def _home(option: Option, place: Place) -> str:
    """Return where a setting stands that does not stand in a place."""
    if option.stands_in("run") and place == "file":
        return "[tool.drygrad.run]" + (" or the editor" if option.stands_in("editor") else "")
    if place == "editor":
        return "pyproject.toml, not in the editor"
    return "[tool.drygrad]" if option.stands_in("file") else "the editor, not in a file"


def _read(option: Option, key: str, value: object, result: Validated) -> None:
    try:
        result.values[option.attribute] = option.read(value)
    except OptionError as error:
        result.complaints += [Complaint((key,), f"`{key}`: {message}", item) for message, item in error.complaints]


_TEXT_LIST = {"type": "array", "items": {"type": "string"}}

OPTIONS: tuple[Option, ...] = (
    Option(
        "select",
        "list of codes",
        '["DG"]',
        "The rules to report. A code may be a prefix: `DG3` is the family, `DG304` one rule. "
        "Where `select` and `ignore` both match a rule, the longer code decides.",
        "both",
        values.codes,
        _TEXT_LIST,
        'select = ["DG1", "DG3"]',
    ),
    Option(
        "ignore",
        "list of codes",
        "[]",
        "The rules not to report. Prefixes as in `select`.",
        "both",
        values.codes,
        _TEXT_LIST,
        'ignore = ["DG206"]',
    ),
    Option(
        "severity",
        "table: code = severity",
        "{}",
        f"Another severity for a rule or a family: {', '.join(SEVERITIES)}.",
        "both",
        values.severities,
        {"type": "object", "additionalProperties": {"enum": list(SEVERITIES)}},
        'severity = { DG206 = "warning" }',
    ),
    Option(
        "per-file-ignores",
        "table: pattern = list of codes",
        "{}",
        "Rules not to report in some files. Patterns are those of .gitignore, relative to the file of the settings.",
        "file",
        values.per_file,
        {"type": "object", "additionalProperties": _TEXT_LIST},
        'per-file-ignores = { "tests/**" = ["DG7"] }',
    ),
    Option(
        "exclude",
        "list of patterns",
        "[]",
        "Files and folders that a check of a folder skips, besides hidden and ignored ones, unless they are "
        "named themselves. Patterns are those of .gitignore.",
        "both",
        values.patterns,
        _TEXT_LIST,
        'exclude = ["third_party/"]',
    ),
    Option(
        "target-torch",
        "version",
        "the newest",
        "The torch version that the code is written for. Rules that do not hold for it are off.",
        "both",
        values.version,
        {"type": "string", "pattern": r"^\d+\.\d+(\.\d+)?$"},
        'target-torch = "2.4"',
    ),
    Option(
        "baseline",
        "path",
        "none",
        "A file of findings to leave out, written by `drygrad check --write-baseline`; "
        "its path is relative to the file of the settings.",
        "file",
        values.text,
        {"type": "string"},
        'baseline = "drygrad-baseline.json"',
    ),
    Option(
        "experiments",
        "true, false, or a list of codes",
        "true",
        "The relations between two runs that experiments try after a dry run that passed: all, none, or those of some "
        "codes or prefixes. One that `ignore` names is not tried either.",
        "both",
        values.experiments,
        {"type": ["boolean", "array"], "items": {"type": "string"}},
        'experiments = ["DG921"]',
    ),
    Option(
        "debounce",
        "milliseconds",
        "120",
        "How long the server waits after the last keystroke before it checks a file.",
        "editor",
        values.milliseconds,
        {"type": "integer", "minimum": 0, "maximum": 10_000},
        '"drygrad.debounce": 100',
    ),
    Option(
        "trusted",
        "true or false",
        "false",
        "Whether dry runs may execute the code of this workspace. Set it for code that you would run yourself; "
        "it may also be given once, in the initialization options.",
        "editor",
        values.switch,
        {"type": "boolean"},
        '"drygrad.trusted": true',
    ),
    Option(
        "device",
        "auto, cuda, sim or cpu",
        "auto",
        "Where dry runs happen: on a GPU (`cuda`), a GPU simulated in host memory (`sim`), the CPU (`cpu`), "
        "or (`auto`) on the first of these that is there and has room.",
        "editor",
        values.device,
        {"enum": list(get_args(Device))},
        '"drygrad.device": "sim"',
        of_runs=True,
    ),
    Option(
        "interpreter",
        "path",
        "none",
        "The Python that has your packages. Without it, VS Code takes the one chosen in its Python extensions, "
        "or the virtual environment nearest to the file; else it is VIRTUAL_ENV, the project's .venv, CONDA_PREFIX, "
        "then PATH.",
        "editor",
        values.text,
        {"type": "string"},
        '"drygrad.interpreter": "/opt/envs/train/bin/python"',
        of_runs=True,
    ),
    Option(
        "launcher",
        "list of words",
        "[]",
        "A command put in front of the interpreter, which starts it elsewhere: in a container, on another machine.",
        "editor",
        values.words,
        _TEXT_LIST,
        '"drygrad.launcher": ["srun", "--gres=gpu:1"]',
    ),
    Option(
        "launch",
        "command, or the name of one",
        "none",
        "How the program is started that is dry-run: a command such as `torchrun --nproc-per-node 4 train.py`, or the "
        "name of one of `launches` or of those that `drygrad launches` lists.",
        "editor",
        values.command,
        {"type": "string"},
        '"drygrad.launch": "python train.py --config small.yaml"',
        of_runs=True,
    ),
    Option(
        "launches",
        "table: name = command",
        "{}",
        "Commands that start the project's programs, by names to be used with `launch` and `--launch`.",
        "run",
        values.commands,
        {"type": "object", "additionalProperties": {"type": "string"}},
        'launches = { small = "python train.py --config small.yaml" }',
    ),
    Option(
        "arguments",
        "list of words",
        "[]",
        "What scripts are started with that are run without a command line.",
        "run",
        values.words,
        _TEXT_LIST,
        'arguments = ["--config", "small.yaml"]',
    ),
    Option(
        "environment",
        "table: name = text",
        "{}",
        "Variables that all dry runs have.",
        "run",
        values.texts_by_name,
        {"type": "object", "additionalProperties": {"type": "string"}},
        'environment = { DATA = "data/small" }',
    ),
    Option(
        "gpu-memory",
        "GiB",
        "0",
        "How much memory the simulated GPU has, and how much a run may take of a real one; 0: as much as there is.",
        "editor",
        values.gibibytes,
        {"type": "number", "minimum": 0, "maximum": values.MAX_GIBIBYTES},
        '"drygrad.gpuMemory": 24',
        of_runs=True,
    ),
    Option(
        "timeout",
        "seconds",
        "30",
        "How long a dry run may take before it is ended. Its imports have a minute of their own beside that.",
        "editor",
        values.seconds,
        {"type": "number", "exclusiveMinimum": 0, "maximum": values.MAX_SECONDS},
        '"drygrad.timeout": 10',
        of_runs=True,
    ),
    Option(
        "memory-limit",
        "GiB",
        "0",
        "How much memory a dry run may take before it is ended; 0: most of what is free when it begins.",
        "editor",
        values.gibibytes,
        {"type": "number", "minimum": 0, "maximum": values.MAX_GIBIBYTES},
        '"drygrad.memoryLimit": 8',
        of_runs=True,
    ),
    Option(
        "search-time",
        "seconds",
        "2",
        "How long a dry run may search for inputs of a function, where neither a comment nor a call gives them.",
        "editor",
        values.seconds,
        {"type": "number", "exclusiveMinimum": 0, "maximum": values.MAX_SECONDS},
        '"drygrad.searchTime": 5',
        of_runs=True,
    ),
    Option(
        "program-time",
        "seconds",
        "10",
        "How long a program of the project (a script, an example) may compute until it calls a function that is to be "
        "run, where no call of it gives inputs; 0: none is run for that.",
        "editor",
        values.seconds_or_none,
        {"type": "number", "minimum": 0, "maximum": values.MAX_SECONDS},
        '"drygrad.programTime": 0',
        of_runs=True,
    ),
    Option(
        "verify-time",
        "seconds",
        "10",
        "How long fixes may be tried after a dry run, in the background, by running the repaired text.",
        "editor",
        values.seconds,
        {"type": "number", "exclusiveMinimum": 0, "maximum": values.MAX_SECONDS},
        '"drygrad.verifyTime": 3',
        of_runs=True,
    ),
    Option(
        "experiment-time",
        "seconds",
        "5",
        "How long experiments may follow a dry run that passed; 0: none do. Each runs the target again with one thing "
        "changed, and says where that shows a fault.",
        "editor",
        values.seconds_or_none,
        {"type": "number", "minimum": 0, "maximum": values.MAX_SECONDS},
        '"drygrad.experimentTime": 0',
        of_runs=True,
    ),
    Option(
        "dry-run-on-save",
        "true or false",
        "true",
        "Whether functions that you have dry-run once run again when their file, or one that it imports, is saved.",
        "editor",
        values.switch,
        {"type": "boolean"},
        '"drygrad.dryRunOnSave": false',
    ),
    Option(
        "code-lens",
        "true or false",
        "true",
        "Whether a lens above each function offers a dry run and shows how the last one ended.",
        "editor",
        values.switch,
        {"type": "boolean"},
        '"drygrad.codeLens": false',
    ),
    Option(
        "inlay-hints",
        "true or false",
        "true",
        "Whether the shapes, dtypes and devices that the last dry run saw stand behind the assignments.",
        "editor",
        values.switch,
        {"type": "boolean"},
        '"drygrad.inlayHints": false',
    ),
    Option(
        "log-level",
        "error, warning, info or debug",
        "info",
        "How much the server writes into its log.",
        "editor",
        values.log_level,
        {"enum": list(get_args(LogLevel))},
        '"drygrad.logLevel": "debug"',
    ),
)
