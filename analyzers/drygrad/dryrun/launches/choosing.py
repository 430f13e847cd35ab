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


def lacks_a_launch(result: Result, *, is_script: bool) -> bool:
    """Say whether a run has ended for want of arguments, variables or files, which another start may give."""
    codes = {fault.code: fault.message for fault in result.faults}
    if result.outcome == "no-inputs":
        return NO_INPUTS in codes
    if result.outcome == "blocked":
        return codes.get(BLOCKED, "").startswith(_UNSET)
    absent = result.error is not None and result.error.type == "FileNotFoundError"
    return is_script and absent and result.outcome == "failed" and result.backward == "none"


def told(launch: Launch, root: Path) -> str:
    """Return the note that says how a program was started, and where that was found."""
    where = f"as {launch.origin.shown(root)} has it" if launch.origin else "so"
    return f"started {where}: {launch.shown}"


def named(name: str, found: Found, root: Path) -> Launch:
    """Return the launch that a name, or ``README.md:12``, means. LaunchError where none does."""
    meant = [launch for launch in found.launches if launch.origin and name in (launch.origin.name, _at(launch, root))]
    if not meant:
        raise LaunchError(f"no launch is called {name}; `drygrad launches` lists them")
    return meant[0]


def only(found: Found, root: Path) -> Launch:
    """Return the launch of a project that has one. LaunchError where there are none, or several."""
    whole = [launch for launch in found.launches if not launch.blanks]
    different = {(launch.file, launch.shown): launch for launch in reversed(whole)}
    if len(different) == 1:
        return whole[0]
    if not different:
        raise LaunchError("name what to run: a file, -m and a module, or -- and a command; no launches were found")
    raise LaunchError(
        "several launches were found; name one by --launch:\n" + listed([*different.values()][::-1], root)
    )


def listed(launches: Sequence[Launch], root: Path) -> str:
    """Return launches as lines, each with where it stands."""
    rows = [(_at(launch, root), launch.shown) for launch in launches[:_MOST_SHOWN]]
    width = max((len(at) for at, _ in rows), default=0)
    more = [f"  and {len(launches) - _MOST_SHOWN} more"] if len(launches) > _MOST_SHOWN else []
    return "\n".join([*(f"  {at:{width}}  {shown}" for at, shown in rows), *more])


def _at(launch: Launch, root: Path) -> str:
    return launch.origin.shown(root) if launch.origin else ""
