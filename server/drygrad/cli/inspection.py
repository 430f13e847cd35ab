"""Checking and fixing one file. It runs in worker processes too: it imports nothing but the analyzers."""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from drygrad.baseline import Baseline, keys_of
from drygrad.files import read_file, write_atomically
from drygrad.fixing import Fixed, fix_text
from drygrad.model import Finding, Fix, Related, Span
from drygrad.notebook import Notebook, in_cells, is_editable
from drygrad.settings import Settings
from drygrad.static.engine import Analysis, Analyzer
from drygrad.static.lookup.library import library_of
from drygrad.static.lookup.probing import noting
from drygrad.static.rules.reports.syntax_error import SyntaxErrorInText
from drygrad.static.source import Source, SourceError, SourceSyntaxError, decode, encode

from .report import FileResult, Item
from .result_cache import ResultCache, key_of
from .walk import from_here

MAX_BYTES = 64 << 20
"""No text is that long; a notebook with pictures may come near, and a device never ends."""


@dataclass(frozen=True)
class Mode:
    """What to do with fixes: ``write`` them to the file, show the ``diff``, hand back the ``text``; or none of it."""

    fix: Literal["no", "write", "diff", "text"] = "no"
    unsafe: bool = False


@dataclass(frozen=True)
class Job:
    """One file to check. ``shown`` is its name in the output; ``data`` its content where it is not on the disk.

    Where ``joined``, it is the text of a notebook's cells, and positions are those of that text. ``cache`` is where
    findings are kept from check to check.
    """

    path: Path
    shown: str
    settings: Settings
    mode: Mode = Mode()
    baseline: Baseline | None = None
    data: bytes | None = None
    root: Path = Path()
    site_packages: tuple[str, ...] = ()
    joined: bool = False
    cache: Path | None = None


def inspect(job: Job) -> FileResult:
    """Check a file and fix it if asked to. Never raises: what went wrong is part of the result."""
    try:
        data = _read(job.path) if job.data is None else job.data
        return _inspect(job, data)
    except SourceError as error:
        line, column = error.position
        place = f" (line {line}, column {column + 1})" if (line, column) != (1, 0) else ""
        return failed(job, f"{error.message}{place}")
    except OSError as error:
        return failed(job, f"cannot read: {error.strerror or error}")
    except (RecursionError, MemoryError):
        return failed(job, "cannot check: an expression is nested too deeply")
    except Exception as error:  # noqa: BLE001 - a bug of ours in one file must not hide the findings in the others
        place = traceback.format_exc() if os.environ.get("DRYGRAD_DEBUG") else "set DRYGRAD_DEBUG=1 for the traceback"
        return failed(job, f"internal error, please report it: {type(error).__name__}: {error} ({place})")


def _read(path: Path) -> bytes:
    data = read_file(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise SourceError(f"the file has more than {MAX_BYTES >> 20} MiB")
    return data


def failed(job: Job, message: str) -> FileResult:
    """Return the result of a file that could not be checked."""
    return FileResult(job.shown, problems=(message,), failed=True)


def _inspect(job: Job, data: bytes) -> FileResult:
    text = decode(data)
    notebook = Notebook.load(text) if job.path.suffix == ".ipynb" and not job.joined else None
    module = notebook.module.text if notebook else text
    check = _Check(job, in_cells=job.joined or notebook is not None)
    if job.mode.fix == "no":
        return _result(check, module, notebook)
    fixed = fix_text(module, lambda text: check.parted(Source(text))[0], unsafe=job.mode.unsafe)
    return _fixed_result(check, Document(data, text, notebook), fixed)


@dataclass(frozen=True)
class Document:
    """What was read: the bytes, their text, and the notebook that the text is, if it is one."""

    data: bytes
    text: str
    notebook: Notebook | None

    def rewritten(self, module: str) -> str | None:
        """Return the text with a changed module; None if that cannot be brought back into cells."""
        return self.notebook.rewritten(module) if self.notebook else module


class _Check:
    """The check of one job, again and again as its text is fixed."""

    def __init__(self, job: Job, *, in_cells: bool) -> None:
        self.job = job
        self._in_cells = in_cells
        self._analyzer = Analyzer(job.settings)
        self._cache = ResultCache(job.cache) if job.cache else None
        self._is_complete = True

    def parted(self, source: Source) -> tuple[list[Finding], list[tuple[str, str]]]:
        """Return the findings that the baseline does not know, and the keys of all."""
        found = self._cached(source, self._cache) if self._cache else self._findings(source)
        if self.job.baseline is None:
            return found, []
        keys = keys_of(source, found)
        new = self.job.baseline.unknown(self.job.path, keys)
        return [finding for finding, is_new in zip(found, new, strict=True) if is_new], keys

    def _cached(self, source: Source, cache: ResultCache) -> list[Finding]:
        job = self.job
        path, installed = job.path.absolute(), job.site_packages
        key = key_of(source.text, path, job.root, job.settings, installed, in_cells=self._in_cells)
        found = cache.findings(key)
        if found is None:
            self._is_complete = True
            with noting() as rests_on:
                found = self._findings(source)
            if self._is_complete:
                cache.keep(key, found, rests_on)
        return found

    def _findings(self, source: Source) -> list[Finding]:
        """Return the findings: DG906 where the text does not parse. SourceError where it cannot be analysed at all."""
        settings = self.job.settings
        analysis = self._analysis(source)
        if isinstance(analysis.error, SourceSyntaxError):
            found = [SyntaxErrorInText.finding(source, analysis.error, settings)]
            return found if settings.enabled(SyntaxErrorInText.code) else []
        if analysis.error:
            raise analysis.error
        return [editable(finding, source) if self._in_cells else finding for finding in analysis.findings]

    def _analysis(self, source: Source) -> Analysis:
        """Check a text; once more with what other files tell of the names that it imports, where they tell anything."""
        job = self.job
        path = job.path.absolute()
        self._analyzer.links = library_of(job.root, job.site_packages).links(path)
        analysis = self._analyzer.check(source)
        if not analysis.questions:
            return analysis
        from drygrad.static.lookup.ancestry import ancestry_of  # noqa: PLC0415 - most files ask nothing
        from drygrad.static.lookup.client import Place, look_up  # noqa: PLC0415

        place = Place(path, job.root, job.site_packages)
        answers = look_up(place, analysis.questions)
        self._is_complete = answers.keys() >= {*analysis.questions}
        learned = self._analyzer.learn(ancestry_of(answers))
        return self._analyzer.check(source) if learned else analysis


def editable(finding: Finding, source: Source) -> Finding:
    """Return a finding of joined cells with those fixes only that leave the borders of the cells alone."""
    return replace(finding, fixes=tuple(fix for fix in finding.fixes if is_editable(source, fix)))


def _result(check: _Check, module: str, notebook: Notebook | None) -> FileResult:
    source = Source(module)
    findings, keys = check.parted(source)
    shown = check.job.shown
    items = tuple(item_of(shown, source, finding, notebook) for finding in findings)
    return FileResult(shown, items, known=max(len(keys) - len(items), 0), keys=tuple(keys))


def item_of(shown: str, source: Source, finding: Finding, notebook: Notebook | None = None) -> Item:
    """Return a finding with the lines that it is shown with; ``shown`` is the name of its file."""

    def text(span: Span) -> str:
        line = source.line_text(span.start.line)
        return notebook.module.unmasked(line) if notebook else line

    excerpt = text(finding.span)
    beside = tuple(text(related.span) if related.path is None else None for related in finding.related)
    cell = None
    if notebook:
        cell, line = notebook.cell_number(finding.span.start.line)
        finding = _in_cell(finding, notebook, cell, finding.span.start.line - line)
    return Item(shown, _shown(finding, shown), cell, excerpt, beside)


def _shown(finding: Finding, shown: str) -> Finding:
    """Return a finding with the files that it names as users write them."""

    def written(path: str | None) -> str | None:
        return shown_path(path, beside=shown) if path else None

    related = tuple(replace(r, path=written(r.path)) for r in finding.related)
    fixes = tuple(replace(f, edits=tuple(replace(e, path=written(e.path)) for e in f.edits)) for f in finding.fixes)
    return replace(finding, related=related, fixes=fixes)


def shown_path(path: str, beside: str) -> str:
    """Return a file's name as users write it: from here, as they named the other one, where it lies below."""
    return path if Path(beside).is_absolute() else from_here(Path(path))


def _in_cell(finding: Finding, notebook: Notebook, cell: int, offset: int) -> Finding:
    """Return a finding with positions in its cell; what lies in other cells is said, not shown."""
    fixes = tuple(fix for fix in finding.fixes if _cells(fix, notebook) == {cell})
    related = tuple(_related_in_cell(r, notebook, cell, offset) for r in finding.related)
    message = in_cells(finding.message, notebook.cell_number, cell)
    return replace(replace(finding, message=message, fixes=fixes, related=()).shifted(-offset), related=related)


def _related_in_cell(related: Related, notebook: Notebook, cell: int, offset: int) -> Related:
    if related.path is not None:
        return related
    other, line = notebook.cell_number(related.span.start.line)
    if other == cell:
        return replace(related, span=related.span.shifted(-offset))
    moved = related.span.shifted(line - related.span.start.line)
    return replace(related, message=f"{related.message} (in cell {other})", span=moved)


def _cells(fix: Fix, notebook: Notebook) -> set[int]:
    return {notebook.cell_number(place.line)[0] for edit in fix.edits for place in edit.span}


def _fixed_result(check: _Check, document: Document, fixed: Fixed) -> FileResult:
    """Return the result of a text that was fixed: for a difference, which changes nothing, that of the text before."""
    mode, notebook = check.job.mode.fix, document.notebook
    problems = [f"not applied, it would break the syntax: {fix.title}" for fix in fixed.refused]
    before = notebook.module.text if notebook else document.text
    text = document.rewritten(fixed.text) if fixed.applied else document.text
    if text is None:
        problems.append("not applied: fixes that reach over several cells")
        text, fixed = document.text, Fixed(before)
    if mode == "diff":
        result, diff = _result(check, before, notebook), diff_of(check.job.shown, document.text, text)
        return replace(result, problems=tuple(problems), fixed=fixed.applied, diff=diff)
    result = _result(check, fixed.text, Notebook.load(text) if notebook else None)
    changed = encode(text, document.data) if fixed.applied else document.data
    if mode == "write" and fixed.applied and (problem := _write(check.job, changed)):
        return replace(_result(check, before, notebook), problems=(problem,))
    return replace(result, problems=tuple(problems), fixed=fixed.applied, text=changed if mode == "text" else None)


def _write(job: Job, data: bytes) -> str | None:
    try:
        write_atomically(job.path, data, within=job.root)
    except OSError as error:
        return f"cannot write: {error.strerror}"
    return None


def diff_of(shown: str, before: str, after: str) -> str:
    """Return the unified difference of two texts of a file."""
    old, new = (Source(text).lines for text in (before, after))
    lines = difflib.unified_diff(old, new, shown, shown)
    ended = (line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(ended)


def prepare_worker() -> None:
    """Make a worker process leave Ctrl-C to the process that started it, and end with it, however that ends."""
    import signal  # noqa: PLC0415 - of no use to a check in one process
    import threading  # noqa: PLC0415 - as above

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.close()
    threading.Thread(target=_end_with_the_parent, name="drygrad", daemon=True).start()


def _end_with_the_parent() -> None:
    from multiprocessing import parent_process  # noqa: PLC0415 - as above

    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)
