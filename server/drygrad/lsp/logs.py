"""Where the log goes: a file if one is named, and the client's output panel."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

if TYPE_CHECKING:
    from drygrad.lsp.server import DrygradServer

log = logging.getLogger("drygrad")

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_TYPES = {
    logging.ERROR: lsp.MessageType.Error,
    logging.WARNING: lsp.MessageType.Warning,
    logging.INFO: lsp.MessageType.Info,
    logging.DEBUG: lsp.MessageType.Debug,
}


def set_up(log_file: Path | None, level: str) -> None:
    """Send what drygrad and pygls log to a file, or to stderr; a file that cannot be written is no reason to stop."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if log_file is not None:
        try:
            handler = logging.FileHandler(log_file, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            print(f"cannot write the log to {log_file}: {error}", file=sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("pygls").setLevel(logging.ERROR)  # it warns of what may happen: a request cancelled once answered
    set_level(level)


def set_level(level: str) -> None:
    """Set how much is logged."""
    log.setLevel(level.upper())


def send_to_client(server: DrygradServer) -> None:
    """Send what drygrad logs to the client, and no longer to stderr, which editors show as well, as errors."""
    log.addHandler(WindowHandler(server))
    log.propagate = any(isinstance(handler, logging.FileHandler) for handler in logging.getLogger().handlers)


class WindowHandler(logging.Handler):
    """Sends records to the client's output panel, from whatever thread they come."""

    def __init__(self, server: DrygradServer) -> None:
        super().__init__()
        self._server = server
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        kind = _TYPES.get(record.levelno, lsp.MessageType.Log)
        params = lsp.LogMessageParams(kind, self.format(record))
        self._loop.call_soon_threadsafe(self._server.window_log_message, params)
