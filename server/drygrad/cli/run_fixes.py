"""``drygrad run --fix``: what was tried and holds is applied, and the repaired text is run again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drygrad.files import write_atomically
from drygrad.fixing import apply_edits, compatible, parses
from drygrad.model import Finding, Fix
from drygrad.static.source import Source, encode

from .errors import Failure
from .inspection import diff_of, editable
from .run_files import File
from .run_progress import Progress
from .running import Runner

ROUNDS = 5
"""A repaired fault may uncover another one; two fixes that undo each other must come to an end."""


async def fix(files: Sequence[File], runner: Runner, progress: Progress, *, unsafe: bool) -> None:
    """Apply the verified fixes of the files' findings in memory, and run what has changed again, until none is left."""
    for _ in range(ROUNDS):
        changed = [file for file in files if _apply(file, unsafe=unsafe)]
        if not changed:
            return
        await runner.run(changed, progress)


def _apply(file: File, *, unsafe: bool) -> bool:
    """Give a file the text that its fixes make; say whether there were any."""
    found = file.merged().findings
    if file.notebook is not None:
        found = [editable(finding, file.source) for finding in found]
    chosen = compatible(_offered(found, unsafe=unsafe))
    while chosen and not parses(_text(file.source, chosen)):
        chosen.pop()
    if not chosen:
        return False
    file.source, file.fixed = Source(_text(file.source, chosen)), file.fixed + len(chosen)
    file.outcomes.clear()
    return True


def _offered(findings: Iterable[Finding], *, unsafe: bool) -> list[Fix]:
    """Return the first verified fix of each finding, of those that may be applied; one that serves several, once."""
    firsts = (next((f for f in x.fixes if f.verified and (unsafe or f.safety == "safe")), None) for x in findings)
    return [*dict.fromkeys(fix for fix in firsts if fix is not None)]


def _text(source: Source, fixes: Sequence[Fix]) -> str:
    return apply_edits(source, (edit for fix in fixes for edit in fix.edits))


def write(files: Iterable[File]) -> None:
    """Write what fixes have changed. Failure where a file cannot be written."""
    for file in files:
        if file.fixed:
            try:
                write_atomically(file.path, encode(file.text, file.data), within=file.project.root)
            except OSError as error:
                raise Failure(f"{file.shown}: cannot write: {error.strerror}") from error


def diff(file: File, before: Source) -> str:
    """Return what fixes have changed of a file."""
    old = file.notebook.original if file.notebook else before.text
    return diff_of(file.shown, old, file.text) if file.fixed else ""
