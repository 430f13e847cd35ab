"""The wire: two private files, and messages read from one of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO

_CONTENT_LENGTH = re.compile(rb"content-length:\s*(\d+)\s*", re.IGNORECASE)


def take_over_stdio() -> tuple[BinaryIO, BinaryIO]:
    """Return the wire as two private files; fd 0 becomes empty and fd 1 becomes stderr.

    A print (also one of a C library) then cannot break the protocol, and a child process cannot inherit the pipe, read
    the client's messages or keep it open.
    """
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return incoming, outgoing


def read_messages(incoming: BinaryIO) -> Iterator[bytes]:
    """Yield the bodies of the messages until the client goes away."""
    length = 0
    while header := incoming.readline():
        if match := _CONTENT_LENGTH.fullmatch(header):
            length = int(match[1])
        elif length and not header.strip():
            body = incoming.read(length)
            if len(body) < length:
                return
            yield body
            length = 0
