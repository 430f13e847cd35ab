"""Measure how many of the listed faults are found, unaided, in the projects where they stood.

    python -m tests.wild --clones FOLDER --python VENV [--split learn|fresh|dtypes|devices|unread|devices-unread]
        [--only TEXT] [--json FILE] [--parents]

What is said of the parts that are to stay unread is not shown, but counted.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from .checkouts import Clones, checked_out
from .commits import Fix, listed
from .judging import Judged, Side, judge
from .report import details, tables
from .witnesses import Witness

READ = ("learn", "fresh", "dtypes", "devices")
UNREAD = ("unread", "devices-unread")


def main() -> int:
    """Measure, and print the tables."""
    arguments = _arguments()
    witness = Witness(shlex.split(arguments.drygrad), arguments.python, arguments.seconds, arguments.timeout)
    clones = Clones(arguments.clones)
    results: list[Judged] = []
    for fix in _chosen(arguments.split, arguments.only):
        results.append(_measured(fix, clones, witness, fixed=not arguments.parents))
        if fix.split not in UNREAD:
            print(details(results[-1]), flush=True)
        if arguments.json:
            text = json.dumps([result.as_json() for result in results], indent=1)
            arguments.json.write_text(text + "\n", encoding="utf-8")
    print(tables(results))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, required=True, help="a folder of clones; what it lacks is cloned there")
    parser.add_argument("--python", required=True, help="the interpreter that has what the projects import")
    parser.add_argument("--split", choices=(*READ, *UNREAD))
    parser.add_argument("--only", default="", help="fixes that have this in their name")
    parser.add_argument("--json", type=Path, help="where the results are kept; it has details of all of them")
    parser.add_argument("--parents", action="store_true", help="leave out the fixed sides, and so the alarms")
    parser.add_argument("--drygrad", default=f"{sys.executable} -m drygrad", help="the command that is measured")
    parser.add_argument("--seconds", type=float, default=60.0, help="that each command may take")
    parser.add_argument(
        "--timeout", type=float, help="that each run is given; more on a busy machine (default: its own)"
    )
    return parser.parse_args()


def _chosen(split: str | None, part: str) -> Iterable[Fix]:
    """Return the fixes to measure: a part of a name never chooses one that is to stay unread."""
    return [fix for fix in listed(split) if not part or (fix.split not in UNREAD and part in fix.name)]


def _measured(fix: Fix, clones: Clones, witness: Witness, *, fixed: bool) -> Judged:
    clone = clones.of(fix.repo)
    if clone is None:
        return _not_measured(fix, "no clone")
    before = _side(fix, clone, fix.parent, witness)
    if before is None:
        return _not_measured(fix, "no such commit")
    return judge(fix, before, _side(fix, clone, fix.commit, witness) if fixed else None)


def _side(fix: Fix, clone: Path, commit: str, witness: Witness) -> Side | None:
    with checked_out(clone, commit) as project:
        if project is None or not (project / fix.path).is_file():
            return None
        text = (project / fix.path).read_text(encoding="utf-8", errors="replace")
        return Side(text, witness.check(project, fix.path), witness.run(project, fix.path, fix.function))


def _not_measured(fix: Fix, why: str) -> Judged:
    return Judged(fix.number, fix.name, fix.split, fix.family, fix.fault, why)


if __name__ == "__main__":
    sys.exit(main())
