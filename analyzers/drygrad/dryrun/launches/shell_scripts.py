"""The launches of shell scripts: what they start, with the variables and the folder that they have set by then."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from drygrad.dryrun.launches import reading
from drygrad.dryrun.launches.launch import Launch, LaunchError, Origin
from drygrad.dryrun.launches.programs import Programs
from drygrad.dryrun.launches.shell import Unclosed, Variables, commands

_MOST_BYTES = 1 << 20
_SLURM = "#SBATCH"


def text_of(path: Path) -> str:
    """Return the text of a file of a project, whatever its bytes are. LaunchError where it cannot be read."""
    try:
        return path.read_bytes()[:_MOST_BYTES].decode("utf-8-sig", "replace")
    except OSError as error:
        raise LaunchError(f"{path}: cannot read: {error.strerror or error}") from error


def launches_in(
    text: str,
    path: Path,
    folder: Path,
    programs: Programs,
    arguments: Sequence[str] = (),
    first_line: int = 1,
    name: str = "",
) -> Iterator[Launch]:
    """Yield the launches of a shell's text, as it stands in a file; what cannot be read is passed over."""
    variables = Variables(arguments=list(arguments), folder=path.parent.absolute())
    here = folder
    try:
        for command in commands(text, variables):
            words = command.words
            if words[0] in ("cd", "pushd"):
                here = _entered(here, words[1:], folder)
                continue
            try:
                launch = reading.read(words, here, programs, variables.environment)
            except LaunchError:
                continue
            yield launch.found_at(Origin(path, first_line + command.line - 1, name))
    except Unclosed:
        return


def _entered(here: Path, words: Sequence[str], folder: Path) -> Path:
    """Return the folder that ``cd`` leads to; the one before where it is not there."""
    place = here / words[0] if words else folder
    return place if place.is_dir() else here


def first_launch(path: Path, arguments: Sequence[str], command: reading.Command) -> Launch:
    """Return the first launch of a script that is started itself. LaunchError where it has none."""
    if not path.is_file():
        raise LaunchError(f"{path.name}: no such file in {path.parent}")
    launch = next(launches_in(text_of(path), path, command.folder, command.programs, arguments), None)
    if launch is None:
        raise LaunchError(f"{path.name} starts no Python program that drygrad can find")
    return launch


def quoted(words: Sequence[str]) -> str:
    """Return words as one types them."""
    return " ".join(map(shlex.quote, words))
