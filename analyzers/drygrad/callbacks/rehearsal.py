"""The command of this process as a dry run: the same program from its first line, in a sandbox of its own.

It is imported into users' programs, and by workers: Python 3.9, the standard library, nothing else of drygrad's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

from drygrad import callbacks

_OF_A_LAUNCH = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "MASTER_ADDR")
_PREFIXES = ("TORCHELASTIC_", "ROLE_", "MASTER_", "SLURM_", "DRYGRAD_")
_BEGUN = "DRYGRAD_REHEARSED"
"""Set where this command, or the one that has started it, has been dry-run."""
FINDINGS = 1


class DryRunFailed(RuntimeError):
    """The dry run has found something that is grave enough; its text is the report."""


@dataclass(frozen=True)
class Rehearsal:
    """A dry run of the job before it begins; ``fail_on`` is the gravity ("error", "warning", "info") that ends the job.

    ``timeout`` are the seconds that it may take, imports left out. It leaves a real GPU to the job unless ``device``
    says otherwise.
    """

    fail_on: str = "error"
    device: str = "sim"
    timeout: float = 60.0

    def hold(self) -> None:
        """Hold it, and print its report. Raises DryRunFailed where it finds a fault.

        Does nothing within a dry run, and in a process that has done it before.
        """
        if callbacks.within_a_dry_run or os.environ.get(_BEGUN):
            return
        command = command_of_this_process()
        if command is None:
            warnings.warn("drygrad: nothing to dry-run: this process was not started with a script", stacklevel=3)
            return
        sys.stderr.write(self._report(command))

    def _report(self, command: list[str]) -> str:
        os.environ[_BEGUN] = "1"
        ranks = os.environ.get("WORLD_SIZE", "1")
        several = ["--ranks", ranks] if ranks.isdigit() and int(ranks) > 1 else []
        bounds = ["--device", self.device, "--timeout", str(self.timeout), "--fail-on", self.fail_on]
        words = [sys.executable, "-m", "drygrad", "run", "--python", sys.executable, *bounds, *several, "--", *command]
        done = subprocess.run(
            words, env=_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode == FINDINGS:
            raise DryRunFailed(f"the dry run of this job has found faults:\n\n{done.stdout}")
        if done.returncode:
            warnings.warn(f"drygrad could not dry-run this job (status {done.returncode})", stacklevel=4)
        return done.stdout


def command_of_this_process() -> list[str] | None:
    """Return how this process was started, as one types it; None where it runs no script and no module."""
    given = list(getattr(sys, "orig_argv", []))[1:]
    at = 0
    while at < len(given) and given[at].startswith("-") and given[at] not in ("-m", "-c", "-"):
        at += 2 if given[at] in ("-W", "-X") else 1
    if given[at : at + 1] == ["-m"]:
        return ["python", *given[at:]]
    script = given[at] if at < len(given) else sys.argv[0]
    if not Path(script).is_file() or script.endswith("ipykernel_launcher.py"):
        return None
    return ["python", script, *(given[at + 1 :] if at < len(given) else sys.argv[1:])]


def _environment() -> dict[str, str]:
    """Return the variables of this process without those of its launch: a dry run makes ranks of its own."""
    return {
        name: value for name, value in os.environ.items() if name not in _OF_A_LAUNCH and not name.startswith(_PREFIXES)
    }
