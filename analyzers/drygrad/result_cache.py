"""Findings of earlier checks, known again by all that they rest on; kept in the user's cache folder, never a project's.

Whoever wrote a project must not be able to say what is found in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import drygrad.model
from drygrad.model import Edit, Finding, Fix, Position, Related, Span
from drygrad.settings import Settings
from drygrad.static.lookup.probing import Stamp, stamp

VARIABLE = "DRYGRAD_CACHE_DIR"
KEPT_SECONDS = 30 * 24 * 3600
"""What was not used for so long is forgotten."""
_SWEEP_SECONDS = 24 * 3600


def cache_folder() -> Path | None:
    """Return the user's folder for results; None where there is no home."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    try:
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser()
        elif sys.platform == "darwin":
            base = Path("~/Library/Caches").expanduser()
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:  # there is no home
        return None
    return base / "drygrad" if base.is_absolute() else None


class ResultCache:
    """The findings of texts. What cannot be read or written is as though it had never been kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "check"

    def findings(self, key: str) -> list[Finding] | None:
        """Return what was found, if all that it rests on is as it was."""
        path = self._path(key)
        try:
            kept = json.loads(path.read_bytes())
            if any(_stamp(Path(name)) != was for name, was in kept["rests_on"]):
                return None
            found: list[Finding] = [_finding(each) for each in kept["findings"]]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        self._touch(path)
        return found

    def keep(self, key: str, found: Iterable[Finding], rests_on: Mapping[Path, Stamp | None]) -> None:
        """Keep what was found, and the state of the files that it rests on."""
        rests = [(str(path), was) for path, was in rests_on.items()]
        data = json.dumps({"rests_on": rests, "findings": [_plain(each) for each in found]})
        path = self._path(key)
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
                file.write(data)
            Path(name).replace(path)

    def sweep(self) -> None:
        """Delete what was not used for long; once a day, for there may be many."""
        mark, now = self._folder / "swept", time.time()
        with suppress(OSError):
            if mark.exists() and now - mark.stat().st_mtime < _SWEEP_SECONDS:
                return
            mark.touch()
            for path in self._folder.glob("??/*"):
                if now - path.stat().st_mtime > KEPT_SECONDS:
                    path.unlink()

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]

    @staticmethod
    def _touch(path: Path) -> None:
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _SWEEP_SECONDS:
                os.utime(path)


def key_of(text: str, path: Path, root: Path, settings: Settings, installed: Sequence[str], *, in_cells: bool) -> str:
    """Return what a check is known by: the text, where it stands, how it is checked, and by which drygrad."""
    parts = (
        _ourselves(),
        repr(_ordered(settings)),
        str(path),
        str(root),
        _links(tuple(installed)),
        str(in_cells),
        text,
    )
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def _ordered(settings: Settings) -> list[Any]:
    per_file = sorted(settings.per_file_ignores.items())
    return [replace(settings, severity={}, per_file_ignores={}), sorted(settings.severity.items()), per_file]


@cache
def _ourselves() -> str:
    """Return a digest of drygrad's own analysis: what another version found says nothing of what this one finds."""
    root = Path(drygrad.model.__file__).parent
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".json")):
        digest.update(repr((str(path), stamp(path))).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


@cache
def _links(installed: tuple[str, ...]) -> str:
    """Return the folders of installed packages with the state of the files there that link to others."""
    links = (path for folder in installed for path in sorted(Path(folder).glob("*.pth")))
    return repr((installed, [(str(path), _stamp(path)) for path in links]))


def _stamp(path: Path) -> list[int] | None:
    found = stamp(path)
    return None if found is None else list(found)


def _plain(finding: Finding) -> dict[str, Any]:
    related = [[r.message, r.span, r.path] for r in finding.related]
    fixes = [[f.title, [[e.span, e.new_text, e.path] for e in f.edits], f.safety, f.verified] for f in finding.fixes]
    own = {field.name: getattr(finding, field.name) for field in fields(finding)}
    return {**own, "related": related, "fixes": fixes}


def _finding(plain: dict[str, Any]) -> Finding:
    read: dict[str, Any] = {
        "span": _span(plain["span"]),
        "related": tuple(Related(message, _span(span), path) for message, span, path in plain["related"]),
        "fixes": tuple(
            Fix(title, tuple(Edit(_span(span), text, path) for span, text, path in edits), safety, verified)
            for title, edits, safety, verified in plain["fixes"]
        ),
        "tags": tuple(plain["tags"]),
    }
    return Finding(**{**plain, **read})


def _span(plain: Sequence[Sequence[int]]) -> Span:
    (line, column), (end_line, end_column) = plain
    return Span(Position(line, column), Position(end_line, end_column))
