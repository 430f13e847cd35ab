"""The one table of settings: from it come validation, ``docs/settings.md`` and the editors' schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, cast, get_args

from drygrad.model import SEVERITIES
from drygrad.settings import Device, LogLevel

Scope = Literal["file", "editor", "both"]
Reader: TypeAlias = Callable[[object], Any]


@dataclass(frozen=True)
class Complaint:
    """Why a value was refused. ``key`` leads to it; ``item`` is the text inside the value that is wrong, if one is."""

    key: tuple[str, ...]
    message: str
    item: str | None = None


class OptionError(Exception):
    """A value that an option does not take; one complaint for each part that is wrong."""

    def __init__(self, *complaints: tuple[str, str | None]) -> None:
        super().__init__("; ".join(message for message, _ in complaints))
        self.complaints = complaints


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


def validate(given: Mapping[str, object], place: Literal["file", "editor"]) -> Validated:
    """Read the settings of a file (kebab-case) or of an editor (camelCase); what is wrong keeps its default."""
    known = {(o.editor_name if place == "editor" else o.name): o for o in OPTIONS}
    result = Validated()
    for key, value in given.items():
        option = known.get(key)
        if option is None:
            result.complaints.append(Complaint((key,), f"unknown setting `{key}`{did_you_mean(key, known)}", key))
        elif option.scope not in (place, "both"):
            where = "the editor, not in a file" if place == "file" else "pyproject.toml, not in the editor"
            result.complaints.append(Complaint((key,), f"`{key}` is set in {where}"))
        elif value is not None:
            _read(option, key, value, result)
    return result


def _read(option: Option, key: str, value: object, result: Validated) -> None:
    try:
        result.values[option.attribute] = option.read(value)
    except OptionError as error:
        result.complaints += [Complaint((key,), f"`{key}`: {message}", item) for message, item in error.complaints]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a suggestion to append to a message; empty if nothing is near."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""


def code_problem(code: str) -> str | None:
    """Say why a text is not the code of a rule or the beginning of one; None if it is."""
    from drygrad.static.registry import all_rules  # noqa: PLC0415 - imports every rule; only a set list of codes needs it

    rules = all_rules()
    if re.fullmatch(r"DG\d{0,3}", code) and any(rule.code.startswith(code) for rule in rules):
        return None
    named = next((rule.code for rule in rules if rule.name == code), None)
    if named:
        return f"`{code}` is a name; write its code, `{named}`"
    return f"no rule has the code `{code}`{did_you_mean(code.upper(), [rule.code for rule in rules])}"


def _texts(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise OptionError((f"expected a list of {what}, got {_toml_type(value)}", None))
    items = cast("list[object]", value)
    strange = [item for item in items if not isinstance(item, str)]
    if strange:
        raise OptionError((f"expected a list of {what}, got one with {_toml_type(strange[0])}", None))
    return tuple(str(item) for item in items)


def _codes(value: object) -> tuple[str, ...]:
    codes = _texts(value, "codes")
    problems = [(problem, code) for code in codes if (problem := code_problem(code))]
    if problems:
        raise OptionError(*problems)
    return codes


def _patterns(value: object) -> tuple[str, ...]:
    return _texts(value, "patterns")


def _table(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise OptionError((f"expected a table of {what}, got {_toml_type(value)}", None))
    return cast("dict[str, object]", value)


def _severities(value: object) -> dict[str, str]:
    table = _table(value, "codes and severities")
    problems: list[tuple[str, str | None]] = []
    for code, severity in table.items():
        if problem := code_problem(code):
            problems.append((problem, code))
        elif severity not in SEVERITIES:
            problems.append((f"{severity!r} is no severity; use one of {', '.join(SEVERITIES)}", code))
    if problems:
        raise OptionError(*problems)
    return cast("dict[str, str]", table)


def _per_file(value: object) -> dict[str, tuple[str, ...]]:
    return {pattern: _codes(codes) for pattern, codes in _table(value, "patterns and lists of codes").items()}


def _version(value: object) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?", value) if isinstance(value, str) else None
    if match is None:
        raise OptionError((f'expected a torch version such as "2.4", got {value!r}', None))
    return int(match[1]), int(match[2])


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise OptionError((f"expected a text, got {_toml_type(value)}", None))
    return value


def _milliseconds(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10_000:
        raise OptionError((f"expected a whole number from 0 to 10000, got {value!r}", None))
    return value


def _log_level(value: object) -> str:
    return _one_of(value, get_args(LogLevel), "log level")


def _device(value: object) -> str:
    return _one_of(value, get_args(Device), "device")


def _one_of(value: object, words: tuple[str, ...], what: str) -> str:
    if value not in words:
        raise OptionError((f"{value!r} is no {what}; use one of {', '.join(words)}", None))
    return str(value)


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MAX_SECONDS:
        raise OptionError((f"expected seconds, above 0 and up to {_MAX_SECONDS}, got {value!r}", None))
    return float(value)


def _seconds_or_none(value: object) -> float:
    if value == 0 and not isinstance(value, bool):
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MAX_SECONDS:
        raise OptionError((f"expected seconds, from 0 to {_MAX_SECONDS}, got {value!r}", None))
    return float(value)


def _experiments(value: object) -> tuple[str, ...]:
    if isinstance(value, bool):
        return ("DG",) if value else ()
    if not isinstance(value, list):
        raise OptionError((f"expected true, false or a list of codes, got {_toml_type(value)}", None))
    codes = _codes(cast("list[object]", value))
    from drygrad.static.registry import relations  # noqa: PLC0415 - as above

    known = [*relations()]
    strange = [code for code in codes if not any(relation.startswith(code) for relation in known)]
    if strange:
        problem = f"no experiment tries `{strange[0]}`; they try {', '.join(known)}"
        raise OptionError((problem, strange[0]))
    return codes


def _gibibytes(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MAX_GIBIBYTES:
        raise OptionError((f"expected GiB, from 0 to {_MAX_GIBIBYTES}, got {value!r}", None))
    return float(value)


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise OptionError((f"expected true or false, got {_toml_type(value)}", None))
    return value


def _words(value: object) -> tuple[str, ...]:
    return _texts(value, "words")


def _toml_type(value: object) -> str:
    names = {"bool": "a boolean", "int": "a number", "float": "a number", "str": "a text", "dict": "a table"}
    name = type(value).__name__
    return names.get(name, f"a {name}")


_MAX_SECONDS = 3600
_MAX_GIBIBYTES = 65536

_TEXT_LIST = {"type": "array", "items": {"type": "string"}}

OPTIONS: tuple[Option, ...] = (
    Option(
        "select",
        "list of codes",
        '["DG"]',
        "The rules to report. A code may be a prefix: `DG3` is the family, `DG304` one rule. "
        "Where `select` and `ignore` both match a rule, the longer code decides.",
        "both",
        _codes,
        _TEXT_LIST,
        'select = ["DG1", "DG3"]',
    ),
    Option(
        "ignore",
        "list of codes",
        "[]",
        "The rules not to report. Prefixes as in `select`.",
        "both",
        _codes,
        _TEXT_LIST,
        'ignore = ["DG206"]',
    ),
    Option(
        "severity",
        "table: code = severity",
        "{}",
        f"Another severity for a rule or a family: {', '.join(SEVERITIES)}.",
        "both",
        _severities,
        {"type": "object", "additionalProperties": {"enum": list(SEVERITIES)}},
        'severity = { DG206 = "warning" }',
    ),
    Option(
        "per-file-ignores",
        "table: pattern = list of codes",
        "{}",
        "Rules not to report in some files. Patterns are those of .gitignore, relative to the file of the settings.",
        "file",
        _per_file,
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
        _patterns,
        _TEXT_LIST,
        'exclude = ["third_party/"]',
    ),
    Option(
        "target-torch",
        "version",
        "the newest",
        "The torch version that the code is written for. Rules that do not hold for it are off.",
        "both",
        _version,
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
        _text,
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
        _experiments,
        {"type": ["boolean", "array"], "items": {"type": "string"}},
        'experiments = ["DG921"]',
    ),
    Option(
        "debounce",
        "milliseconds",
        "120",
        "How long the server waits after the last keystroke before it checks a file.",
        "editor",
        _milliseconds,
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
        _switch,
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
        _device,
        {"enum": list(get_args(Device))},
        '"drygrad.device": "sim"',
    ),
    Option(
        "interpreter",
        "path",
        "none",
        "The Python that has your packages. Without it, VS Code takes the one chosen in its Python extensions, "
        "or the virtual environment nearest to the file; else it is VIRTUAL_ENV, the project's .venv, CONDA_PREFIX, "
        "then PATH.",
        "editor",
        _text,
        {"type": "string"},
        '"drygrad.interpreter": "/opt/envs/train/bin/python"',
    ),
    Option(
        "launcher",
        "list of words",
        "[]",
        "A command put in front of the interpreter, which starts it elsewhere: in a container, on another machine.",
        "editor",
        _words,
        _TEXT_LIST,
        '"drygrad.launcher": ["srun", "--gres=gpu:1"]',
    ),
    Option(
        "timeout",
        "seconds",
        "30",
        "How long a dry run may take before it is ended. Its imports have a minute of their own beside that.",
        "editor",
        _seconds,
        {"type": "number", "exclusiveMinimum": 0, "maximum": _MAX_SECONDS},
        '"drygrad.timeout": 10',
    ),
    Option(
        "memory-limit",
        "GiB",
        "0",
        "How much memory a dry run may take before it is ended; 0: most of what is free when it begins.",
        "editor",
        _gibibytes,
        {"type": "number", "minimum": 0, "maximum": _MAX_GIBIBYTES},
        '"drygrad.memoryLimit": 8',
    ),
    Option(
        "search-time",
        "seconds",
        "2",
        "How long a dry run may search for inputs of a function, where neither a comment nor a call gives them.",
        "editor",
        _seconds,
        {"type": "number", "exclusiveMinimum": 0, "maximum": _MAX_SECONDS},
        '"drygrad.searchTime": 5',
    ),
    Option(
        "program-time",
        "seconds",
        "10",
        "How long a program of the project (a script, an example) may compute until it calls a function that is to be "
        "run, where no call of it gives inputs; 0: none is run for that.",
        "editor",
        _seconds_or_none,
        {"type": "number", "minimum": 0, "maximum": _MAX_SECONDS},
        '"drygrad.programTime": 0',
    ),
    Option(
        "verify-time",
        "seconds",
        "10",
        "How long fixes may be tried after a dry run, in the background, by running the repaired text.",
        "editor",
        _seconds,
        {"type": "number", "exclusiveMinimum": 0, "maximum": _MAX_SECONDS},
        '"drygrad.verifyTime": 3',
    ),
    Option(
        "experiment-time",
        "seconds",
        "5",
        "How long experiments may follow a dry run that passed; 0: none do. Each runs the target again with one thing "
        "changed, and says where that shows a fault.",
        "editor",
        _seconds_or_none,
        {"type": "number", "minimum": 0, "maximum": _MAX_SECONDS},
        '"drygrad.experimentTime": 0',
    ),
    Option(
        "dry-run-on-save",
        "true or false",
        "true",
        "Whether functions that you have dry-run once run again when their file, or one that it imports, is saved.",
        "editor",
        _switch,
        {"type": "boolean"},
        '"drygrad.dryRunOnSave": false',
    ),
    Option(
        "code-lens",
        "true or false",
        "true",
        "Whether a lens above each function offers a dry run and shows how the last one ended.",
        "editor",
        _switch,
        {"type": "boolean"},
        '"drygrad.codeLens": false',
    ),
    Option(
        "inlay-hints",
        "true or false",
        "true",
        "Whether the shapes, dtypes and devices that the last dry run saw stand behind the assignments.",
        "editor",
        _switch,
        {"type": "boolean"},
        '"drygrad.inlayHints": false',
    ),
    Option(
        "log-level",
        "error, warning, info or debug",
        "info",
        "How much the server writes into its log.",
        "editor",
        _log_level,
        {"enum": list(get_args(LogLevel))},
        '"drygrad.logLevel": "debug"',
    ),
)
