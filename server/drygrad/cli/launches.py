"""``drygrad launches``: how the programs of a project are started, and where that is written."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from drygrad.dryrun.launches.configured import launches_of
from drygrad.dryrun.launches.finding import find
from drygrad.dryrun.launches.launch import Launch
from drygrad.project import load_project

from .errors import Failure, complain
from .terminal import from_here, one_line


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    path = Path(arguments.path)
    if not path.exists():
        raise Failure(f"{path}: no such file or folder")
    project = load_project(path)
    found = find(path) if path.is_dir() and path.absolute() != project.root else launches_of(project)
    launches = [one for one in found.launches if path.is_dir() or one.file == path.absolute()]
    for problem in found.problems:
        complain(problem)
    if arguments.output_format == "json":
        sys.stdout.write(json.dumps({"launches": [_entry(launch) for launch in launches]}, indent=1) + "\n")
    else:
        sys.stdout.write(_table(launches))
    return 2 if found.problems else 0


def _place(launch: Launch) -> str:
    return launch.origin.shown(Path.cwd()) if launch.origin else ""


def _table(launches: list[Launch]) -> str:
    """Return a line for each: where it stands, its name there, and the command."""
    if not launches:
        return "No launches were found.\n"
    rows = [(_place(one), one.origin.name if one.origin else "", _said(one)) for one in launches]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = (f"{place:{widths[0]}}  {name:{widths[1]}}  {said}" for place, name, said in rows)
    return "".join(f"{one_line(line.rstrip())}\n" for line in lines)


def _said(launch: Launch) -> str:
    notes = [
        *([f"in {from_here(launch.folder)}"] if launch.folder != Path.cwd() else []),
        *([f"{launch.ranks} processes"] if launch.ranks > 1 else []),
        *([f"to fill in: {' '.join(launch.blanks)}"] if launch.blanks else []),
    ]
    return f"{launch.shown}{'  # ' if notes else ''}{'; '.join(notes)}"


def _entry(launch: Launch) -> dict[str, Any]:
    origin = launch.origin
    return {
        "path": from_here(origin.path) if origin else None,
        "line": origin.line if origin else None,
        "name": (origin.name or None) if origin else None,
        "command": launch.shown,
        "kind": launch.kind,
        "program": launch.program,
        "file": from_here(launch.file),
        "arguments": list(launch.arguments),
        "environment": dict(launch.environment),
        "folder": str(launch.folder),
        "ranks": launch.ranks,
        "to_fill_in": list(launch.blanks),
    }
