"""The launches of a shell's text: what it starts, with the variables and the folder that it has set by then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drygrad.dryrun.launches import reading
from drygrad.dryrun.launches.launch import Launch, LaunchError, Origin
from drygrad.dryrun.launches.programs import Programs
from drygrad.dryrun.launches.shell import Unclosed, Variables, commands
from drygrad.files import read_file

_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Place:
    """Where a shell's text stands: its file, the folders that it may be meant for, and how programs are found."""

    path: Path
    folders: tuple[Path, ...]
    programs: Programs = field(default_factory=Programs)
    line: int = 1
    name: str = ""


def text_of(path: Path) -> str:
    """Return the text of a file of a project, whatever its bytes are. LaunchError where it cannot be read."""
    try:
        return read_file(path, _MOST_BYTES).decode("utf-8-sig", "replace")
    except OSError as error:
        raise LaunchError(f"{path}: cannot read: {error.strerror or error}") from error


def launches_in(text: str, place: Place, arguments: Sequence[str] = ()) -> Iterator[Launch]:
    """Yield the launches of a shell's text; what starts no program of the project is passed over."""
    variables = Variables(arguments=list(arguments), folder=place.path.parent.absolute())
    entered: Path | None = None
    try:
        for command in commands(text, variables):
            words = command.words
            if words[0] in ("cd", "pushd"):
                entered = _entered(entered, words[1:], place.folders) or entered
                continue
            folders = dict.fromkeys([*([entered] if entered else ()), *place.folders])
            launch = _launch(words, [*folders], place.programs, variables)
            if launch is not None:
                yield launch.found_at(Origin(place.path, place.line + command.line - 1, place.name))
    except Unclosed:
        return


def _launch(words: Sequence[str], folders: Sequence[Path], programs: Programs, variables: Variables) -> Launch | None:
    """Return what a command starts, in the first folder in which it starts anything."""
    for folder in [*folders, *programs.folders_with(words)]:
        try:
            return reading.read(words, folder, programs, variables.environment)
        except LaunchError:
            continue
    return None


def _entered(here: Path | None, words: Sequence[str], folders: Sequence[Path]) -> Path | None:
    """Return the folder that ``cd`` leads to; None where it is not there."""
    found = (start / word for start in ([here] if here else folders) for word in words[:1])
    return next((place for place in found if place.is_dir()), None)


def first_launch(path: Path, arguments: Sequence[str], command: reading.Command) -> Launch:
    """Return the first launch of a script that is started itself. LaunchError where it has none."""
    if not path.is_file():
        raise LaunchError(f"{path.name}: no such file in {path.parent}")
    place = Place(path, (command.folder,), command.programs)
    launch = next(launches_in(text_of(path), place, arguments), None)
    if launch is None:
        raise LaunchError(f"{path.name} starts no Python program that drygrad recognizes")
    return launch


def unquoted(text: str) -> str:
    """Return a value as it stands within quotes, if it does."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
