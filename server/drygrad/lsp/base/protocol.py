"""The language server protocol as its specification has it, where pygls differs."""

from __future__ import annotations

import inspect
import json
import logging
import math
from collections.abc import Callable, Generator
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

from drygrad.lsp.base.documents import Documents

if TYPE_CHECKING:
    from drygrad.lsp.base.server import BaseServer

log = logging.getLogger(__name__)

Handling = Generator[Any, Any, Any]


def _finite(written: str) -> float:
    """Read a number; NaN and the infinities JSON lacks, and a request named by one could not be answered."""
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{written} is not a number of JSON")
    return number


class Protocol(LanguageServerProtocol):
    """Answers every request exactly once, cancels what is cancelled, and ends when told to."""

    def receive(self, body: bytes) -> None:
        """Take one message from the wire; no message, however malformed, ends the server."""
        try:
            message = self._structured(json.loads(body, parse_constant=_finite, parse_float=_finite))
        except (ValueError, RecursionError) as error:
            log.error("a message that is not JSON: %s", error)
            self._refuse(None, JsonRpcParseError(str(error)))
            return
        if message is None:
            return
        try:
            self.handle_message(message)
        except BrokenPipeError:
            log.info("the client no longer reads")
        except Exception:  # one message must not take the others down
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
        refusal = None if method in (None, lsp.EXIT) else self._refusal(str(method))
        if refusal is None:
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

    def _execute_handler(
        self,
        msg_id: Any,
        handler: Callable[..., Any],
        callback: Callable[[Any], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Run a handler; pygls would keep the outcome of every notification for ever."""
        super()._execute_handler(msg_id, handler, callback, args, kwargs)
        future = self._request_futures.get(msg_id)
        if future is not None:
            future.add_done_callback(lambda _: self._request_futures.pop(msg_id, None))

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
            self._workspace = Documents(old.root_uri, old._sync_kind, folders, old.position_encoding)  # pyright: ignore[reportPrivateUsage]

    @lsp_method(lsp.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(self, params: lsp.ExecuteCommandParams) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run a command in its request's own task, so that cancelling the request cancels the command."""
        commands: dict[str, Callable[..., Any]] = self._handlers.commands
        handler = commands.get(params.command)
        if handler is None:
            raise JsonRpcInvalidParams(f"unknown command {params.command!r}")
        arguments = params.arguments or ()
        try:
            inspect.signature(handler).bind(*arguments)
        except TypeError as error:
            raise JsonRpcInvalidParams(f"{params.command}: {error}") from error
        result = handler(*arguments)
        return await result if inspect.isawaitable(result) else result

    @lsp_method(lsp.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Handling:
        """Cancel what is in flight; from here on only ``exit`` is served."""
        if (handler := self._handlers.features.get(lsp.SHUTDOWN)) is not None:
            yield handler, args, None
        for msg_id, future in list(self._request_futures.items()):  # cancelling takes entries out
            if msg_id != self.msg_id and not future.done():
                future.cancel()
        self._shutdown = True

    @lsp_method(lsp.EXIT)
    def lsp_exit(self, *_: Any) -> Handling:
        """End the process: with 0 after ``shutdown``, else with 1."""
        cast("BaseServer", self._server).leave(0 if self._shutdown else 1)
        yield

    @property
    def _handlers(self) -> Any:
        return self.fm  # pygls does not say what its dictionaries hold
