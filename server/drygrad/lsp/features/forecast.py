"""The commands of forecasts, ``drygrad/forecast``, which tells of one, and the actions that apply what was traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams

from drygrad.gpus import GPUS, gpu_named
from drygrad.lsp.features.dry_run import Argument
from drygrad.lsp.running import AskedForecast, Conditions
from drygrad.model import Fix

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

FORECAST = "drygrad.forecast"
TELL_FORECAST = "drygrad.tellForecast"
APPLY_CHANGE = "drygrad.applyChange"
LIST_GPUS = "drygrad.gpus"
REQUEST = "drygrad/forecast"

_OUTDATED = "The text has changed since that forecast; forecast again to get changes that match it."


def forecast_argument(uri: str, qualname: str | None, *, what_if: bool = False) -> dict[str, Any]:
    """Return the argument of ``drygrad.forecast`` for a target; without a name it is the script."""
    return {"uri": uri, "qualname": qualname, "script": qualname is None, "whatIf": what_if}


def tell(server: DrygradServer, uri: str, qualname: str | None) -> None:
    """Show the last forecast of a target as a message."""
    from drygrad.lsp.forecast_words import message  # noqa: PLC0415 - a server that starts has no forecasts

    entry = server.forecasts.entry(uri, qualname)
    text = message(qualname, entry.forecast) if entry else "There is no forecast yet."
    server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, text))


def changes_of(server: DrygradServer, uri: str, qualname: str | None) -> list[Fix]:
    """Return the changes of a text that were traced for one of its targets, as the text is now."""
    made = server.forecasts.present(uri, qualname)
    if made is None:
        return []
    from drygrad.dryrun.forecast_finding import change_of  # noqa: PLC0415 - a server that starts has no forecasts

    return [change_of(row) for row in made.rows if row.edits]


def as_edit(server: DrygradServer, uri: str, fix: Fix) -> lsp.WorkspaceEdit | None:
    """Return a change as an edit of the present text; None where it is another one, or a notebook's."""
    shown, sight = server.session.shown(uri), server.forecasts.sight(uri)
    if shown is None or sight is None or sight.module.is_notebook or sight.view.source is not sight.module.source:
        return None
    return server.session.workspace_edit([server.session.document_edit(shown.part, fix.edits)])


def register(server: DrygradServer) -> None:
    """Register the commands and the request."""
    runs = server.dry_runs

    def forecast(argument: Any) -> dict[str, str | None]:
        given = Argument(argument)
        position, gpu = given.place, given.text("gpu")
        if position is not None and given.version not in (None, server.session.version_of(given.uri)):
            return {"runId": None, "message": "The text has changed since then; try again."}
        try:
            asked = AskedForecast(gpu_named(gpu).name if gpu else None, given.flag("whatIf"))
        except ValueError as error:
            raise JsonRpcInvalidParams(str(error)) from error
        how = Conditions(None, given.text("launch"), given.text("inputs"), asked)
        return runs.ask(given.uri, given.text("qualname"), position, how, script=given.flag("script"))

    def tell_forecast(argument: Any) -> None:
        given = Argument(argument)
        tell(server, given.uri, given.text("qualname"))

    async def apply_change(argument: Any) -> str | None:
        given = Argument(argument)
        fixes = changes_of(server, given.uri, given.text("qualname"))
        fix = next((fix for fix in fixes if fix.title == f"Use {given.text('change')}"), None)
        edit = as_edit(server, given.uri, fix) if fix is not None else None
        if fix is None or edit is None:
            return _OUTDATED
        answer = await server.workspace_apply_edit_async(lsp.ApplyWorkspaceEditParams(edit, fix.title))
        return None if answer.applied else answer.failure_reason or "the editor rejected the edit"

    def gpus(_: Any = None) -> list[dict[str, Any]]:
        return [{"name": gpu.name, "memory": gpu.memory} for gpu in GPUS]

    def told(params: Any) -> dict[str, Any] | None:
        uri, name = getattr(params, "uri", None), getattr(params, "qualname", None)
        entry = server.forecasts.entry(uri if isinstance(uri, str) else None, name if isinstance(name, str) else None)
        return entry.as_json() if entry is not None else None

    commands = {FORECAST: forecast, TELL_FORECAST: tell_forecast, APPLY_CHANGE: apply_change, LIST_GPUS: gpus}
    for name, command in commands.items():
        server.command(name)(command)
    server.feature(REQUEST)(told)
