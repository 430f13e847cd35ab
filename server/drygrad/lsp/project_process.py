"""Checks what lies below some folders and tells of each file: a process beside the server, so that typing never waits.

The request is a literal on standard input, the answer lines of JSON on standard output: first how many files there are,
then what was found in each. It ends when the server does, whose end of the pipe is then closed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from lsprotocol import converters
from lsprotocol import types as lsp

from drygrad.baseline import Baseline, BaselineError
from drygrad.file_check import Conditions, FileCheck, read_bounded
from drygrad.interpreters import find_interpreter, site_packages
from drygrad.lsp.base.units import Units
from drygrad.lsp.checking import Shown
from drygrad.lsp.convert import Converter
from drygrad.lsp.modules import Module, Part
from drygrad.lsp.project_request import Folder, Request
from drygrad.project import Project
from drygrad.result_cache import ResultCache, cache_folder
from drygrad.settings import Settings
from drygrad.static.rules.reports.syntax_error import SyntaxErrorInText
from drygrad.static.source import Source, SourceError, decode
from drygrad.walk import Projects, Walk

_MODEST = 10
"""Who edits, and what they run, comes first."""


class _Check:
    """One check of the folders."""

    def __init__(self, request: Request) -> None:
        self._converter = Converter(Units(request.encoding), request.capabilities)
        self._request = request
        self._cache = cache_folder()

    def files(self) -> Iterator[tuple[Path, Project, Folder]]:
        """Yield the Python files, each once. Notebooks are none: only the client has names for their cells."""
        seen: set[str] = set()
        for folder in self._request.folders:
            projects = Projects(Settings(**folder.rules))
            with suppress(OSError):  # it may be gone, or not ours to read
                for name in Walk(projects).files(folder.path):
                    if name.endswith(".py") and name not in seen:
                        seen.add(name)
                        yield Path(name), projects.of_folder(Path(name).parent), folder

    def found(self, path: Path, project: Project, folder: Folder) -> list[lsp.Diagnostic]:
        """Return what is found in a file; nothing where it cannot be read. Its syntax is the editor's business."""
        try:
            source = Source(decode(read_bounded(path)))
            installed = _installed(project.root, folder.interpreter, path.parent)
            baseline = _baseline(project)
            how = Conditions(path, project.settings_for(path), baseline, project.root, installed, self._cache)
            found, _ = FileCheck(how).parted(source)
        except (SourceError, OSError, RecursionError, MemoryError):
            return []
        part = Part(path.as_uri(), None, source)
        shown = Shown(part, tuple(finding for finding in found if finding.code != SyntaxErrorInText.code))
        return self._converter.diagnostics(Module.of_document(part), shown)


@cache
def _installed(root: Path, chosen: str | None, folder: Path) -> tuple[str, ...]:
    return site_packages(find_interpreter(root, chosen, folder / "module.py"))


def _baseline(project: Project) -> Baseline | None:
    return _loaded(project.root / project.settings.baseline) if project.settings.baseline else None


@cache
def _loaded(path: Path) -> Baseline | None:
    try:
        return Baseline.load(path)
    except BaselineError:
        return None  # as in a file that is open: everything is shown


def main() -> None:
    """Answer the one request."""
    request = Request.read(sys.stdin.readline())
    if hasattr(os, "nice"):
        os.nice(_MODEST)
    check, plain = _Check(request), converters.get_converter()
    files = list(check.files())
    _tell({"total": len(files)})
    for path, project, folder in files:
        _tell({"uri": path.as_uri(), "items": plain.unstructure(check.found(path, project, folder))})
    if kept := cache_folder():
        ResultCache(kept).sweep()


def _tell(value: object) -> None:
    try:
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(1)  # the server is gone
