"""What ``drygrad run`` is to start: the launch that its words give, and the file and target that this means."""

from __future__ import annotations

import argparse
from pathlib import Path

from drygrad.dryrun.launches.choosing import only
from drygrad.dryrun.launches.configured import chosen, launches_of
from drygrad.dryrun.launches.launch import Launch, LaunchError
from drygrad.dryrun.launches.programs import Programs
from drygrad.dryrun.launches.reading import read
from drygrad.project import Project
from drygrad.walk import Projects

from .errors import Failure


def given_launch(arguments: argparse.Namespace, projects: Projects) -> Launch | None:
    """Return the launch that a command line gives; None where it names functions or files alone. Failure."""
    target, module, words = arguments.target, arguments.module, arguments.words
    if module and target:
        raise Failure(f"-m {module} and {target}: name only one of them")
    if arguments.launch is not None and (module or words is not None):
        raise Failure(f"--launch {arguments.launch} is a whole command; remove -m and everything after --")
    if arguments.launch is not None or (not target and not module and words is None):
        return _found(arguments.launch, projects.of_folder(Path.cwd()))
    if not module and words is None:
        return None
    folder = Path.cwd()
    if target and "::" in target:
        words = ["python", target.partition("::")[0], *(words or ())]
    elif target:
        words = ["python", target, *(words or ())]
    elif module:
        words = ["python", "-m", module, *(words or ())]
    try:
        return read(words or (), folder, Programs())
    except LaunchError as error:
        raise Failure(str(error)) from error


def _found(name: str | None, project: Project) -> Launch:
    """Return the launch that has a name; without one what the project sets, or the only one it has. Failure."""
    try:
        return chosen(project, name) or only(launches_of(project), project.root)
    except LaunchError as error:
        raise Failure(str(error)) from error
