"""The commands of dry runs, and ``drygrad/run``, which tells of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams

from drygrad.lsp.running import Conditions
from drygrad.lsp.settings import path_of
from drygrad.settings import Device

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

DRY_RUN = "drygrad.dryRun"
CANCEL = "drygrad.cancel"
PIN = "drygrad.pin"
UNPIN = "drygrad.unpin"
CLEAR = "drygrad.clear"
RESTART_WORKERS = "drygrad.restartWorkers"
LAUNCHES = "drygrad.launches"
RUN = "drygrad/run"
RESULTS = "drygrad/results"


def dry_run_argument(
    uri: str, version: int | None, qualname: str | None, line: int | None = None, launch: str | None = None
) -> dict[str, Any]:
    """Return the argument of ``drygrad.dryRun`` for a target, or for what begins at a line (from 1)."""
    position = {"line": line - 1, "character": 0} if line is not None else None
    started = {"launch": launch} if launch is not None else {}
    return {"uri": uri, "version": version, "qualname": qualname, "position": position, "device": None, **started}


class Argument:
    """The object that a command is called with; what was null may be absent, for Lua tables hold no nil."""

    def __init__(self, given: object) -> None:
        self._fields: Mapping[str, object] = cast("Any", given) if isinstance(given, Mapping) else {}

    def text(self, name: str) -> str | None:
        """Return a text or None; anything else is refused."""
        value = self._fields.get(name)
        if value is not None and not isinstance(value, str):
            raise JsonRpcInvalidParams(f"`{name}` must be a string, not {value!r}")
        return value

    @property
    def uri(self) -> str:
        """The document."""
        uri = self.text("uri")
        if uri is None:
            raise JsonRpcInvalidParams("`uri` is missing")
        return uri

    def flag(self, name: str) -> bool:
        """Say whether something is true."""
        return self._fields.get(name) is True

    def number(self, name: str) -> int:
        """Return a number; 0 where there is none."""
        value = self._fields.get(name)
        return value if isinstance(value, int) else 0

    @property
    def version(self) -> int | None:
        """The version of the text that the caller has seen."""
        version = self._fields.get("version")
        return version if isinstance(version, int) else None

    @property
    def device(self) -> str | None:
        """The device to run on."""
        device = self.text("device")
        if device not in (None, *get_args(Device)):
            raise JsonRpcInvalidParams(f"no device is called {device!r}")
        return device

    @property
    def position(self) -> lsp.Position | None:
        """A place in the document."""
        given = self._fields.get("position")
        if given is None:
            return None
        try:
            place = cast("Mapping[str, int]", given)
            return lsp.Position(int(place["line"]), int(place["character"]))
        except (KeyError, TypeError, ValueError) as error:
            raise JsonRpcInvalidParams(f"`position` is not valid: {given!r}") from error

    @property
    def place(self) -> lsp.Position | None:
        """The place that says which target is meant, where no name does."""
        return self.position if self.text("qualname") is None else None


def register(server: DrygradServer) -> None:
    """Register the commands and the request."""
    runs = server.dry_runs

    def dry_run(argument: Any) -> dict[str, str | None]:
        given = Argument(argument)
        position = given.place
        if position is not None and given.version not in (None, server.session.version_of(given.uri)):
            return {"runId": None, "message": "The text has changed since then; try again."}
        how = Conditions(given.device, given.text("launch"), given.text("inputs"))
        return runs.ask(given.uri, given.text("qualname"), position, how, script=given.flag("script"))

    async def launches(argument: Any) -> list[dict[str, Any]]:
        given = Argument(argument)
        project = server.session.settings.project_of(path_of(given.uri) or Path.cwd())
        return await server.launches.offered(project)

    def cancel(argument: Any = None) -> bool:
        return runs.cancel(Argument(argument).text("runId"))

    async def pin(argument: Any) -> None:
        given = Argument(argument)
        await runs.pin(given.uri, given.text("qualname"), given.place, pinned=True)

    async def unpin(argument: Any) -> None:
        given = Argument(argument)
        await runs.pin(given.uri, given.text("qualname"), given.place, pinned=False)

    def clear(_: Any = None) -> None:
        runs.clear()

    async def restart_workers(_: Any = None) -> None:
        await runs.restart_workers()

    def run(params: Any) -> dict[str, Any]:
        run_id: object = getattr(params, "runId", None)
        report = runs.report(str(run_id))
        if report is None:
            raise JsonRpcInvalidParams(f"no run is called {run_id!r}")
        return report

    def results(params: Any) -> dict[str, Any] | None:
        uri, name = getattr(params, "uri", None), getattr(params, "qualname", None)
        return runs.results(uri if isinstance(uri, str) else None, name if isinstance(name, str) else None)

    commands = {DRY_RUN: dry_run, CANCEL: cancel, PIN: pin, UNPIN: unpin, CLEAR: clear}
    for name, command in {**commands, RESTART_WORKERS: restart_workers, LAUNCHES: launches}.items():
        server.command(name)(command)
    server.feature(RUN)(run)
    server.feature(RESULTS)(results)
