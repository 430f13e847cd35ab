"""A small analyzer in place of the real one, so that the server can be tested apart from the rules.

``leak()`` has a safe fix (``keep()``), ``risk()`` an unsafe one, ``pair()`` both, ``note()`` none but a related place;
``old()`` is deprecated, ``crash()`` breaks the analysis, ``speak()`` prints, ``slow()`` takes as long as SLOW
says, or until there is the file that GATE names.
"""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from drygrad.model import Edit, Finding, Fix, Related, Severity
from drygrad.settings import Settings
from drygrad.static.engine import Analysis
from drygrad.static.facts.linked import Links
from drygrad.static.source import Source, SourceError

CODES: dict[str, tuple[str, Severity]] = {
    "leak": ("DG101", "error"),
    "risk": ("DG102", "warning"),
    "pair": ("DG103", "info"),
    "note": ("DG104", "hint"),
    "old": ("DG105", "hint"),
}


class FaultyAnalyzer:
    """Finds calls of a few names."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.known: Mapping[str, tuple[str, ...]] = {}
        self.links: Links | None = None

    def check(self, source: Source) -> Analysis:
        if "slow()" in source.text:
            _take_long()
        try:
            tree = source.parse()
        except SourceError as error:
            return Analysis(source, error=error)
        findings = [finding for node in ast.walk(tree) for finding in self._findings(source, node)]
        kept = [finding for finding in findings if "harmless" not in self.known.get(finding.name, ())]
        questions = frozenset(finding.name for finding in kept)
        return Analysis(source, tuple(sorted(kept, key=lambda finding: finding.span)), None, questions)

    def _findings(self, source: Source, node: ast.AST) -> Iterator[Finding]:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            return
        name, span = node.func.id, source.span(node)
        if name == "crash":
            raise RuntimeError("a bug in a rule")
        if name == "speak":
            print("Content-Length: 7\r\n\r\ngarbage" * 1000)
            os.write(1, b"raw output of a C library\n" * 1000)
        if name not in CODES:
            return
        code, severity = CODES[name]
        if not self.settings.enabled(code) or f"ignore[{code}]" in source.line_text(span.start.line):
            return
        yield Finding(
            code,
            f"{name}-found",
            f"{name} was called",
            self.settings.severity_of(code, severity),
            span,
            related=(Related("it begins here", source.span(node.func)),) if name == "note" else (),
            fixes=tuple(_fixes(name, source, node.func)),
            tags=("deprecated",) if name == "old" else (),
        )


def _take_long() -> None:
    gate = os.environ.get("GATE")
    while gate and not Path(gate).exists():
        time.sleep(0.01)
    time.sleep(0.0 if gate else float(os.environ.get("SLOW", "0.3")))


def _fixes(name: str, source: Source, func: ast.Name) -> Iterator[Fix]:
    if name in ("leak", "pair"):
        yield Fix("Keep it", (Edit(source.span(func), "keep"),), "safe")
    if name in ("risk", "pair"):
        yield Fix("Drop it", (Edit(source.span(func), "drop"),), "unsafe")
