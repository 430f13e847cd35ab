"""The language server protocol as its specification has it, where pygls differs."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

from lsprotocol import types as lsp
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.protocol.language_server import (
    _prepare_command_arguments,  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType]
)

from drygrad.lsp.base.documents import Documents

if TYPE_CHECKING:
    from drygrad.lsp.base.server import BaseServer

log = logging.getLogger(__name__)

Handling = Generator[Any, Any, Any]


class Protocol(LanguageServerProtocol):
    """Answers every request exactly once, cancels what is cancelled, and ends when told to."""

    _server: BaseServer

    def receive(self, body: bytes) -> None:
        """Take one message from the wire; no message, however malformed, ends the server."""
        try:
            message = self._structured(json.loads(body))
        except ValueError as error:
            log.error("a message that is not JSON: %s", error)
            self._refuse(None, JsonRpcParseError(str(error)))
            return
        if message is None:
            return
        try:
            self.handle_message(message)
        except BrokenPipeError:
            log.info("the client no longer reads")
        except Exception:  # noqa: BLE001 - one message must not take the others down
            log.exception("could not handle a message")

    def _structured(self, data: Any) -> Any:
        if not isinstance(data, dict) or "jsonrpc" not in data:
            log.error("a message that is not JSON-RPC")
            self._refuse(None, JsonRpcInvalidRequest("not a JSON-RPC message"))
            return None
        fields = cast("dict[str, Any]", data)
        try:
            return self.structure_message(fields)
        except JsonRpcException as error:
            if "id" in fields and "method" in fields:
                self._refuse(fields["id"], JsonRpcInvalidParams(str(error.__cause__ or error)))
            return None

    def _refuse(self, msg_id: Any, error: JsonRpcException) -> None:
        self._send_response(msg_id, error=error.to_response_error())

    def handle_message(self, message: Any) -> None:
        """Refuse what comes before ``initialize``, twice, or after ``shutdown``; handle the rest."""
        method = getattr(message, "method", None)
        if method is None or method == lsp.EXIT:
            super().handle_message(message)
        elif (refusal := self._refusal(method)) is None:
            super().handle_message(message)
        elif hasattr(message, "id"):
            self._refuse(message.id, refusal)
        else:
            log.warning("%s came at a wrong time: %s", method, refusal.message)

    def _refusal(self, method: str) -> JsonRpcException | None:
        if self._shutdown:
            return JsonRpcInvalidRequest("the server is shut down")
        if self._workspace is None and method != lsp.INITIALIZE:
            return JsonRpcServerNotInitialized("the server is not initialized")
        if self._workspace is not None and method == lsp.INITIALIZE:
            return JsonRpcInvalidRequest("the server is already initialized")
        return None

    @lsp_method(lsp.INITIALIZE)
    def lsp_initialize(self, params: lsp.InitializeParams) -> Handling:
        """Set up documents of our kind before any handler sees the workspace."""
        initializing = super().lsp_initialize(params)
        try:
            step = next(initializing)
            self._use_own_documents()
            while True:
                step = initializing.send((yield step))
        except StopIteration as result:
            self._use_own_documents()
            return result.value

    def _use_own_documents(self) -> None:
        old = self.workspace
        if not isinstance(old, Documents):
            folders = list(old.folders.values())
            self._workspace = Documents(old.root_uri, old._sync_kind, folders, old.position_encoding)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    @lsp_method(lsp.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(self, params: lsp.ExecuteCommandParams) -> Any:
        """Run a command in its request's own task, so that cancelling the request cancels the command."""
        handler = self.fm.commands.get(params.command)
        if handler is None:
            raise JsonRpcInvalidParams(f"unknown command {params.command!r}")
        try:
            args, kwargs = _prepare_command_arguments(handler, params, self._converter)
        except Exception as error:  # the converter raises what it likes; all of it means wrong arguments
            raise JsonRpcInvalidParams(str(error)) from error
        result = handler(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    @lsp_method(lsp.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Handling:
        """Cancel what is in flight; from here on only ``exit`` is served."""
        if (handler := self.fm.features.get(lsp.SHUTDOWN)) is not None:
            yield handler, args, None
        for msg_id, future in list(self._request_futures.items()):  # cancelling takes entries out
            if msg_id != self.msg_id and not future.done():
                future.cancel()
        self._shutdown = True

    @lsp_method(lsp.EXIT)
    def lsp_exit(self, *_: Any) -> None:
        """End the process: with 0 after ``shutdown``, else with 1."""
        self._server.leave(0 if self._shutdown else 1)

    def spawn(self, work: Any, name: str) -> asyncio.Task[Any]:
        """Run a coroutine of the server's own; an error in it is reported as a handler's would be."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: self._report(done, name))
        return task

    def _report(self, task: asyncio.Task[Any], name: str) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            log.error("%s failed", name, exc_info=error)
            self._server.report_server_error(error, JsonRpcException)
