"""The worker as it is sent: its sources in one compressed text, the same for the same sources everywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_HOME = Path(__file__).resolve().parents[2]
_PARTS = ("worker", "callbacks")
_ARRIVAL = _HOME / "worker" / "far" / "arrive.py"

LOADER = (
    "import sys;sys.stdout.write(sys.argv[1]+str(int(sys.stdin.isatty()))+chr(10));sys.stdout.flush();"
    "exec(sys.stdin.buffer.raw.readline())"
)
"""The program that an interpreter elsewhere is started with: it says that it reads, and whether from a terminal.

It has no quotes, which a shell might take for its own.
"""


@dataclass(frozen=True)
class Packed:
    """The sources, compressed; their digest is of what was compressed."""

    digest: str
    data: bytes


@cache
def packed() -> Packed:
    """Return the worker."""
    files = {
        f"drygrad/{path.relative_to(_HOME).as_posix()}": path.read_bytes().decode("utf-8")
        for part in _PARTS
        for path in sorted((_HOME / part).rglob("*.py"))
    }
    text = json.dumps(files, sort_keys=True).encode("ascii")
    return Packed(hashlib.sha256(text).hexdigest(), zlib.compress(text, 9))


@cache
def arrival() -> bytes:
    """Return the line that ``LOADER`` executes first."""
    return b"exec(__import__('base64').b64decode(b'" + base64.b64encode(_ARRIVAL.read_bytes()) + b"'))\n"
