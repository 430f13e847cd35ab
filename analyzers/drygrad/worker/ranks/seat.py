"""A rank's place at the table: what it brings to a collective goes there, and what the others brought comes back."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

_HEAD = struct.Struct("!I")


class Gone(Exception):
    """The other end is no longer there: the ranks have been compared, and nobody waits for this one."""


class Wire:
    """Messages with binary parts over a socket."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end

    def send(self, message: dict[str, Any], parts: Sequence[bytes] = ()) -> None:
        """Send a message and its parts. Raises Gone."""
        head = json.dumps({**message, "parts": [len(part) for part in parts]}).encode()
        try:
            self.end.sendall(b"".join([_HEAD.pack(len(head)), head, *parts]))
        except OSError as error:
            raise Gone from error

    def receive(self) -> tuple[dict[str, Any], list[bytearray]]:
        """Return the next message with its parts. Raises Gone."""
        message = json.loads(self._exactly(_HEAD.unpack(self._exactly(_HEAD.size))[0]))
        return message, [self._exactly(length) for length in message.pop("parts")]

    def _exactly(self, length: int) -> bytearray:
        data = bytearray(length)
        view, done = memoryview(data), 0
        while done < length:
            try:
                count = self.end.recv_into(view[done:])
            except OSError as error:
                raise Gone from error
            if not count:
                raise Gone
            done += count
        return data


class _Own(Wire):
    """The end of a rank, which has nothing left to do when nobody listens."""

    def send(self, message: dict[str, Any], parts: Sequence[bytes] = ()) -> None:
        """Send, or end this process."""
        try:
            super().send(message, parts)
        except Gone:
            os._exit(0)

    def receive(self) -> tuple[dict[str, Any], list[bytearray]]:
        """Receive, or end this process."""
        try:
            return super().receive()
        except Gone:
            os._exit(0)


class Seat:
    """What a rank asks of the table. It runs only when it is its turn: whoever waits gives it to the next."""

    def __init__(self, rank: int, world: int, end: socket.socket) -> None:
        self.rank = rank
        self.world = world
        self._wire = _Own(end)
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Wait for the first turn."""
        self._wire.receive()

    def meet(self, arrival: dict[str, Any], parts: Sequence[bytes]) -> list[list[bytearray]]:
        """Come to a collective; return what each member has brought, in their order."""
        with self._lock:
            self._wire.send({"kind": "meet", **arrival}, parts)
            message, received = self._wire.receive()
        given = iter(received)
        return [[next(given) for _ in range(count)] for count in message["counts"]]

    def post(self, to: int, tag: str, arrival: dict[str, Any], parts: Sequence[bytes]) -> None:
        """Send something to another rank, which may take it later."""
        with self._lock:
            self._wire.send({"kind": "post", "to": to, "tag": tag, **arrival}, parts)

    def take(self, source: int | None, tag: str, arrival: dict[str, Any]) -> tuple[int, list[bytearray]]:
        """Wait for what another rank sends; return who it was, and what it sent."""
        with self._lock:
            self._wire.send({"kind": "take", "from": source, "tag": tag, **arrival})
            message, received = self._wire.receive()
        return int(message["from"]), received

    def rest(self) -> None:
        """Let others have their turn, as a program does that sleeps."""
        with self._lock:
            self._wire.send({"kind": "rest"})
            self._wire.receive()

    def install(self) -> None:
        """Let a program that sleeps give its turn away, and wait no longer than that."""

        def sleep(seconds: float) -> None:
            self.rest()
            pause(min(seconds, _NAP))

        pause = time.sleep
        time.sleep = sleep  # type: ignore[assignment]


_NAP = 0.01
