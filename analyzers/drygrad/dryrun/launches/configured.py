"""The launches that a project sets for its dry runs (``[tool.drygrad.run]``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from drygrad.dryrun.launches import reading, shell
from drygrad.dryrun.launches.choosing import named
from drygrad.dryrun.launches.finding import Found, find
from drygrad.dryrun.launches.launch import Launch, LaunchError, Origin
from drygrad.dryrun.launches.programs import Programs
from drygrad.project import Project
from drygrad.toml_places import Places

_TABLE = ("tool", "drygrad", "run")


def launches_of(project: Project) -> Found:
    """Return the launches of a project: those that it sets, then those that its files have."""
    found = find(project.root)
    own = Found()
    for name, command in _set(project):
        try:
            own.launches.append(_read(command, project, name))
        except LaunchError as error:
            own.problems.append(str(error))
    return Found([*own.launches, *found.launches], [*own.problems, *found.problems])


def chosen(project: Project, choice: str | None = None) -> Launch | None:
    """Return the launch that is set, or the one that somebody has chosen, by name or as a command.

    None where there is none; LaunchError where it means nothing.
    """
    choice = choice or project.runs.launch
    if not choice:
        return None
    if choice in project.runs.launches:
        return _read(project.runs.launches[choice], project, choice)
    try:
        return _read(choice, project, "launch" if choice == project.runs.launch else "")
    except LaunchError as unreadable:
        try:
            return with_variables(named(choice, launches_of(project), project.root), project)
        except LaunchError as unknown:
            raise (unreadable if " " in choice else unknown) from None


def for_file(project: Project, path: Path, *, is_script: bool, choice: str | None = None) -> Launch | None:
    """Return how a file's program is started by what is set or chosen: as `launch` says where that is of this file.

    Else with `arguments`, where the program itself is run, and `environment`. LaunchError where `launch` means nothing.
    """
    runs, path = project.runs, path.absolute()
    launch = chosen(project, choice)
    if launch is not None and launch.file == path:
        return launch
    if not runs.environment and not (runs.arguments and is_script):
        return None
    program = str(path.relative_to(project.root) if path.is_relative_to(project.root) else path)
    arguments = runs.arguments if is_script else ()
    return Launch("script", program, path, arguments, runs.environment, project.root, origin=_origin(project, ""))


def with_variables(launch: Launch, project: Project) -> Launch:
    """Return a launch with the variables that all dry runs of a project have."""
    return replace(launch, environment={**project.runs.environment, **launch.environment})


def _set(project: Project) -> Iterator[tuple[str, str]]:
    yield from project.runs.launches.items()
    launch = project.runs.launch
    if launch and launch not in project.runs.launches and " " in launch:
        yield "launch", launch


def _read(command: str, project: Project, name: str) -> Launch:
    try:
        words = shell.split(command)
        launch = reading.read(words, project.root, Programs(project.root), project.runs.environment)
    except (LaunchError, shell.Unclosed) as error:
        raise LaunchError(f"{_where(project, name)}: {error}" if name else str(error)) from error
    return launch.found_at(_origin(project, name)) if name else launch


def _where(project: Project, name: str) -> str:
    origin = _origin(project, name)
    return f"{origin.path}:{origin.line}: `{name}`"


def _origin(project: Project, name: str) -> Origin:
    config = project.config or project.root / "pyproject.toml"
    try:
        places = Places(config.read_text("utf-8", "replace"))
    except OSError:
        return Origin(config, 1, name)
    inside = (*_TABLE, "launches", name) if name in project.runs.launches else (*_TABLE, name)
    return Origin(config, places.find(inside).line, name)
