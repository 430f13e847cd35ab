"""Prove the faults of docs/found.md again, and that what is said to mend them does.

    python -m tests.found --folder FOLDER --python VENV/bin/python [--only TEXT]

The released packages are unpacked into the folder, and not installed; what they import is tests/found/requirements.txt.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .page import PAGE, proofs
from .trying import Trial


def main() -> int:
    """Try the proofs, and say of each whether all of it holds."""
    arguments = _arguments()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    trial = Trial(arguments.folder, arguments.python, arguments.timeout)
    chosen = [proof for proof in proofs(PAGE.read_text(encoding="utf-8")) if arguments.only in proof.name]
    failed = 0
    for proof in chosen:
        tried = trial.tried(proof)
        failed += bool(tried.problem)
        print(f"{'FAILED' if tried.problem else 'proven'}  {tried.name}  {tried.problem}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} proven")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the packages are unpacked")
    parser.add_argument("--python", required=True, help="the interpreter that has what the packages import")
    parser.add_argument("--only", default="", help="proofs that have this in their name: the package, or a path")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds that a program may take")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
