"""The one table of settings: from it come validation, ``docs/settings.md`` and the editors' schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from drygrad import option_values as values
from drygrad.launchers import Files
from drygrad.model import SEVERITIES
from drygrad.option_values import OptionError, did_you_mean
from drygrad.profile_values import MAX_RESTARTS, MAX_WAIT, launchers
from drygrad.settings import Device, DiagnosticMode, Hover, LogLevel

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

_PROFILES = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {
                    "command": {"anyOf": [{"type": "string"}, _TEXT_LIST]},
                    "python": {"type": "string"},
                    "setup": {"type": "string"},
                    "files": {"enum": list(get_args(Files))},
                    "paths": {"type": "object", "additionalProperties": {"type": "string"}},
                    "start-limit": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_WAIT},
                    "idle": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_WAIT},
                    "restarts": {"type": "integer", "minimum": 0, "maximum": MAX_RESTARTS},
                },
                "required": ["command"],
                "additionalProperties": False,
            },
        ]
    },
}

OPTIONS: tuple[Option, ...] = (
    Option(
        "select",
        "list of codes",
        '["DG"]',
        "Rules to report. A code may be a prefix: `DG3` selects a family, `DG304` one rule. If `select` and `ignore` "
        "both match a rule, the longer code wins.",
        "both",
        values.codes,
        _TEXT_LIST,
        'select = ["DG1", "DG3"]',
    ),
    Option(
        "ignore",
        "list of codes",
        "[]",
        "Rules not to report. Prefixes work as in `select`.",
        "both",
        values.codes,
        _TEXT_LIST,
        'ignore = ["DG206"]',
    ),
    Option(
        "severity",
        "table: code = severity",
        "{}",
        f"Overrides the severity of a rule or a family: {', '.join(SEVERITIES)}.",
        "both",
        values.severities,
        {"type": "object", "additionalProperties": {"enum": list(SEVERITIES)}},
        'severity = { DG206 = "warning" }',
    ),
    Option(
        "per-file-ignores",
        "table: pattern = list of codes",
        "{}",
        "Rules not to report in some files. Patterns use .gitignore syntax, relative to the settings file.",
        "file",
        values.per_file,
        {"type": "object", "additionalProperties": _TEXT_LIST},
        'per-file-ignores = { "tests/**" = ["DG7"] }',
    ),
    Option(
        "exclude",
        "list of patterns",
        "[]",
        "Files and folders to skip when a folder is checked, in addition to hidden and ignored ones. Files named on "
        "the command line are always checked. Patterns use .gitignore syntax.",
        "both",
        values.patterns,
        _TEXT_LIST,
        'exclude = ["third_party/"]',
    ),
    Option(
        "target-torch",
        "version",
        "the newest",
        "The torch version your code targets. Rules that do not apply to it are disabled.",
        "both",
        values.version,
        {"type": "string", "pattern": r"^\d+\.\d+(\.\d+)?$"},
        'target-torch = "2.4"',
    ),
    Option(
        "baseline",
        "path",
        "none",
        "A file with known findings to leave out, written by `drygrad check --write-baseline`. The path is relative "
        "to the settings file.",
        "file",
        values.text,
        {"type": "string"},
        'baseline = "drygrad-baseline.json"',
    ),
    Option(
        "experiments",
        "true, false, or a list of codes",
        "true",
        "Which experiments follow a dry run that passed: all, none, or a list of codes or prefixes. Codes in "
        "`ignore` are not tried either.",
        "both",
        values.experiments,
        {"type": ["boolean", "array"], "items": {"type": "string"}},
        'experiments = ["DG921"]',
    ),
    Option(
        "debounce",
        "milliseconds",
        "120",
        "How long the server waits after the last keystroke before checking a file.",
        "editor",
        values.milliseconds,
        {"type": "integer", "minimum": 0, "maximum": 10_000},
        '"drygrad.debounce": 100',
    ),
    Option(
        "diagnostic-mode",
        "openFilesOnly or workspace",
        "openFilesOnly",
        "Whether findings are shown for open files only or for all Python files in the workspace, as `drygrad check` "
        "would report them. Checking the workspace needs an editor that asks for workspace diagnostics, such as VS "
        "Code, and takes effect when the server starts.",
        "editor",
        values.diagnostic_mode,
        {"enum": list(get_args(DiagnosticMode))},
        '"drygrad.diagnosticMode": "workspace"',
    ),
    Option(
        "trusted",
        "true or false",
        "false",
        "Whether dry runs may execute the code in this workspace. Enable it only for code that you would run "
        "yourself. It can also be passed once, in the initialization options.",
        "editor",
        values.switch,
        {"type": "boolean"},
        '"drygrad.trusted": true',
    ),
    Option(
        "device",
        "auto, cuda, sim or cpu",
        "auto",
        "Where dry runs execute: on a GPU (`cuda`), on a GPU simulated in host memory (`sim`), on the CPU (`cpu`), "
        "or (`auto`) on the first of these that is available and has free memory.",
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
        "The Python interpreter with your packages. By default, VS Code uses the interpreter selected in its Python "
        "extensions or the virtual environment nearest to the file; otherwise it is VIRTUAL_ENV, the project's "
        ".venv, CONDA_PREFIX, then PATH.",
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
        "How dry runs get to another machine or container: a command such as `ssh gpubox`, or the name of a profile "
        "from `launchers`.",
        "editor",
        values.words,
        _TEXT_LIST,
        '"drygrad.launcher": ["srun", "--gres=gpu:1"]',
    ),
    Option(
        "launchers",
        "table: name = profile",
        "{}",
        "Named ways to other machines, for use with `launcher` and `--launcher`. Each is a command, or a table with "
        "`command` and, as needed, `python`, `setup`, `files`, `paths`, `start-limit`, `idle` and `restarts`.",
        "editor",
        launchers,
        _PROFILES,
        '"drygrad.launchers": { "gpubox": { "command": "ssh gpubox", "python": "/opt/venv/bin/python" } }',
        of_runs=True,
    ),
    Option(
        "launch",
        "command, or the name of one",
        "none",
        "How to launch the program for a dry run: a command such as `torchrun --nproc-per-node 4 train.py`, or a "
        "name from `launches` or `drygrad launches`.",
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
        "Named commands that launch the project's programs, for use with `launch` and `--launch`.",
        "run",
        values.commands,
        {"type": "object", "additionalProperties": {"type": "string"}},
        'launches = { small = "python train.py --config small.yaml" }',
    ),
    Option(
        "arguments",
        "list of words",
        "[]",
        "Arguments for scripts that are run without a command line.",
        "run",
        values.words,
        _TEXT_LIST,
        'arguments = ["--config", "small.yaml"]',
    ),
    Option(
        "environment",
        "table: name = text",
        "{}",
        "Environment variables for all dry runs.",
        "run",
        values.texts_by_name,
        {"type": "object", "additionalProperties": {"type": "string"}},
        'environment = { DATA = "data/small" }',
    ),
    Option(
        "gpu-memory",
        "GiB",
        "0",
        "Memory of the simulated GPU, and the limit for a run on a real one; 0: no limit.",
        "editor",
        values.gibibytes,
        {"type": "number", "minimum": 0, "maximum": values.MAX_GIBIBYTES},
        '"drygrad.gpuMemory": 24',
        of_runs=True,
    ),
    Option(
        "gpu",
        "name, or a size",
        "none",
        "The GPU that forecasts are made for: `H100-80GB`, `rtx4090`, or a size such as `24GiB`.",
        "editor",
        values.gpu,
        {"type": "string"},
        '"drygrad.gpu": "H100-80GB"',
        of_runs=True,
    ),
    Option(
        "timeout",
        "seconds",
        "30",
        "Time limit of a dry run. Imports have a separate limit of one minute.",
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
        "Memory limit of a dry run; 0: most of the memory that is free when it starts.",
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
        "Time limit of the search for inputs, for functions without a `# dry-run:` comment or a usable call.",
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
        "How long a script or example of the project may run until it calls the target, if no call of it gives "
        "inputs; 0: do not run any.",
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
        "Time limit for verifying fixes after a dry run, in the background, by running the repaired code.",
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
        "Time limit for experiments after a dry run that passed; 0: no experiments. Each one runs the target again "
        "with one thing changed and reports a fault if the result shows one.",
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
        "Whether functions that have been dry-run run again when their file, or one that it imports, is saved.",
        "editor",
        values.switch,
        {"type": "boolean"},
        '"drygrad.dryRunOnSave": false',
    ),
    Option(
        "code-lens",
        "true or false",
        "true",
        "Whether to show a lens above each function that starts a dry run and shows how the last one ended.",
        "editor",
        values.switch,
        {"type": "boolean"},
        '"drygrad.codeLens": false',
    ),
    Option(
        "inlay-hints",
        "true or false",
        "true",
        "Whether to show the shapes, dtypes and devices of the last dry run at the ends of lines.",
        "editor",
        values.switch,
        {"type": "boolean"},
        '"drygrad.inlayHints": false',
    ),
    Option(
        "hover",
        "short or page",
        "short",
        "What a hover shows about a rule: a summary with a link to its page, or the whole page.",
        "editor",
        values.hover,
        {"enum": list(get_args(Hover))},
        '"drygrad.hover": "page"',
    ),
    Option(
        "prewarm",
        "true or false",
        "true",
        "Whether to start a worker as soon as a trusted file that imports torch has been opened and checked, so that "
        "the first dry run does not have to wait. It needs 2 GiB of free memory, and ends after 15 minutes if unused.",
        "editor",
        values.switch,
        {"type": "boolean"},
        '"drygrad.prewarm": false',
    ),
    Option(
        "log-level",
        "error, warning, info or debug",
        "info",
        "How much the server logs.",
        "editor",
        values.log_level,
        {"enum": list(get_args(LogLevel))},
        '"drygrad.logLevel": "debug"',
    ),
)
