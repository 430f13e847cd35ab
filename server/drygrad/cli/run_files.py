"""The files of ``drygrad run``: which there are, what of them is run, and what came of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from drygrad.baseline import keys_of
from drygrad.dryrun.findings import missing_finding
from drygrad.dryrun.launches.launch import Launch
from drygrad.dryrun.merge import Merged, Record, merge
from drygrad.dryrun.plan import Missing
from drygrad.dryrun.targets import Target, target_named, targets
from drygrad.files import read_file
from drygrad.interpreters import find_interpreter, site_packages
from drygrad.model import Finding
from drygrad.notebook import Notebook, in_cells
from drygrad.option_values import did_you_mean
from drygrad.project import Project
from drygrad.settings import Settings
from drygrad.static.source import Source, SourceError, decode
from drygrad.walk import Projects, Walk

from .errors import Failure, complain
from .inspection import Job, inspect, item_of, shown_path
from .overrides import Overrides
from .report import FileResult, Ran
from .run_launch import given_launch
from .terminal import from_here

Outcomes = list[Record | Missing]


@dataclass
class File:
    """One file: what of it is run, and what the runs brought. ``qualname`` None means the whole of it.

    ``data`` is what the disk has; ``source`` the text that is run, which fixes change. ``outcomes`` has the runs of
    each target by its name, None for the script. Of a ``notebook``, the text that is run is its cells, joined.
    ``others`` is what runs of other files have found in this one; one that is only ``mentioned`` there is not run.
    """

    shown: str
    path: Path
    data: bytes
    source: Source
    project: Project
    qualname: str | None = None
    static: list[Finding] = field(default_factory=list[Finding])
    outcomes: dict[str | None, Outcomes] = field(default_factory=dict[str | None, Outcomes])
    fixed: int = 0
    notebook: Notebook | None = None
    others: list[Finding] = field(default_factory=list[Finding])
    mentioned: bool = False
    overrides: Overrides = field(default_factory=Overrides)
    launch: Launch | None = None
    """How its program is started, where that was given; of the whole file, the program alone is run then."""

    @property
    def text(self) -> str:
        """What the file would hold with the text that is run."""
        return (self.notebook.rewritten(self.source.text) or "") if self.notebook else self.source.text

    @property
    def cells(self) -> Notebook | None:
        """The cells of the text that is run; None where it is no notebook's."""
        return Notebook.load(self.text) if self.notebook and self.fixed else self.notebook

    @property
    def whole(self) -> bool:
        """Whether all of the file is run."""
        return self.qualname is None

    @property
    def targets(self) -> Sequence[Target]:
        """What is run of it, the script last."""
        if self.mentioned:
            return []
        if self.qualname is None and self.launch is not None:
            script = target_named(self.source, None)
            return [script] if script else []
        if self.qualname is None:
            return [target for target in targets(self.source) if not target.skipped]
        target = target_named(self.source, self.qualname)
        return [target] if target else []

    @property
    def waiting(self) -> list[Target]:
        """Those that have not been run."""
        return [target for target in self.targets if target.qualname not in self.outcomes]

    @property
    def settings(self) -> Settings:
        """The settings that hold for the file."""
        return self.overrides.settings(self.project.settings_for(self.path))

    @property
    def ended(self) -> Outcomes:
        """What came of all targets, in their order."""
        return [outcome for target in self.targets for outcome in self.outcomes.get(target.qualname, ())]

    def check(self) -> None:
        """Have the text checked."""
        installed = site_packages(find_interpreter(self.project.root, file=self.path.absolute()))
        data = self.source.text.encode("utf-8", "surrogatepass")
        joined = self.notebook is not None
        job = Job(self.path, self.shown, self.settings, data=data, joined=joined, root=self.project.root)
        result = inspect(replace(job, site_packages=installed))
        for problem in result.problems:
            complain(f"{self.shown}: {problem}")
        self.static = [item.finding for item in result.items]

    def merged(self) -> Merged:
        """Return what both witnesses say that no baseline knows."""
        merged = self.everything()
        baseline = self.overrides.baseline_of(self.project)
        if baseline is None:
            return merged
        new = baseline.unknown(self.path, keys_of(self.source, merged.findings))
        kept = (finding for finding, is_new in zip(merged.findings, new, strict=True) if is_new)
        return replace(merged, findings=tuple(kept))

    def everything(self) -> Merged:
        """Return what both witnesses say; outside of a function that was named, only what its run has seen."""
        others = [finding for finding in self.others if self.settings.enabled(finding.code)]
        merged = merge(self.static, [o for o in self.ended if isinstance(o, Record)], self.source, others)
        if self.mentioned:
            return replace(merged, findings=tuple(f for f in merged.findings if f.run is not None))
        if self.whole:
            return merged
        spans = [target.span for target in self.targets]
        told = (f for f in merged.findings if f.run is not None or any(f.span.overlaps(span) for span in spans))
        return replace(merged, findings=tuple(told))


def judged(file: File) -> tuple[FileResult, list[Ran]]:
    """Return the findings of both witnesses, and the runs with what each disproved."""
    merged = file.merged()
    missing = [outcome for outcome in file.ended if isinstance(outcome, Missing)]
    heard = (m for m in missing if m.in_comment or not file.whole)  # of a whole file, the others are told in numbers
    told = [f for m in heard for f in missing_finding(m, file.source, file.settings)]
    found = sorted([*merged.findings, *told], key=lambda finding: finding.span)
    cells = file.cells
    items = tuple(item_of(file.shown, file.source, finding, cells) for finding in found)
    lines = tuple(file.source.lines)
    ran = [Ran(file.shown, outcome, _refuted(merged, outcome), lines, cells) for outcome in file.ended]
    known = len(file.everything().findings) - len(merged.findings)
    return FileResult(file.shown, items, known=known, fixed=file.fixed, mentioned=file.mentioned), ran


def with_mentioned(files: Sequence[File], projects: Projects) -> list[File]:
    """Give each file what runs of the others have found in it; return them, and files that are only mentioned there."""
    found: dict[str, list[Finding]] = {}
    records = (outcome for file in files for outcome in file.ended if isinstance(outcome, Record))
    for finding in (finding for record in records for finding in record.elsewhere):
        found.setdefault(str(finding.path), []).append(finding)
    known = {str(file.path.absolute()): file for file in files}
    for path in sorted(found.keys() - known.keys()):
        shown = shown_path(path, beside=files[0].shown)
        known[path] = replace(file_of(shown, None, projects), mentioned=True, overrides=files[0].overrides)
        known[path].check()
    for path, file in known.items():
        file.others = found.get(path, [])
    return [*known.values()]


def _refuted(merged: Merged, outcome: Record | Missing) -> tuple[Finding, ...]:
    if isinstance(outcome, Missing):
        return ()
    return tuple(refutation.finding for refutation in merged.refuted if refutation.run_id == outcome.run_id)


def files_of(arguments: argparse.Namespace, projects: Projects) -> Iterator[File]:
    """Yield what is to be run. Failure where there is no such thing."""
    overrides = Overrides.of(arguments)
    for file in _files_of(arguments, projects):
        yield replace(file, overrides=overrides)


def _files_of(arguments: argparse.Namespace, projects: Projects) -> Iterator[File]:
    launch = given_launch(arguments, projects)
    if launch is not None:
        qualname = (arguments.target or "").partition("::")[2]
        yield replace(file_of(from_here(launch.file), qualname or None, projects), launch=launch)
        return
    name, _, qualname = str(arguments.target).partition("::")
    if Path(name).is_dir():
        if qualname:
            raise Failure(f"{name} is a folder; name the file that defines {qualname}")
        for shown in Walk(projects).files(name):
            yield file_of(shown, None, projects)
        return
    if not Path(name).exists():
        raise Failure(f"{name}: no such file or folder")
    yield file_of(name, qualname or None, projects)


def file_of(shown: str, qualname: str | None, projects: Projects) -> File:
    """Return a file, read, of which a function is to be run, or all of it. Failure where that cannot be."""
    path, notebook = Path(shown), None
    try:
        data = read_file(path)
        notebook = Notebook.load(decode(data)) if path.suffix == ".ipynb" else None
        source = Source(notebook.module.text if notebook else decode(data))
        known = targets(source)
        source.tree  # noqa: B018 - parses, or says why it cannot
    except SourceError as error:
        line, column = error.position
        place = in_cells(f"line {line}", notebook.cell_number) if notebook else f"line {line}"
        raise Failure(f"{shown}: {error.message} ({place}, column {column + 1})") from error
    except OSError as error:
        raise Failure(f"{shown}: cannot read: {error.strerror or error}") from error
    file = File(shown, path, data, source, projects.of_folder(path.parent), qualname, notebook=notebook)
    if qualname is not None and not file.targets:
        names = [each.qualname for each in known if each.qualname]
        raise Failure(f"{shown} has no function `{qualname}`{did_you_mean(qualname, names)}")
    return file
