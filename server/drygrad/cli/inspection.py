"""Checking and fixing one file. It runs in worker processes too: it imports nothing but the analyzers."""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from drygrad.baseline import Baseline
from drygrad.file_check import Conditions, FileCheck, read_bounded
from drygrad.files import write_atomically
from drygrad.fixing import Fixed, fix_text
from drygrad.model import Finding, Fix, Related, Span
from drygrad.notebook import Notebook, in_cells
from drygrad.settings import Settings
from drygrad.static.source import Source, SourceError, decode, encode

from .report import FileResult, Item
from .terminal import from_here


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

    @property
    def conditions(self) -> Conditions:
        """What the findings depend on."""
        return Conditions(self.path, self.settings, self.baseline, self.root, self.site_packages, self.cache)


def inspect(job: Job) -> FileResult:
    """Check a file and fix it if asked to. Never raises: what went wrong is part of the result."""
    try:
        data = read_bounded(job.path) if job.data is None else job.data
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


def failed(job: Job, message: str) -> FileResult:
    """Return the result of a file that could not be checked."""
    return FileResult(job.shown, problems=(message,), failed=True)


def _inspect(job: Job, data: bytes) -> FileResult:
    text = decode(data)
    notebook = Notebook.load(text) if job.path.suffix == ".ipynb" and not job.joined else None
    module = notebook.module.text if notebook else text
    check = FileCheck(job.conditions, in_cells=job.joined or notebook is not None)
    if job.mode.fix == "no":
        return _result(job, check, module, notebook)
    fixed = fix_text(module, lambda text: check.parted(Source(text))[0], unsafe=job.mode.unsafe)
    return _fixed_result(job, check, Document(data, text, notebook), fixed)


@dataclass(frozen=True)
class Document:
    """What was read: the bytes, their text, and the notebook that the text is, if it is one."""

    data: bytes
    text: str
    notebook: Notebook | None

    def rewritten(self, module: str) -> str | None:
        """Return the text with a changed module; None if that cannot be brought back into cells."""
        return self.notebook.rewritten(module) if self.notebook else module


def _result(job: Job, check: FileCheck, module: str, notebook: Notebook | None) -> FileResult:
    source = Source(module)
    findings, keys = check.parted(source)
    items = tuple(item_of(job.shown, source, finding, notebook) for finding in findings)
    return FileResult(job.shown, items, known=max(len(keys) - len(items), 0), keys=tuple(keys))


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


def _fixed_result(job: Job, check: FileCheck, document: Document, fixed: Fixed) -> FileResult:
    """Return the result of a text that was fixed: for a difference, which changes nothing, that of the text before."""
    mode, notebook = job.mode.fix, document.notebook
    problems = [f"not applied, it would break the syntax: {fix.title}" for fix in fixed.refused]
    before = notebook.module.text if notebook else document.text
    text = document.rewritten(fixed.text) if fixed.applied else document.text
    if text is None:
        problems.append("not applied: fixes that reach over several cells")
        text, fixed = document.text, Fixed(before)
    if mode == "diff":
        result, diff = _result(job, check, before, notebook), diff_of(job.shown, document.text, text)
        return replace(result, problems=tuple(problems), fixed=fixed.applied, diff=diff)
    result = _result(job, check, fixed.text, Notebook.load(text) if notebook else None)
    changed = encode(text, document.data) if fixed.applied else document.data
    if mode == "write" and fixed.applied and (problem := _write(job, changed)):
        return replace(_result(job, check, before, notebook), problems=(problem,))
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
