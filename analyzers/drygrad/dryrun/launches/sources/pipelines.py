"""Dockerfiles, compose files and the pipelines of CI: the commands that they run.

YAML is read line by line: what a key such as ``run`` has behind it, or in the block below it, is a shell's text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from drygrad.dryrun.launches.launch import Launch
from drygrad.dryrun.launches.shell_scripts import Place, launches_in, unquoted

_INSTRUCTION = re.compile(r"\s*(RUN|CMD|ENTRYPOINT)\s+(?:--\S+\s+)*(.*)", re.IGNORECASE | re.DOTALL)
_KEY = re.compile(r"(\s*(?:-\s+)*)(?:run|command|script|entrypoint|cmd|cmds|before_script|entry)\s*:\s*(.*)")
_ITEM = re.compile(r"\s*-\s+(.*)")
_BLOCK = re.compile(r"[|>][-+\d]*\s*(?:#.*)?")


def in_dockerfile(text: str, place: Place) -> Iterator[Launch]:
    """Yield the launches of a Dockerfile's instructions."""
    pending, first = "", 1
    for number, line in enumerate(text.splitlines(), 1):
        first = number if not pending else first
        pending += line
        if line.rstrip().endswith("\\"):
            pending += "\n"
            continue
        if match := _INSTRUCTION.match(pending):
            yield from _command(match[2], replace(place, line=first, name=match[1].upper()))
        pending = ""


def in_yaml(text: str, place: Place) -> Iterator[Launch]:
    """Yield the launches below keys that hold commands."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        match = _KEY.match(lines[number])
        number += 1
        if match is None:
            continue
        value = match[2].strip()
        if value and not _BLOCK.fullmatch(value):
            yield from _command(unquoted(value), replace(place, line=number))
            continue
        first = number
        while number < len(lines) and (not lines[number].strip() or _is_below(lines[number], len(match[1]))):
            number += 1
        yield from _in_block(lines[first:number], replace(place, line=first + 1))


def _is_below(line: str, indent: int) -> bool:
    return len(line) - len(line.lstrip()) > indent or (_ITEM.match(line) is not None and line.index("-") >= indent)


def _in_block(lines: list[str], place: Place) -> Iterator[Launch]:
    """Yield the launches of a block of text, or of a list of commands."""
    items = [(offset, match[1]) for offset, line in enumerate(lines) if (match := _ITEM.match(line))]
    if items and _ITEM.match(next(line for line in lines if line.strip())):
        for offset, item in items:
            yield from _command(unquoted(item), replace(place, line=place.line + offset))
        words = [unquoted(item) for _, item in items]
        yield from _words(words, place) if words[0] and " " not in words[0] else ()
        return
    yield from launches_in("\n".join(lines), place)


def _command(text: str, place: Place) -> Iterator[Launch]:
    """Yield the launches of a command: words in brackets, or a shell's text."""
    if text.startswith("["):
        try:
            words = json.loads(text)
        except ValueError:
            return
        found = [str(word) for word in cast("list[object]", words)] if isinstance(words, list) else []
        yield from _words(found, place)
        return
    yield from launches_in(text, place)


def _words(words: list[str], place: Place) -> Iterator[Launch]:
    if words[:1] and words[0] in ("bash", "sh", "/bin/sh", "/bin/bash") and "-c" in words:
        yield from launches_in(words[-1], place)
        return
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    yield from launches_in(quoted, place)
