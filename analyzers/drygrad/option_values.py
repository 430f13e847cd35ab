"""How the values of settings are read: what each kind takes, and what is said where it gets something else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from typing import cast, get_args

from drygrad.gpus import gpu_named
from drygrad.model import SEVERITIES
from drygrad.settings import Device, DiagnosticMode, Hover, LogLevel

MAX_SECONDS = 3600
MAX_GIBIBYTES = 65536


class OptionError(Exception):
    """A value that an option does not take; one complaint for each part that is wrong."""

    def __init__(self, *complaints: tuple[str, str | None]) -> None:
        super().__init__("; ".join(message for message, _ in complaints))
        self.complaints = complaints


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


def codes(value: object) -> tuple[str, ...]:
    """Return codes of rules, or their beginnings."""
    codes = _texts(value, "codes")
    problems = [(problem, code) for code in codes if (problem := code_problem(code))]
    if problems:
        raise OptionError(*problems)
    return codes


def patterns(value: object) -> tuple[str, ...]:
    """Return patterns of paths."""
    return _texts(value, "patterns")


def _table(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise OptionError((f"expected a table of {what}, got {_toml_type(value)}", None))
    return cast("dict[str, object]", value)


def severities(value: object) -> dict[str, str]:
    """Return severities by code."""
    table = _table(value, "codes and severities")
    problems: list[tuple[str, str | None]] = []
    for code, severity in table.items():
        if problem := code_problem(code):
            problems.append((problem, code))
        elif severity not in SEVERITIES:
            problems.append((f"{severity!r} is not a severity; use one of {', '.join(SEVERITIES)}", code))
    if problems:
        raise OptionError(*problems)
    return cast("dict[str, str]", table)


def per_file(value: object) -> dict[str, tuple[str, ...]]:
    """Return lists of codes by pattern."""
    return {pattern: codes(given) for pattern, given in _table(value, "patterns and lists of codes").items()}


def version(value: object) -> tuple[int, int]:
    """Return a version of torch as two numbers."""
    match = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?", value) if isinstance(value, str) else None
    if match is None:
        raise OptionError((f'expected a torch version such as "2.4", got {value!r}', None))
    return int(match[1]), int(match[2])


def text(value: object) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise OptionError((f"expected a text, got {_toml_type(value)}", None))
    return value


def milliseconds(value: object) -> int:
    """Return a number of milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10_000:
        raise OptionError((f"expected a whole number from 0 to 10000, got {value!r}", None))
    return value


def log_level(value: object) -> str:
    """Return how much is logged."""
    return _one_of(value, get_args(LogLevel), "log level")


def device(value: object) -> str:
    """Return where runs happen."""
    return _one_of(value, get_args(Device), "device")


def hover(value: object) -> str:
    """Read how much a hover says."""
    return _one_of(value, get_args(Hover), "hover")


def diagnostic_mode(value: object) -> str:
    """Read which files are checked."""
    return _one_of(value, get_args(DiagnosticMode), "diagnostic mode")


def _one_of(value: object, words: tuple[str, ...], what: str) -> str:
    if value not in words:
        raise OptionError((f"{value!r} is not a {what}; use one of {', '.join(words)}", None))
    return str(value)


def seconds(value: object) -> float:
    """Return seconds, more than none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_SECONDS:
        raise OptionError((f"expected seconds, above 0 and up to {MAX_SECONDS}, got {value!r}", None))
    return float(value)


def seconds_or_none(value: object) -> float:
    """Return seconds, or none at all."""
    if value == 0 and not isinstance(value, bool):
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_SECONDS:
        raise OptionError((f"expected seconds, from 0 to {MAX_SECONDS}, got {value!r}", None))
    return float(value)


def experiments(value: object) -> tuple[str, ...]:
    """Return the codes of experiments; none of them for false."""
    if isinstance(value, bool):
        return ("DG",) if value else ()
    if not isinstance(value, list):
        raise OptionError((f"expected true, false or a list of codes, got {_toml_type(value)}", None))
    wanted = codes(cast("list[object]", value))
    from drygrad.static.registry import relations  # noqa: PLC0415 - as above

    known = [*relations()]
    strange = [code for code in wanted if not any(relation.startswith(code) for relation in known)]
    if strange:
        problem = f"no experiment tries `{strange[0]}`; they try {', '.join(known)}"
        raise OptionError((problem, strange[0]))
    return wanted


def gibibytes(value: object) -> float:
    """Return GiB."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_GIBIBYTES:
        raise OptionError((f"expected GiB, from 0 to {MAX_GIBIBYTES}, got {value!r}", None))
    return float(value)


def gpu(value: object) -> str:
    """Return the name of a GPU, or a size, as it was given."""
    name = text(value)
    try:
        gpu_named(name)
    except ValueError as error:
        raise OptionError((str(error), name)) from error
    return name


def switch(value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise OptionError((f"expected true or false, got {_toml_type(value)}", None))
    return value


def words(value: object) -> tuple[str, ...]:
    """Return words."""
    return _texts(value, "words")


def _toml_type(value: object) -> str:
    names = {"bool": "a boolean", "int": "a number", "float": "a number", "str": "a text", "dict": "a table"}
    name = type(value).__name__
    return names.get(name, f"a {name}")


def command(value: object) -> str:
    """Return a command, which may be given as its words."""
    if isinstance(value, list):
        return shlex.join(words(cast("list[object]", value)))
    return text(value)


def texts_by_name(value: object) -> dict[str, str]:
    """Return texts by name, such as variables."""
    table = _table(value, "names and texts")
    strange = [name for name, given in table.items() if not isinstance(given, str)]
    if strange:
        raise OptionError((f"expected a text for {strange[0]}, got {_toml_type(table[strange[0]])}", strange[0]))
    return cast("dict[str, str]", table)


def commands(value: object) -> dict[str, str]:
    """Return commands by name."""
    return {name: command(given) for name, given in _table(value, "names and commands").items()}
