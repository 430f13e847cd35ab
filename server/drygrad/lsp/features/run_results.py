"""What users do with a result where it is shown: read it, choose from the menu of its lens, give other inputs.

These commands need nothing of an editor but messages. One with a page of its own, as VS Code has, shows that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams

from drygrad.lsp.features.dry_run import Argument
from drygrad.lsp.running import Conditions

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

TELL = "drygrad.tellResult"
MENU = "drygrad.menu"
WRITE_INPUTS = "drygrad.writeInputs"

_DEVICES = {"cpu": "Dry-run on the CPU", "sim": "Dry-run on the simulated GPU", "cuda": "Dry-run on the GPU"}


def report_text(target: str | None, text: str, reports: list[dict[str, Any]]) -> str:
    """Return a result as a message."""
    return "\n".join([f"{target or 'The script'}: {text}", *(line for report in reports for line in _lines(report))])


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    for given in report.get("inputs") or ():
        yield f"input {given['name']} = {given['value']} ({given['source']})"
    for finding in report.get("findings") or ():
        yield f"line {finding['line']}: {finding['severity']} {finding['code']}: {finding['message']}"
    peak = report.get("peak_memory_bytes")
    if peak:
        yield f"peak memory {peak / 2**20:,.1f} MiB"
    yield from (str(note) for note in report.get("notes") or ())


class Menu:
    """What is offered of one target, in an editor that shows no menu of its own."""

    def __init__(self, server: DrygradServer, uri: str, qualname: str | None) -> None:
        self._server, self._runs = server, server.dry_runs
        self._uri, self._name = uri, qualname

    def choices(self) -> dict[str, Callable[[], Any]]:
        """Return what can be done, by its title."""
        devices = [d for d in ("cuda", "sim", "cpu") if d in self._runs.service.state.devices] or ["sim", "cpu"]
        found: dict[str, Callable[[], Any]] = {_DEVICES[device]: lambda d=device: self._run(d) for device in devices}
        pinned = self._name in self._runs.pinned(self._uri)
        title = "Unpin: stop running on every save" if pinned else "Pin: run on every save"
        found[title] = lambda: self._runs.pin(self._uri, self._name, None, pinned=not pinned)
        if self._runs.history.last((self._runs.key(self._uri), self._name)):
            found["Show the result"] = self._tell
        return found

    def _run(self, device: str) -> None:
        self._runs.ask(self._uri, self._name, None, Conditions(device), script=self._name is None)

    def _tell(self) -> None:
        tell(self._server, self._uri, self._name)

    async def show(self) -> None:
        """Let the user choose, and do it."""
        choices = self.choices()
        actions = [lsp.MessageActionItem(title) for title in choices]
        params = lsp.ShowMessageRequestParams(lsp.MessageType.Info, f"{self._name or 'The script'}:", actions)
        chosen = await self._server.window_show_message_request_async(params)
        done = choices[chosen.title]() if chosen and chosen.title in choices else None
        if done is not None:
            await done


def tell(server: DrygradServer, uri: str, qualname: str | None) -> None:
    """Show the last result of a target as a message."""
    last = server.dry_runs.history.last((server.dry_runs.key(uri), qualname))
    text = report_text(qualname, last.text, last.reports) if last else "This result no longer exists."
    server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, text))


def register(server: DrygradServer) -> None:
    """Register the commands."""
    runs = server.dry_runs

    def tell_result(argument: Any) -> None:
        given = Argument(argument)
        tell(server, given.uri, given.text("qualname"))

    def menu(argument: Any) -> None:
        given = Argument(argument)
        server.spawn(Menu(server, given.uri, given.text("qualname")).show(), "showing a menu")

    async def write_inputs(argument: Any) -> str | None:
        given = Argument(argument)
        uri, shown = given.uri, server.session.shown(given.uri)
        inputs = given.text("inputs")
        if shown is None or inputs is None:
            raise JsonRpcInvalidParams(
                "`inputs` is missing" if inputs is None else "the text is being checked; ask again"
            )
        number = given.number("number")
        edit = runs.service.written_inputs(shown.part.source, given.text("qualname"), inputs, number)
        if isinstance(edit, str):
            return edit
        change = server.session.workspace_edit([server.session.document_edit(shown.part, [edit])])
        answer = await server.workspace_apply_edit_async(lsp.ApplyWorkspaceEditParams(change, f"Inputs of {uri}"))
        return None if answer.applied else answer.failure_reason or "the editor rejected the edit"

    for name, command in {TELL: tell_result, MENU: menu, WRITE_INPUTS: write_inputs}.items():
        server.command(name)(command)
