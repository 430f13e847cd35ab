"""The other files of the project that a run came through: which they are, and their texts as the run has seen them."""

from __future__ import annotations

import os
from pathlib import Path

from drygrad.dryrun.plan import Plan
from drygrad.dryrun.result import Place
from drygrad.static.source import Source, SourceError, read


def other_file(place: Place | None, plan: Plan) -> Path | None:
    """Return the file of the project that a place is in, if that is another than the target's and can be read."""
    path = Path(place.path) if place is not None else plan.path
    return path if path != plan.path and other_text(path, plan) is not None else None


def other_text(path: Path, plan: Plan) -> Source | None:
    """Return the text of a file of the project, the editor's before the disk's; None where there is none."""
    root = (plan.options.root or plan.path.parent).absolute()
    own = path.suffix == ".py" and path.is_relative_to(root) and "site-packages" not in path.parts
    if not own or os.path.normpath(path) != str(path):
        return None
    if (text := plan.options.buffers.get(str(path))) is not None:
        return Source(text)
    try:
        return read(path) if path.is_file() else None
    except (OSError, SourceError, ValueError):
        return None
