"""What a run prints: its beginning and its end are kept, whatever the amount."""

from __future__ import annotations

import os
from collections import deque
from typing import Any

from drygrad.worker.frames import without_ours

HEAD = 48 << 10
TAIL = 16 << 10
_CHUNK = 1 << 16
_BURST = 64
"""Chunks read at once, so that a run which never stops printing does not keep us from anything else."""


class Excerpt:
    """Keeps the first and the last bytes of a stream."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._left_out = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        room = HEAD - len(self._head)
        self._head += data[:room]
        data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= TAIL:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._left_out += gone

    def as_json(self) -> dict[str, Any]:
        """Return the text, and whether something was cut from its middle."""
        tail = b"".join(self._tail)
        left_out = self._left_out + max(len(tail) - TAIL, 0)
        text = _text(bytes(self._head))
        if left_out:
            text += f"\n[... {left_out:,} bytes ...]\n"
        return {"text": without_ours(text + _text(tail[-TAIL:])), "cut": left_out > 0}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class Capture:
    """A pipe that a run prints into, read by the process above it."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self._excerpt = Excerpt()

    def pump(self) -> bool:
        """Take what is there; False once nobody can write any more."""
        for _ in range(_BURST):
            try:
                data = os.read(self.read_fd, _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._excerpt.add(data)
        return True

    def as_json(self) -> dict[str, Any]:
        """Return what was printed so far."""
        self.pump()
        return self._excerpt.as_json()


def read_file(fd: int) -> dict[str, Any]:
    """Return what a run has printed into a file, for want of a process that could read a pipe."""
    excerpt = Excerpt()
    size = os.fstat(fd).st_size
    os.lseek(fd, 0, os.SEEK_SET)
    excerpt.add(os.read(fd, HEAD))
    while os.lseek(fd, 0, os.SEEK_CUR) < size:
        data = os.read(fd, _CHUNK)
        if not data:
            break
        excerpt.add(data)
    return excerpt.as_json()
