"""The launches of the projects that are open: found once, until something is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.launches.configured import chosen, launches_of
from drygrad.dryrun.launches.finding import Found
from drygrad.dryrun.launches.launch import Launch, LaunchError
from drygrad.project import Project


class Launches:
    """Finds launches off the event loop."""

    def __init__(self) -> None:
        self._found: dict[Path, Found] = {}

    def forget(self) -> None:
        """Find them anew from now on."""
        self._found.clear()

    async def of(self, project: Project) -> Found:
        """Return the launches of a project."""
        found = self._found.get(project.root)
        if found is None:
            found = self._found[project.root] = await in_turn(launches_of, project)
        return found

    async def first_of(self, project: Project, path: Path, choice: str | None) -> Launch | None:
        """Return the launch that a file's program is most likely meant to have: the chosen one, else the first."""
        try:
            launch = await in_turn(chosen, project, choice) if choice or project.runs.launch else None
        except LaunchError:
            launch = None
        if launch is not None and launch.file == path:
            return launch
        return next(iter((await self.of(project)).of(path)), None)

    async def offered(self, project: Project) -> list[dict[str, Any]]:
        """Return what may be chosen; ``id`` is what ``drygrad.dryRun`` and the setting take."""
        self.forget()
        return [_told(launch, project) for launch in (await self.of(project)).launches]


def id_of(launch: Launch, project: Project) -> str:
    """Return what means a launch: where it stands, else its command."""
    return launch.origin.shown(project.root) if launch.origin else launch.shown


def _told(launch: Launch, project: Project) -> dict[str, Any]:
    return {
        "id": id_of(launch, project),
        "name": (launch.origin.name or None) if launch.origin else None,
        "command": launch.shown,
        "file": str(launch.file),
        "ranks": launch.ranks,
        "toFillIn": list(launch.blanks),
    }
