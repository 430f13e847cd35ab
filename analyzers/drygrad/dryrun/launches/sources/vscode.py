"""VS Code's ``launch.json`` and ``tasks.json``: JSON with comments."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from drygrad.dryrun.launches import reading, shell
from drygrad.dryrun.launches.launch import Launch, LaunchError, Origin
from drygrad.dryrun.launches.shell_scripts import Place

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[\]}])', re.DOTALL)
_VARIABLE = re.compile(r"\$\{(workspaceFolder|workspaceRoot|userHome|env:(\w+)|workspaceFolder:[^}]*)\}")
_DEBUGGERS = ("python", "debugpy")


def launches(text: str, place: Place) -> Iterator[Launch]:
    """Yield the launches of either file. LaunchError where it is no JSON."""
    document = _document(text, place.path)
    table = _mapping(document.get("launch")) if place.path.suffix == ".code-workspace" else document
    for entry in _objects(table.get("configurations")):
        launch = _configured(entry, place)
        if launch is not None:
            yield launch.found_at(_origin(text, entry, "name", place))
    for entry in _objects(table.get("tasks")):
        launch = _task(entry, place)
        if launch is not None:
            yield launch.found_at(_origin(text, entry, "label", place))


def _document(text: str, path: Path) -> Mapping[str, Any]:
    plain = _TOKEN.sub(lambda match: match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0]), text)
    try:
        found: object = json.loads(plain) if plain.strip() else None
    except (ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        why = error.msg if isinstance(error, json.JSONDecodeError) else "it is nested too deep"
        raise LaunchError(f"{path}{line}: it is not JSON with comments: {why}") from error
    return _mapping(found)


def _configured(entry: Mapping[str, Any], place: Place) -> Launch | None:
    """Return what a debugger's configuration starts."""
    if entry.get("type") not in _DEBUGGERS or entry.get("request") != "launch":
        return None
    fill = _Filling(place)
    program, module = entry.get("program"), entry.get("module")
    given = entry.get("args")
    arguments = shell.split(given) if isinstance(given, str) else _texts(given)
    if isinstance(module, str):
        words = ["python", "-m", module, *arguments]
    elif isinstance(program, str):
        words = ["python", program, *arguments]
    else:
        return None
    return _read([fill(word) for word in words], entry.get("env"), entry.get("cwd"), fill)


def _task(entry: Mapping[str, Any], place: Place) -> Launch | None:
    """Return what a task starts: a command with arguments, or a line of a shell."""
    fill = _Filling(place)
    command, given = entry.get("command"), _texts(entry.get("args"))
    if not isinstance(command, str):
        return None
    table = _mapping(entry.get("options"))
    line = entry.get("type") != "process"
    try:
        words = [*(shell.split(fill(command)) if line else [fill(command)]), *(fill(word) for word in given)]
    except shell.Unclosed:
        return None
    return _read(words, table.get("env"), table.get("cwd"), fill)


def _read(words: list[str], environment: object, folder: object, fill: _Filling) -> Launch | None:
    known = {name: fill(value) for name, value in _mapping(environment).items() if isinstance(value, str)}
    place = fill.root / fill(folder) if isinstance(folder, str) else fill.root
    try:
        return reading.read(words, place, fill.programs, known)
    except LaunchError:
        return None


class _Filling:
    """Puts values in the place of VS Code's variables; those that only a window knows stay."""

    def __init__(self, place: Place) -> None:
        self.root = place.folders[0]
        self.programs = place.programs

    def __call__(self, text: str) -> str:
        """Return a text with its variables filled in."""
        return _VARIABLE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        if match[2]:
            return os.environ.get(match[2], "")
        return str(Path.home()) if match[1] == "userHome" else str(self.root)


def _origin(text: str, entry: Mapping[str, Any], key: str, place: Place) -> Origin:
    name = str(entry.get(key, ""))
    match = re.search(rf'"{key}"\s*:\s*{re.escape(json.dumps(name, ensure_ascii=False))}', text)
    return Origin(place.path, text.count("\n", 0, match.start()) + 1 if match else 1, name)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", entry) for entry in entries if isinstance(entry, Mapping)]


def _texts(value: object) -> list[str]:
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [str(cast("Mapping[str, Any]", e).get("value", "")) if isinstance(e, Mapping) else str(e) for e in entries]
