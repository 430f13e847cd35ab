"""What runs have found in other files than the one that was run: shown there, whether the file is open or not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from drygrad.lsp.checking import Checker, Shown
from drygrad.lsp.convert import Converter
from drygrad.lsp.modules import Module, Part
from drygrad.lsp.settings import path_of
from drygrad.model import Finding
from drygrad.static.source import SourceError, read

if TYPE_CHECKING:
    from drygrad.lsp.run_memory import RunMemory
    from drygrad.lsp.server import DrygradServer


class OtherFiles:
    """Has open files checked again when what runs of others found in them changes; publishes it of closed ones."""

    def __init__(self, server: DrygradServer, memories: Mapping[str, RunMemory]) -> None:
        self._server = server
        self._memories = memories
        self._found: dict[str, frozenset[Finding]] = {}
        self._published: set[Path] = set()
        server.session.listeners.append(self.checked)
        server.session.closing.append(self.closed)

    def found_in(self, path: Path | None) -> tuple[Finding, ...]:
        """Return what the runs of all documents that are still true have found in a file that they do not stand in."""
        everything = (finding for memory in list(self._memories.values()) for finding in _elsewhere(memory))
        return tuple(dict.fromkeys(finding for finding in everything if finding.path == str(path)))

    def checked(self, checker: Checker) -> None:
        """Show what the runs of a document have now found in others, and no longer what they had."""
        path, memory = path_of(checker.uri), self._memories.get(self._key(checker))
        if path in self._published:  # it is open now, and shows this itself
            self._publish(path, ())
        self._update(checker, frozenset(_elsewhere(memory)) if memory is not None else frozenset())

    def closed(self, checker: Checker) -> None:
        """Take back what the runs of a document have found; show what others have found in it, from now on."""
        self._update(checker, frozenset())
        if (path := path_of(checker.uri)) is not None and self.found_in(path):
            asyncio.get_running_loop().call_soon(self._show, path)  # what it showed itself is taken back first

    def _update(self, checker: Checker, found: frozenset[Finding]) -> None:
        before = self._found.pop(self._key(checker), frozenset[Finding]())
        if found:
            self._found[self._key(checker)] = found
        for path in {str(finding.path) for finding in before ^ found}:
            self._show(Path(path))

    def _key(self, checker: Checker) -> str:
        return self._server.dry_runs.key(checker.uri)

    def _show(self, path: Path) -> None:
        session = self._server.session
        open_as = next((c for c in session.checkers if path_of(c.uri) == path), None)
        if open_as is not None:
            open_as.edited(0)
        elif found := self.found_in(path):
            self._publish(path, found)
        elif path in self._published:
            self._publish(path, ())

    def _publish(self, path: Path, found: tuple[Finding, ...]) -> None:
        uri = path.as_uri()
        items = self._diagnostics(path, uri, found) if found else []
        (self._published.add if items else self._published.discard)(path)
        self._server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, items))

    def _diagnostics(self, path: Path, uri: str, found: tuple[Finding, ...]) -> list[lsp.Diagnostic]:
        try:
            part = Part(uri, None, read(path))
        except (OSError, SourceError):
            return []
        from drygrad.dryrun.merge import seen_in  # noqa: PLC0415 - a server that starts has seen nothing

        session = self._server.session
        findings = tuple(seen_in(finding, str(path)) for finding in found)
        converter = Converter(session.units, session.capabilities)
        return converter.diagnostics(Module.of_document(part), Shown(part, findings))


def _elsewhere(memory: RunMemory) -> Iterator[Finding]:
    """Yield what those outcomes of a document that are true of its text, and not outdated, say of other files."""
    for name, outcome in memory.view.outcomes.items():
        latest = memory.outcomes.get(name)
        if latest is not None and not latest.stale:
            for seen in outcome.seen:
                yield from seen.elsewhere
