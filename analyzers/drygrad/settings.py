"""What a user can set, and the defaults. Reading and validating them is the work of ``drygrad.options``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from drygrad.launchers import Profile
from drygrad.model import Rule, Severity

Version = tuple[int, int]
LogLevel = Literal["error", "warning", "info", "debug"]
Hover = Literal["short", "page"]
DiagnosticMode = Literal["openFilesOnly", "workspace"]
Device = Literal["auto", "cuda", "sim", "cpu"]


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
    experiments: tuple[str, ...] = ("DG",)

    def enabled(self, code: str) -> bool:
        """Say whether a rule's findings are wanted: the longest matching prefix decides, ``ignore`` wins a draw."""
        selected = max((len(p) for p in self.select if code.startswith(p)), default=-1)
        ignored = max((len(p) for p in self.ignore if code.startswith(p)), default=-1)
        return selected > ignored

    def experiments_with(self, code: str) -> bool:
        """Say whether a relation is to be tried: it is among those that experiments are made of."""
        return self.enabled(code) and code.startswith(self.experiments)

    def wants(self, rule: type[Rule]) -> bool:
        """Say whether a rule runs: its findings are wanted and it holds for the torch version that is aimed at."""
        return self.enabled(rule.code) and holds_for(rule.torch, self.target_torch)

    def severity_of(self, code: str, default: Severity) -> Severity:
        """Return the severity to report a rule's finding with: the longest matching prefix decides."""
        matching = [prefix for prefix in self.severity if code.startswith(prefix)]
        return self.severity[max(matching, key=len)] if matching else default

    def without(self, codes: Iterable[str]) -> Settings:
        """Return the settings with these codes off, even where ``select`` names them more exactly."""
        dropped = tuple(codes)
        if not dropped:
            return self
        kept = tuple(prefix for prefix in self.select if not prefix.startswith(dropped))
        return replace(self, select=kept, ignore=self.ignore + dropped)


def holds_for(versions: tuple[str | None, str | None], target: Version | None) -> bool:
    """Say whether a rule that holds from one torch version until another holds for the target; None: for the newest."""
    since, until = versions
    if target is None:
        return until is None
    return (since is None or _version(since) <= target) and (until is None or target < _version(until))


def _version(text: str) -> Version:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


@dataclass(frozen=True)
class RunSettings:
    """What a project sets for its dry runs (``[tool.drygrad.run]``); None: it does not say."""

    launch: str | None = None
    launches: Mapping[str, str] = field(default_factory=dict[str, str])
    launchers: Mapping[str, Profile] = field(default_factory=dict[str, Profile])
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    interpreter: str | None = None
    device: Device | None = None
    timeout: float | None = None
    memory_limit: float | None = None
    gpu_memory: float | None = None
    gpu: str | None = None
    search_time: float | None = None
    program_time: float | None = None
    verify_time: float | None = None
    experiment_time: float | None = None


@dataclass(frozen=True)
class EditorSettings:
    """What one person sets in the editor; it never comes from a file of the project."""

    debounce: int = 120
    diagnostic_mode: DiagnosticMode = "openFilesOnly"
    trusted: bool = False
    device: Device = "auto"
    interpreter: str | None = None
    launch: str | None = None
    launcher: tuple[str, ...] = ()
    launchers: Mapping[str, Profile] = field(default_factory=dict[str, Profile])
    timeout: float = 30.0
    memory_limit: float = 0.0
    gpu_memory: float = 0.0
    gpu: str | None = None
    verify_time: float = 10.0
    search_time: float = 2.0
    program_time: float = 10.0
    experiment_time: float = 5.0
    dry_run_on_save: bool = True
    code_lens: bool = True
    inlay_hints: bool = True
    hover: Hover = "short"
    prewarm: bool = True
    log_level: LogLevel = "info"
