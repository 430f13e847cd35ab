"""Which files of a project are sent to another machine: its code and its configuration, within bounds.

What git ignores, what is hidden and what is large stays here: data, credentials, checkpoints.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drygrad.files import read_file
from drygrad.folders import holds_users_code
from drygrad.walk import Ignored

SUFFIXES = frozenset(
    ".py .pyi .ipynb .json .jsonl .yaml .yml .toml .cfg .ini .txt .csv .tsv .xml .gin .jinja .jinja2 .tmpl".split()
)
MOST_FILES = 4000
MOST_BYTES = 16 << 20
LARGEST = 1 << 20
_MOST_ENTRIES = 50_000
"""A folder with more is not a project; the rest of it is not looked at."""


@dataclass
class Mirror:
    """What the other side has of a project by now; ``left`` counts files that were too many."""

    root: Path
    left: int = 0
    _there: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    def changes(self) -> dict[str, Any] | None:
        """Return the message that brings the other side up to date; None where it is."""
        wanted = self._wanted()
        put: dict[str, str] = {}
        for name, mark in wanted.items():
            if self._there.get(name) != mark:
                try:
                    content = read_file(self.root / name, LARGEST + 1)
                except OSError:
                    continue
                put[name] = base64.b64encode(content).decode("ascii")
        gone = sorted(self._there.keys() - wanted.keys())
        self._there = wanted
        return {"type": "files", "put": put, "gone": gone} if put or gone else None

    @property
    def size(self) -> tuple[int, int]:
        """How many files are sent, and how many bytes they have."""
        wanted = self._wanted()
        return len(wanted), sum(size for _, size in wanted.values())

    def _wanted(self) -> dict[str, tuple[int, int]]:
        """Return the files to send, with what tells one version from the next: those near the root come first."""
        found: dict[str, tuple[int, int]] = {}
        left, size = 0, 0
        for entry in _files(self.root):
            try:
                status = entry.stat()
            except OSError:
                continue
            if status.st_size > LARGEST:
                continue
            if len(found) >= MOST_FILES or size + status.st_size > MOST_BYTES:
                left += 1
                continue
            size += status.st_size
            found[Path(entry.path).relative_to(self.root).as_posix()] = (status.st_mtime_ns, status.st_size)
        self.left = left
        return found


def _files(root: Path) -> Iterator[os.DirEntry[str]]:
    """Yield what may be sent, folder by folder from the root."""
    waiting = [(str(root), Ignored.above(root))]
    seen = 0
    for folder, above in waiting:
        ignored = above.entering(folder)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        seen += len(entries)
        if seen > _MOST_ENTRIES:
            return
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not (holds_users_code(entry) if is_folder else _is_source(entry, root)):
                continue
            if ignored.leaves_out(entry.path, folder=is_folder):
                continue
            if is_folder:
                waiting.append((entry.path, ignored))
            else:
                yield entry


def _is_source(entry: os.DirEntry[str], root: Path) -> bool:
    """Say whether a file is code or configuration; a link that leads out of the project is neither."""
    if entry.name.startswith(".") or Path(entry.name).suffix.lower() not in SUFFIXES:
        return False
    if entry.is_symlink():
        return entry.is_file() and Path(entry.path).resolve().is_relative_to(root.resolve())
    return entry.is_file()
