"""What the command line says of rules and known findings, instead of the settings of a project."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from drygrad.baseline import Baseline, BaselineError
from drygrad.option_values import code_problem
from drygrad.project import Project
from drygrad.settings import Settings

from .errors import Failure


@dataclass(frozen=True)
class Overrides:
    """The options ``--select``, ``--ignore``, ``--baseline`` and ``--no-baseline`` of one command."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    baseline: Baseline | None = None
    use_baseline: bool = True
    _known: dict[Path, Baseline | None] = field(default_factory=dict[Path, Baseline | None])

    @classmethod
    def of(cls, arguments: argparse.Namespace, *, writing: bool = False) -> Overrides:
        """Read the options of a command; Failure where they are wrong. One that is ``writing`` a baseline uses none."""
        wrong_code([*(arguments.select or ()), *arguments.ignore])
        named = arguments.baseline if arguments.use_baseline and not writing else None
        baseline = Baseline(Path()) if writing else load_baseline(named)
        return cls(arguments.select, arguments.ignore, baseline, arguments.use_baseline and not writing)

    def settings(self, settings: Settings) -> Settings:
        """Return settings with the command line's rules in place of theirs."""
        if self.select is not None:
            settings = replace(settings, select=self.select, ignore=())
        return replace(settings, ignore=settings.ignore + self.ignore)

    def baseline_of(self, project: Project) -> Baseline | None:
        """Return the known findings of a project: those of the command line, else those that it sets. Failure."""
        if self.baseline or not self.use_baseline or project.settings.baseline is None:
            return self.baseline
        if project.root not in self._known:
            self._known[project.root] = load_baseline(project.root / project.settings.baseline)
        return self._known[project.root]


def load_baseline(path: Path | None) -> Baseline | None:
    """Read a baseline, if one is named; Failure where it cannot be read."""
    try:
        return Baseline.load(path) if path else None
    except BaselineError as error:
        raise Failure(str(error)) from error


def wrong_code(codes: Sequence[str]) -> None:
    """Raise Failure where one of the codes means nothing."""
    for code in codes:
        if problem := code_problem(code):
            raise Failure(problem)
