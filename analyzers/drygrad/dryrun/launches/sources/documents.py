"""READMEs and pages: the commands in their blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from drygrad.dryrun.launches.launch import Launch
from drygrad.dryrun.launches.shell_scripts import Place, launches_in

_FENCE = re.compile(r"\s*(?:>\s*)?(```+(?!.*`)|~~~+)\s*\{?\.?([\w+-]*)")
_SHELLS = frozenset(("", "bash", "sh", "shell", "console", "zsh", "shell-session", "terminal", "cmd", "text", "none"))
_DIRECTIVE = re.compile(r"(\s*)\.\. (?:code-block|code|sourcecode|prompt)::\s*([\w-]*)|(\s*)\S.*::\s*$")
_PROMPT = re.compile(r"^(\s*)(?:\([\w.-]+\)\s*)?(?:\S+@\S+[$#]|[$%>\u276f#])\s(?=\S)")
_OPEN = re.compile(r"<([^\s<>](?:[^<>\n]*[^\s<>])?)>")
_INDENTED = re.compile(r"(?: {4}|\t)\s*\S")
_INLINE = re.compile(r"(?<!`)(`+)([^`\n]+)\1(?!`)")
_STARTS = re.compile(r"\s*(?:\w+=\S+\s+)*(?:python3?|torchrun|accelerate|deepspeed|uv|srun|poetry)\s")


def in_markdown(text: str, place: Place) -> Iterator[Launch]:
    """Yield the launches of fenced and indented blocks, and of code within sentences."""
    fence, language, block, first = "", "", list[str](), 0
    indented, before = list[str](), ""
    for number, line in enumerate([*text.splitlines(), ""], 1):
        match = _FENCE.match(line)
        if fence and match and match[1].startswith(fence) and not match[2]:
            if language in _SHELLS:
                yield from _in_block(block, replace(place, line=first))
            fence = ""
        elif fence:
            block.append(line)
        elif match:
            fence, language, block, first = match[1], match[2].lower(), [], number + 1
        elif _INDENTED.match(line) and (indented or not before.strip()):
            indented.append(line)
            continue
        else:
            for _, code in _INLINE.findall(line):
                if _STARTS.match(code):
                    yield from _in_block([code], replace(place, line=number))
        if indented and _STARTS.match(_PROMPT.sub(r"\1", indented[0])):  # else it may be the text of a list
            yield from _in_block(indented, replace(place, line=number - len(indented)))
        indented, before = [], line


def in_rst(text: str, place: Place) -> Iterator[Launch]:
    """Yield the launches of literal blocks."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        match = _DIRECTIVE.match(lines[number])
        number += 1
        if match is None or (match[2] or "").lower() not in _SHELLS:
            continue
        indent = len(match[1] or match[3] or "")
        first = number
        while number < len(lines) and (not lines[number].strip() or _indent(lines[number]) > indent):
            number += 1
        yield from _in_block(lines[first:number], replace(place, line=first + 1))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _in_block(lines: list[str], place: Place) -> Iterator[Launch]:
    """Yield the launches of a block; where it has prompts, of what stands behind them alone."""
    prompted = any(_PROMPT.match(line) and not line.lstrip().startswith("#") for line in lines)
    kept: list[str] = []
    continued = False
    for line in lines:
        plain = _PROMPT.sub(r"\1", line) if not line.lstrip().startswith("#") else line
        shown = not prompted or plain != line or continued
        kept.append(_OPEN.sub(r"'<\1>'", plain) if shown else "")
        continued = shown and line.rstrip().endswith("\\")
    yield from launches_in("\n".join(line.rstrip() for line in kept), place)
