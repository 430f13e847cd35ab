"""JSON lines over a pair of file descriptors: one object a line, UTF-8.

The functions it needs are bound here, before any of the user's code runs and may replace them in their modules.
"""

from __future__ import annotations

import json
import os
from typing import Any, cast

MAX_LINE = 64 << 20
"""Longer lines are not read: whoever sends one is not a worker of ours, or has lost its senses."""

_encode = json.JSONEncoder(default=str).encode
_decode = json.JSONDecoder().decode
_write = os.write
_read = os.read
_CHUNK = 1 << 16


class Channel:
    """Sends and receives messages; knows whether the other side has gone."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self.closed = False
        self._pending = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        """Write one message; in vain when the other side has gone."""
        self.send_line(encoded(message))

    def send_line(self, line: bytes) -> None:
        """Write a message that is encoded already."""
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[_write(self.write_fd, rest) :]
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True

    def receive(self) -> list[dict[str, Any]]:
        """Read what is there, waiting for the first byte; an empty list and ``closed`` at the end."""
        try:
            chunk = _read(self.read_fd, _CHUNK)
        except (ConnectionResetError, InterruptedError):
            chunk = b""
        if not chunk:
            self.closed = True
            return []
        self._pending += chunk
        if b"\n" not in chunk:
            if len(self._pending) > MAX_LINE:
                self.closed = True
            return []
        *lines, rest = self._pending.split(b"\n")
        self._pending = bytearray(rest)
        return [message for message in map(_object, lines) if message is not None]

    def close(self) -> None:
        """Close both descriptors."""
        for fd in {self.read_fd, self.write_fd}:
            os.close(fd)
        self.closed = True


def encoded(message: dict[str, Any]) -> bytes:
    """Return the line of a message."""
    return (_encode(message) + "\n").encode("utf-8", "backslashreplace")


def decoded(line: bytes) -> dict[str, Any]:
    """Return the message of a line of ours."""
    return _decode(line.decode("utf-8"))


def _object(line: bytes | bytearray) -> dict[str, Any] | None:
    try:
        value = _decode(line.decode("utf-8", "replace"))
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
