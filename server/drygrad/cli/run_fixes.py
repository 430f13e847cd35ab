"""``drygrad run --fix``: what was tried and holds is applied, and the repaired text is run again."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from drygrad.dryrun.merge import Record
from drygrad.file_check import editable
from drygrad.files import write_atomically
from drygrad.fixing import apply_edits, compatible, parses
from drygrad.model import Finding, Fix
from drygrad.static.source import Source, encode
from drygrad.walk import Projects

from .errors import Failure
from .inspection import diff_of
from .run_files import File, with_mentioned
from .run_progress import Progress
from .running import Runner

ROUNDS = 5
"""A repaired fault may uncover another one; two fixes that undo each other must come to an end."""


async def fix(
    files: Sequence[File], runner: Runner, progress: Progress, projects: Projects, *, unsafe: bool
) -> Sequence[File]:
    """Apply the verified fixes of the files' findings in memory, and run what has changed again, until none is left.

    Return the files with those that are mentioned by then.
    """
    for _ in range(ROUNDS):
        changed = {str(file.path.absolute()) for file in files if _apply(file, unsafe=unsafe)}
        if not changed:
            break
        for file in files:
            _forget_what_depended_on(file, changed)
        await runner.run(files, progress)
        files = with_mentioned(files, projects)
    return files


def _forget_what_depended_on(file: File, changed: Container[str]) -> None:
    """Drop the runs of a file that have found something in others that are changed now."""
    for name, outcomes in list(file.outcomes.items()):
        found = (finding for outcome in outcomes if isinstance(outcome, Record) for finding in outcome.elsewhere)
        if any(str(finding.path) in changed for finding in found):
            del file.outcomes[name]


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
