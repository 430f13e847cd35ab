"""Makefiles and justfiles: the commands below each target."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from drygrad.dryrun.launches.launch import Launch
from drygrad.dryrun.launches.shell_scripts import Place, launches_in, unquoted

_MAKE_VARIABLE = re.compile(r"(?:export\s+)?([\w.-]+)\s*(?:\?|:|::|\+)?=\s*(.*)", re.DOTALL)
_MAKE_TARGET = re.compile(r"([^\s:#=][^:#=]*?)\s*::?(?!=)")
_MAKE_USE = re.compile(r"\$\(([\w.-]+)\)|\$\{([\w.-]+)\}|\$\$")
_JUST_VARIABLE = re.compile(r"(?:export\s+)?([\w-]+)\s*:=\s*(.*)")
_JUST_RECIPE = re.compile(r"@?([A-Za-z_][\w-]*)((?:\s+[^:]*)?):(?!=)")
_JUST_USE = re.compile(r"\{\{\s*([\w-]+)\s*\}\}")
_JUST_REST = re.compile(r"\*\$?([\w-]+)")
_JUST_DEFAULT = re.compile(r"[*+]?\$?([\w-]+)\s*=\s*(\"[^\"]*\"|'[^']*'|\S+)")
_DEEPEST = 10


def in_makefile(text: str, place: Place) -> Iterator[Launch]:
    """Yield the launches of a Makefile's recipes."""
    variables: dict[str, str] = {}
    target = ""
    for number, line in _logical(text):
        if line.startswith("\t"):
            recipe = _made(line[1:].lstrip("@-+ "), {**variables, "@": target})
            yield from launches_in(recipe, replace(place, line=number, name=target))
        elif match := _MAKE_VARIABLE.match(line):
            variables[match[1]] = match[2].partition(" #")[0].strip()
        elif match := _MAKE_TARGET.match(line):
            target = match[1].split()[0]


def in_justfile(text: str, place: Place) -> Iterator[Launch]:
    """Yield the launches of a justfile's recipes."""
    variables: dict[str, str] = {}
    defaults: dict[str, str] = {}
    recipe = ""
    for number, line in _logical(text):
        if line[:1] in " \t" and line.strip():
            command = _said(line.strip().lstrip("@-"), {**variables, **defaults})
            yield from launches_in(command, replace(place, line=number, name=recipe))
        elif match := _JUST_VARIABLE.match(line):
            variables[match[1]] = unquoted(match[2].strip())
        elif match := _JUST_RECIPE.match(line):
            recipe = match[1]
            defaults = dict.fromkeys(_JUST_REST.findall(match[2]), "")
            defaults |= {each[1]: unquoted(each[2]) for each in _JUST_DEFAULT.finditer(match[2])}


def _said(line: str, known: dict[str, str]) -> str:
    return _JUST_USE.sub(lambda use: known.get(use[1], use[0]), line)


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers; continued ones are one line, which keeps its breaks for the shell."""
    number, pending, first = 0, "", 1
    for line in text.splitlines():
        number += 1
        first = number if not pending else first
        pending += line
        if line.endswith("\\") and not line.endswith("\\\\"):
            pending = f"{pending}\n"
            continue
        yield first, pending
        pending = ""
    if pending:
        yield first, pending


def _made(text: str, variables: dict[str, str], depth: int = 0) -> str:
    def value(use: re.Match[str]) -> str:
        name = use[1] or use[2]
        if name is None:
            return "$"
        if name == "MAKE" or name not in variables or depth > _DEEPEST:
            return use[0].replace("(", "{").replace(")", "}")
        return _made(variables[name], variables, depth + 1)

    return _MAKE_USE.sub(value, text)
