"""What a user can set for the static checks, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from drygrad.model import Severity

Version = tuple[int, int]


@dataclass(frozen=True)
class Settings:
    """The settings of one project (``[tool.drygrad]``), already validated.

    Codes may be prefixes: ``DG3`` selects the family, ``DG304`` one rule.
    """

    select: tuple[str, ...] = ("DG",)
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict[str, Severity])
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    exclude: tuple[str, ...] = ()
    target_torch: Version | None = None
    baseline: str | None = None

    def enabled(self, code: str) -> bool:
        """Say whether a rule's findings are wanted: the longest matching prefix decides, ``ignore`` wins a draw."""
        selected = max((len(p) for p in self.select if code.startswith(p)), default=-1)
        ignored = max((len(p) for p in self.ignore if code.startswith(p)), default=-1)
        return selected > ignored

    def severity_of(self, code: str, default: Severity) -> Severity:
        """Return the severity to report a rule's finding with: the longest matching prefix decides."""
        matching = [prefix for prefix in self.severity if code.startswith(prefix)]
        return self.severity[max(matching, key=len)] if matching else default
