"""Which launch of a project a run takes, where nobody has given one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drygrad.dryrun.launches.finding import Found
from drygrad.dryrun.launches.launch import Launch, LaunchError
from drygrad.dryrun.result import Result

NO_INPUTS = "DG901"
BLOCKED = "DG903"
_UNSET = "the environment variable "
_MOST_SHOWN = 10
_MOST_TRIED = 3
_SHORT = 5.0
"""Seconds. A longer run is not repeated for want of a file."""


def lacks_a_launch(result: Result, *, is_script: bool) -> bool:
    """Say whether a run has ended for want of arguments, variables or files, which another start may give."""
    codes = {fault.code: fault.message for fault in result.faults}
    if result.outcome == "no-inputs":
        return NO_INPUTS in codes
    if result.outcome == "blocked":
        return codes.get(BLOCKED, "").startswith(_UNSET)
    return is_script and lacks_a_file(result)


def lacks_a_file(result: Result) -> bool:
    """Say whether a run has ended for want of a file, before it has trained."""
    absent = result.error is not None and result.error.type == "FileNotFoundError"
    return absent and result.outcome == "failed" and result.backward == "none"


def worth_trying(launches: Sequence[Launch], result: Result, folder: Path) -> Sequence[Launch]:
    """Return those launches that may give what a run lacked, which was started in a folder.

    For want of a file, that is one that starts elsewhere or names files that are there, after a run that was short.
    """
    if not lacks_a_file(result):
        return launches[:_MOST_TRIED]
    if result.own_seconds > _SHORT:
        return ()
    return [one for one in launches if one.folder != folder or _names_files(one)][:1]


def _names_files(launch: Launch) -> bool:
    values = (word.rpartition("=")[2] for word in launch.arguments)
    return any(value and (launch.folder / value).exists() for value in values)


def told(launch: Launch, root: Path) -> str:
    """Return the note that says how a program was started, and where that was found."""
    where = f"as {launch.origin.shown(root)} does" if launch.origin else "so"
    return f"started {where}: {launch.shown}"


def named(name: str, found: Found, root: Path) -> Launch:
    """Return the launch that a name, or ``README.md:12``, means. LaunchError where none does."""
    here = Path.cwd()
    meant = [one for one in found.launches if one.origin and name in (one.origin.name, _at(one, root), _at(one, here))]
    if not meant:
        raise LaunchError(f"no launch is called {name}; see `drygrad launches`")
    return meant[0]


def only(found: Found, root: Path) -> Launch:
    """Return the launch of a project that has one. LaunchError where there are none, or several."""
    whole = [launch for launch in found.launches if not launch.blanks]
    different = {(launch.file, launch.shown): launch for launch in reversed(whole)}
    if len(different) == 1:
        return whole[0]
    if not different:
        raise LaunchError("nothing to run: name a file, -m and a module, or -- and a command (no launches were found)")
    raise LaunchError(
        "several launches were found; choose one with --launch:\n" + listed([*different.values()][::-1], root)
    )


def listed(launches: Sequence[Launch], root: Path) -> str:
    """Return launches as lines, each with where it stands."""
    rows = [(_at(launch, root), launch.shown) for launch in launches[:_MOST_SHOWN]]
    width = max((len(at) for at, _ in rows), default=0)
    more = [f"  and {len(launches) - _MOST_SHOWN} more"] if len(launches) > _MOST_SHOWN else []
    return "\n".join([*(f"  {at:{width}}  {shown}" for at, shown in rows), *more])


def _at(launch: Launch, root: Path) -> str:
    return launch.origin.shown(root) if launch.origin else ""
