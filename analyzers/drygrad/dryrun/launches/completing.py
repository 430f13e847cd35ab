"""The command line that somebody must complete, where a program lacks arguments."""

from __future__ import annotations

import re
import shlex

from drygrad.dryrun.launches.launch import Launch

_LISTED = re.compile(r"arguments are required: (.+)|Missing (?:option|argument|parameter):? ['\"]?([-\w]+)")
_MANDATORY = re.compile(r"mandatory value: ([\w.]+)")


def completed(message: str, usage: str, path: str, launch: Launch | None) -> str:
    """Return the command that runs a script with what it lacks left open, by what a parser has said of that."""
    begun = launch.completed if launch is not None else f"drygrad run {shlex.quote(path)} --"
    return " ".join([begun, *(_open(message, usage) or ["..."])])


def _open(message: str, usage: str) -> list[str]:
    setting = _MANDATORY.search(message)
    if setting:
        return [f"{setting[1]}=..."]
    match = _LISTED.search(message)
    if match is None:
        return []
    names = [name.partition("/")[0].strip() for name in (match[1] or match[2]).split(",")]
    names = [f"--{name}" if f"--{name} " in usage else name for name in names]
    return [f"{name} ..." if name.startswith("-") else f"{name.upper()}" for name in names if name]
