"""A language server that keeps its wire to itself, does not shout, and always ends."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

from lsprotocol import types as lsp
from pygls.exceptions import FeatureRequestError, JsonRpcException
from pygls.io_ import StdoutWriter
from pygls.lsp.server import LanguageServer

from drygrad.lsp.base.documents import Documents
from drygrad.lsp.base.protocol import Protocol
from drygrad.lsp.base.stdio import read_messages, take_over_stdio

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)

QUIET_SECONDS = 60.0
"""Messages of one kind are shown to the user at most this often; the log has each."""


class BaseServer(LanguageServer):
    """A pygls server on our protocol."""

    def __init__(self, name: str, version: str, **options: Any) -> None:
        super().__init__(name, version, protocol_cls=Protocol, **options)  # pyright: ignore[reportUnknownMemberType]
        self.at_exit: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_shown: dict[str, float] = {}

    @property
    def documents(self) -> Documents:
        """The open texts."""
        workspace = self.workspace
        if not isinstance(workspace, Documents):
            raise TypeError("the workspace is not ours")
        return workspace

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log an error; show one to the user at most once a minute, not once a keystroke."""
        log.error("%s: %s", getattr(source, "__name__", source), error)
        if source is not FeatureRequestError:
            text = f"drygrad hit an internal error and continues; see its log. ({type(error).__name__}: {error})"
            self.show_rarely("error", lsp.MessageType.Error, text)

    def show_rarely(self, kind: str, severity: lsp.MessageType, text: str) -> None:
        """Show the user a message, unless one of its kind was shown within the last minute."""
        now = time.monotonic()
        if now - self._last_shown.get(kind, -QUIET_SECONDS) >= QUIET_SECONDS:
            self._last_shown[kind] = now
            self.show(severity, text)

    def show(self, severity: lsp.MessageType, text: str) -> None:
        """Show the user a message; editors show it as plain text."""
        shown = text.replace("`", "").replace("](", "] (")  # some editors make links of a message
        self.window_show_message(lsp.ShowMessageParams(severity, shown[:500]))

    def run_stdio(self) -> NoReturn:
        """Serve over stdin and stdout until the client says ``exit`` or goes away."""
        self._run(*take_over_stdio())

    def run_tcp(self, port: int, host: str = "127.0.0.1") -> NoReturn:
        """Serve the first client that connects to a port of this machine, for debugging."""
        try:
            listener = socket.create_server((host, port))
        except OSError as error:
            print(f"drygrad: cannot listen on port {port}: {os.strerror(error.errno or 0)}", file=sys.stderr)
            self.leave(2)
        with listener:
            print(f"listening on {host}:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
            connection, _ = listener.accept()
        self._run(connection.makefile("rb"), connection.makefile("wb"))

    def _run(self, incoming: BinaryIO, outgoing: BinaryIO) -> NoReturn:
        self.protocol.set_writer(StdoutWriter(outgoing))
        try:
            asyncio.run(self._serve(incoming))
        except (BrokenPipeError, KeyboardInterrupt) as error:
            log.info("the connection ended: %r", error)
        self.leave(1)  # the client went away without `exit`

    async def _serve(self, incoming: BinaryIO) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        receive = cast("Protocol", self.protocol).receive

        def read() -> None:
            try:
                for body in read_messages(incoming):
                    loop.call_soon_threadsafe(receive, body)
            except OSError as error:
                log.info("the client went away: %s", error)
            finally:
                loop.call_soon_threadsafe(ended.set)

        # A thread of its own: busy handlers cannot keep it from reading.
        threading.Thread(target=read, name="lsp-reader", daemon=True).start()
        await ended.wait()
        self.leave(1)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a coroutine of the server's own; an error in it is reported as a handler's would be."""

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and isinstance(error := task.exception(), Exception):
                log.error("%s failed", name, exc_info=error)
                self.report_server_error(error, JsonRpcException)

        task = asyncio.ensure_future(work)
        self._tasks.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(done)
        return task

    def leave(self, code: int) -> NoReturn:
        """End the process at once: a thread that hangs must not keep it."""
        try:
            for stop in self.at_exit:
                stop()
        finally:
            os._exit(code)
