"""A baseline: the findings that a code base had when it adopted drygrad, so that only new ones are reported.

A finding is known by its file, its code and the text of its statement, blanks aside; lines may move.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from drygrad.files import read_file
from drygrad.model import Finding
from drygrad.static.source import Source, SourceError
from drygrad.static.statements import lines_of

VERSION = 1


class BaselineError(Exception):
    """The file is no baseline, or cannot be read or written."""


class Key(NamedTuple):
    """What a finding is known by."""

    path: str
    code: str
    hash: str


class Baseline:
    """The known findings, and how many there are of each."""

    def __init__(self, folder: Path, counts: Counter[Key] | None = None) -> None:
        self._folder = folder
        self._counts = counts or Counter[Key]()

    @classmethod
    def load(cls, path: Path) -> Baseline:
        """Read a baseline file; BaselineError says why it is none."""
        try:
            document = json.loads(read_file(path))
            if document["version"] != VERSION:
                raise BaselineError(f"{path}: version {document['version']} is not one that drygrad knows")
            entries = cast("list[dict[str, Any]]", document["findings"])
            counts = Counter({Key(e["path"], e["code"], e["hash"]): int(e["count"]) for e in entries})
        except OSError as error:
            raise BaselineError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise BaselineError(f"{path}: not a baseline file") from error
        return cls(path.absolute().parent, counts)

    def unknown(self, path: Path, keys: Sequence[tuple[str, str]]) -> list[bool]:
        """Say of each finding of a file, given as code and hash, whether it is new."""
        shown = self._relative(path)
        left = {(code, digest): self._counts[Key(shown, code, digest)] for code, digest in keys}
        answers: list[bool] = []
        for key in keys:
            left[key] -= 1
            answers.append(left[key] < 0)
        return answers

    def add(self, path: Path, keys: Iterable[tuple[str, str]]) -> None:
        """Make the findings of a file known."""
        shown = self._relative(path)
        self._counts.update(Key(shown, code, digest) for code, digest in keys)

    def save(self, path: Path) -> None:
        """Write the file, sorted, one finding a line, so that its changes read well."""
        lines = [json.dumps({**key._asdict(), "count": count}) for key, count in sorted(self._counts.items())]
        body = ",\n".join(f"    {line}" for line in lines)
        try:
            path.write_text(f'{{\n  "version": {VERSION},\n  "findings": [\n{body}\n  ]\n}}\n', encoding="utf-8")
        except OSError as error:
            raise BaselineError(f"{path}: {error.strerror}") from error

    def _relative(self, path: Path) -> str:
        absolute = Path(path).absolute()
        try:
            return absolute.relative_to(self._folder).as_posix()
        except ValueError:
            return absolute.as_posix()


def keys_of(source: Source, findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Return the code and the hash of the statement of each finding."""
    found = list(findings)
    if not found:
        return []
    try:
        tree = source.parse()
    except SourceError:
        tree = ast.Module([], [])
    return [(finding.code, _digest(source, tree, finding.span.start.line)) for finding in found]


def _digest(source: Source, tree: ast.Module, line: int) -> str:
    lines = lines_of(tree, source, line)
    first, last = lines or (line, line)
    text = "\n".join(source.line_text(number) for number in range(first, last + 1))
    return hashlib.sha256(re.sub(r"\s+", "", text).encode("utf-8", "surrogatepass")).hexdigest()[:16]
