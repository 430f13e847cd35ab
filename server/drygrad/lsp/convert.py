"""From findings to the protocol: diagnostics that carry their fixes."""

from __future__ import annotations

import hashlib
import logging
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from lsprotocol import types as lsp

from drygrad.documentation import page_of
from drygrad.lsp.base.units import Units
from drygrad.lsp.capabilities import Capabilities
from drygrad.lsp.checking import Shown
from drygrad.lsp.modules import Module, Part
from drygrad.model import Edit, Finding, Fix, Position, Related, Severity, Span, Tag
from drygrad.static.source import Source, SourceError, SourceSyntaxError

log = logging.getLogger(__name__)

SOURCE = "drygrad"

_SEVERITIES: dict[Severity, lsp.DiagnosticSeverity] = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "info": lsp.DiagnosticSeverity.Information,
    "hint": lsp.DiagnosticSeverity.Hint,
}
_TAGS: dict[Tag, lsp.DiagnosticTag] = {
    "unnecessary": lsp.DiagnosticTag.Unnecessary,
    "deprecated": lsp.DiagnosticTag.Deprecated,
}
_PREFIX = uuid.uuid4().hex[:8]
"""A client must not match a result of the server before a restart."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True)
class Converter:
    """Turns findings into diagnostics, as one client wants them."""

    units: Units
    capabilities: Capabilities

    def diagnostics(self, module: Module, shown: Shown) -> list[lsp.Diagnostic]:
        """Return the diagnostics of one part of a module."""
        found = [self.diagnostic(module, shown.part, finding) for finding in shown.findings]
        if shown.error is None or isinstance(shown.error, SourceSyntaxError):
            return found  # editors show syntax errors themselves
        return [self._not_checked(shown.part, shown.error), *found]

    def _not_checked(self, part: Part, error: SourceError) -> lsp.Diagnostic:
        span = Span(error.position, Position(error.position.line, len(part.source.line_text(error.position.line))))
        range_ = self.units.from_span(part.source, span)
        return lsp.Diagnostic(range_, error.message, lsp.DiagnosticSeverity.Information, source=SOURCE)

    def diagnostic(self, module: Module, part: Part, finding: Finding) -> lsp.Diagnostic:
        """Return one finding's diagnostic."""
        able = self.capabilities
        return lsp.Diagnostic(
            range=self.units.from_span(part.source, finding.span),
            message=self._message(finding),
            severity=_SEVERITIES[finding.severity],
            code=finding.code,
            code_description=lsp.CodeDescription(page_of(finding.code)) if able.code_description else None,
            source=SOURCE,
            tags=[tag for t in finding.tags if (tag := _TAGS[t]) in able.tags] or None,
            related_information=self._related(module, part, finding) if able.related_information else None,
            data=self._data(module, part, finding),
        )

    def _message(self, finding: Finding) -> str:
        lines = [finding.message, *filter(None, [finding.detail])]
        if not self.capabilities.related_information:
            lines += [f"line {r.span.start.line}: {r.message}" for r in finding.related if r.path is None]
        return "\n".join(lines)

    def _related(self, module: Module, part: Part, finding: Finding) -> list[lsp.DiagnosticRelatedInformation] | None:
        return [self._location(module, part, related) for related in finding.related] or None

    def _location(self, module: Module, home: Part, related: Related) -> lsp.DiagnosticRelatedInformation:
        uri, source, _ = _place(related.path, module, home)
        range_ = self.units.from_span(source, related.span) if source else _unmeasured(related.span)
        return lsp.DiagnosticRelatedInformation(lsp.Location(uri, range_), related.message)

    def _data(self, module: Module, part: Part, finding: Finding) -> dict[str, Any]:
        return {"version": part.version, "fixes": [self._fix(module, part, fix) for fix in finding.fixes]}

    def _fix(self, module: Module, part: Part, fix: Fix) -> dict[str, Any]:
        changes: dict[str, dict[str, Any]] = {}
        for edit in fix.edits:
            uri, source, version = _place(edit.path, module, part)
            change = changes.setdefault(uri, {"uri": uri, "version": version, "edits": []})
            change["edits"].append(self._edit(source, edit))
        return {
            "title": fix.title,
            "safe": fix.safety == "safe",
            "verified": fix.verified,
            "changes": list(changes.values()),
        }

    def _edit(self, source: Source | None, edit: Edit) -> dict[str, Any]:
        range_ = self.units.from_span(source, edit.span) if source else _unmeasured(edit.span)
        text = edit.new_text
        if source is not None and source.newline != "\n":
            text = text.replace("\r\n", "\n").replace("\n", source.newline)
        return {"range": range_json(range_), "newText": text}


def result_id(items: list[lsp.Diagnostic]) -> str:
    """Return a name for what diagnostics say: a check that finds the same again has changed nothing."""
    digest = hashlib.sha1(repr(items).encode("utf-8", "surrogatepass"), usedforsecurity=False)
    return f"{_PREFIX}-{digest.hexdigest()[:12]}"


def _place(path: str | None, module: Module, home: Part) -> tuple[str, Source | None, int | None]:
    """Return the document that a path (None: the finding's own) means, with its text where that is open."""
    if path is None:
        return home.uri, home.source, home.version
    part = module.by_uri.get(path)
    if part is not None:
        return part.uri, part.source, part.version
    uri = path if _URI.match(path) else Path(path).absolute().as_uri()
    return uri, None, None


def _unmeasured(span: Span) -> lsp.Range:
    """Return the range in a text that is not at hand: columns stay in characters."""
    start, end = span
    return lsp.Range(lsp.Position(start.line - 1, start.column), lsp.Position(end.line - 1, end.column))


def range_json(range_: lsp.Range) -> dict[str, Any]:
    """Return a range as plain JSON."""
    return {
        "start": {"line": range_.start.line, "character": range_.start.character},
        "end": {"line": range_.end.line, "character": range_.end.character},
    }


def range_of(data: Mapping[str, Any]) -> lsp.Range:
    """Read a range from plain JSON."""
    start, end = data["start"], data["end"]
    return lsp.Range(
        lsp.Position(start["line"], start["character"]),
        lsp.Position(end["line"], end["character"]),
    )


@dataclass(frozen=True)
class OfferedFix:
    """A fix as it came back with a diagnostic."""

    title: str
    safe: bool
    verified: bool | None
    changes: tuple[lsp.TextDocumentEdit, ...]

    @property
    def full_title(self) -> str:
        """What the user reads: what the fix does, and whether to trust it."""
        notes = [*(["verified"] if self.verified else []), *([] if self.safe else ["unsafe"])]
        return f"{self.title} ({', '.join(notes)})" if notes else self.title


def fixes_in(data: object) -> Iterator[OfferedFix]:
    """Read the fixes from a diagnostic's data; data of another shape has none.

    What was null may be absent: Lua tables hold no nil.
    """
    if not isinstance(data, Mapping):
        return
    for fix in cast("Mapping[str, Any]", data).get("fixes") or ():
        try:
            changes = tuple(_text_document_edit(change) for change in fix["changes"])
            yield OfferedFix(fix["title"], fix["safe"], fix.get("verified"), changes)
        except (KeyError, TypeError):
            log.warning("a diagnostic came back with data that is not ours: %r", fix)


def _text_document_edit(change: Mapping[str, Any]) -> lsp.TextDocumentEdit:
    identifier = lsp.OptionalVersionedTextDocumentIdentifier(change["uri"], change.get("version"))
    return lsp.TextDocumentEdit(identifier, [lsp.TextEdit(range_of(e["range"]), e["newText"]) for e in change["edits"]])
