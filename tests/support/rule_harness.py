"""What a rule's VALID and INVALID promise, checked against the analysis of the text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from textwrap import dedent

from drygrad.fixing import apply_edits
from drygrad.model import Finding, Fix
from drygrad.settings import Settings
from drygrad.static.engine import Analyzer
from drygrad.static.rules.reports.syntax_error import SyntaxErrorInText
from drygrad.static.source import Source, SourceError, SourceSyntaxError

PRELUDE = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


@dataclass(frozen=True)
class Example:
    """An example as a whole program; its positions do not count the prelude that a short form is given."""

    prelude: str
    text: str
    settings: Settings

    @classmethod
    def of(cls, text: str, target_torch: str | None = None) -> Example:
        """Complete an example's text."""
        plain = dedent(text.removeprefix("\n"))
        version = tuple(int(part) for part in target_torch.split(".")[:2]) if target_torch else None
        settings = replace(Settings(), target_torch=version)
        return cls("" if "import torch" in plain else PRELUDE, plain, settings)

    @property
    def program(self) -> str:
        """The text that is analysed."""
        return self.prelude + self.text

    def findings(self) -> list[Finding]:
        """Return what is found, at positions of the example's own text."""
        analysis = Analyzer(self.settings).check(Source(self.program))
        if isinstance(analysis.error, SourceSyntaxError):
            return [SyntaxErrorInText.finding(analysis.source, analysis.error, self.settings)]
        if analysis.error:
            raise analysis.error
        return [finding.shifted(-self.prelude.count("\n")) for finding in analysis.findings]

    def after(self, fix: Fix) -> Example:
        """Return the example with a fix applied (which may have added lines before the text: imports)."""
        lines = self.prelude.count("\n")
        moved = Finding("", "", "", "hint", fix.edits[0].span, fixes=(fix,)).shifted(lines).fixes[0]
        program = apply_edits(Source(self.program), moved.edits)
        if program.startswith(self.prelude):
            return replace(self, text=program.removeprefix(self.prelude))
        return replace(self, prelude="", text=program)

    def parses(self) -> bool:
        """Say whether the program is Python."""
        try:
            Source(self.program).parse()
        except SourceError:
            return False
        return True


def kinds(findings: list[Finding]) -> dict[str, int]:
    """Count findings by code."""
    counted: dict[str, int] = {}
    for finding in findings:
        counted[finding.code] = counted.get(finding.code, 0) + 1
    return counted
