"""How launcher profiles are read from settings."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

from drygrad.launchers import Files, Profile
from drygrad.option_values import OptionError, did_you_mean, text, texts_by_name, words

MAX_WAIT = 7 * 86400
MAX_RESTARTS = 100


def launchers(value: object) -> dict[str, Profile]:
    """Return profiles by name."""
    if not isinstance(value, dict):
        raise OptionError(("expected a table of names and profiles", None))
    return {name: _profile(name, given) for name, given in cast("dict[str, object]", value).items()}


def _profile(name: str, value: object) -> Profile:
    """Return a profile; a text, or a list of words, is its command."""
    if not isinstance(value, dict):
        return Profile(_command(value), name)
    given = {key.replace("startLimit", "start-limit"): one for key, one in cast("dict[str, object]", value).items()}
    fields: dict[str, Any] = {}
    for key, one in given.items():
        read = _FIELDS.get(key)
        if read is None:
            raise OptionError((f"`{name}` has no `{key}`{did_you_mean(key, _FIELDS)}", key))
        fields[key.replace("-", "_")] = read(one)
    if "command" not in fields:
        raise OptionError((f"`{name}` needs a `command`, such as `ssh host`", name))
    if fields.get("files") == "sent" and fields.get("paths"):
        raise OptionError((f"`{name}`: `paths` are for files that are shared, not sent", "paths"))
    return Profile(name=name, **fields)


def _command(value: object) -> tuple[str, ...]:
    try:
        found = tuple(shlex.split(value)) if isinstance(value, str) else words(value)
    except ValueError as error:
        raise OptionError((f"{value!r} is not a command line: {error}", None)) from error
    if not found:
        raise OptionError(("expected a command, got none", None))
    return found


def _files(value: object) -> str:
    if value not in get_args(Files):
        raise OptionError((f"{value!r} is neither `sent` nor `shared`", None))
    return str(value)


def _paths(value: object) -> tuple[tuple[str, str], ...]:
    pairs = tuple((Path(here).expanduser(), there.rstrip("/")) for here, there in texts_by_name(value).items())
    strange = next((there for here, there in pairs if not here.is_absolute() or not there.startswith("/")), None)
    if strange is not None:
        raise OptionError((f"`paths` leads from absolute folders to absolute folders, not to {strange!r}", strange))
    return tuple((str(here), there) for here, there in pairs)


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_WAIT:
        raise OptionError((f"expected seconds, above 0 and up to {MAX_WAIT}, got {value!r}", None))
    return float(value)


def _restarts(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_RESTARTS:
        raise OptionError((f"expected a whole number from 0 to {MAX_RESTARTS}, got {value!r}", None))
    return value


_FIELDS: dict[str, Callable[[object], Any]] = {
    "command": _command,
    "python": text,
    "setup": text,
    "files": _files,
    "paths": _paths,
    "start-limit": _seconds,
    "idle": _seconds,
    "restarts": _restarts,
}
