"""JSON lines over a pair of file descriptors: one object a line, UTF-8.

The functions it needs are bound here, before any of the user's code runs and may replace them in their modules.
"""

from __future__ import annotations

import json
import os
from typing import Any, cast

MAX_LINE = 64 << 20
"""Longer lines are not read: whoever sends one is not a worker of ours, or has lost its senses."""
MAX_ANSWER = 4 << 20
"""The bytes of a run's answer."""

_encode = json.JSONEncoder(default=str, allow_nan=False).encode
_decode = json.JSONDecoder().decode
_write = os.write
_read = os.read
_CHUNK = 1 << 16


class Channel:
    """Sends and receives messages; knows whether the other side has gone."""

    def __init__(self, read_fd: int, write_fd: int, most: int = MAX_LINE) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self.closed = False
        self.flooded = False
        """Whether it was closed because a line was longer than ``most``."""
        self._most = most
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
        return [message for message in map(_object, self.lines()) if message is not None]

    def lines(self) -> list[bytes]:
        """Read the lines that are there; at the end, and of a line that is too long, nothing more."""
        try:
            chunk = _read(self.read_fd, _CHUNK)
        except (ConnectionResetError, InterruptedError):
            chunk = b""
        if not chunk:
            self.closed = True
            return []
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(self._pending) + lines[0]
            self._pending = bytearray(rest)
        else:
            self._pending += chunk
        if max((len(self._pending), *map(len, lines))) > self._most:
            self.closed = self.flooded = True
            return []
        return lines

    def close(self) -> None:
        """Close both descriptors."""
        for fd in {self.read_fd, self.write_fd}:
            os.close(fd)
        self.closed = True


def encoded(message: dict[str, Any]) -> bytes:
    """Return the line of a message."""
    return (written(message) + "\n").encode("utf-8", "backslashreplace")


def tagged(kind: str, text: str) -> bytes:
    """Return a line of a run's: a word that says what it is, and the text, which the processes above do not read."""
    return f"{kind} {text}\n".encode("utf-8", "backslashreplace")


def untagged(line: bytes) -> tuple[str, str]:
    """Return the word and the text of a run's line, whatever it has written."""
    kind, _, text = line.decode("utf-8", "replace").partition(" ")
    return kind, text


def written(message: dict[str, Any]) -> str:
    """Return a message as JSON; what JSON has no number for is written as a text."""
    try:
        return _encode(message)
    except ValueError:
        return _encode(_finite(message))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in cast("dict[str, Any]", value).items()}
    return [_finite(item) for item in cast("list[Any]", value)] if isinstance(value, (list, tuple)) else value


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = _decode(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
