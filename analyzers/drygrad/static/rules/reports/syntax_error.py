"""DG906: a text that Python cannot parse."""

from __future__ import annotations

import sys
from typing import ClassVar

from drygrad.model import Finding, Invalid, Rule, Severity, Span, Valid
from drygrad.settings import Settings
from drygrad.static.source import Source, SourceError


class SyntaxErrorInText(Rule):
    """
    ## What it does
    Says that a file is not valid Python, in the words of the Python version that runs drygrad. Newer syntax needs a
    newer Python.

    ## Why is this bad?
    Nothing in the file can run, and no other rule can check it.

    ## Example
    ```text
    loss = criterion(output, target
    ```
    Use instead:
    ```python
    loss = criterion(output, target)
    ```
    """

    code, name, since = "DG906", "syntax-error", "0.1"
    severity: ClassVar[Severity] = "error"
    reports: ClassVar[bool] = True
    VALID: ClassVar[list[Valid]] = [Valid("loss = 1\n")]
    INVALID: ClassVar[list[Invalid]] = [Invalid("import torch\nloss = (1\n", at=(2, 7, 2, 8))]

    @classmethod
    def finding(cls, source: Source, error: SourceError, settings: Settings) -> Finding:
        """Return the finding for an error that ``Source.parse`` raised, one character wide."""
        line, column = error.position
        end = min(column + 1, max(len(source.line_text(line)), column))
        severity = settings.severity_of(cls.code, cls.severity)
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        message = f"{error.message} (parsed as Python {version})"
        return Finding(cls.code, cls.name, message, severity, Span.of(line, column, line, end))
