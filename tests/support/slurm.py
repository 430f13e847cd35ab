"""A Slurm of one node with one processor, started by the tests on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "squeue", "scancel")
_SBIN = "/usr/sbin"


def why_not() -> str | None:
    """Return why there can be no Slurm here."""
    missing = [name for name in PROGRAMS if not _found(name)]
    if missing:
        return f"there is no {missing[0]}: apt-get install slurm-wlm munge"
    return None if os.name == "posix" and os.geteuid() == 0 else "only root can start a Slurm"


def _found(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_SBIN}")


@contextmanager
def slurm(folder: Path) -> Generator[Path]:
    """Start it; return its configuration, which SLURM_CONF names."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    folder.chmod(0o755)  # munge wants its socket to be reached
    configuration = folder / "slurm.conf"
    name = socket.gethostname().partition(".")[0]
    configuration.write_text(_configuration(folder, name))
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in _daemons(folder, key, configuration, name):
            log = (folder / f"{Path(command[0]).name}.log").open("wb")
            started.append(subprocess.Popen(command, stdout=log, stderr=log))
        _wait_until_idle(configuration)
        yield configuration
    finally:
        for daemon in reversed(started):
            daemon.terminate()
        for daemon in reversed(started):
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
            daemon.kill()


def queued(configuration: Path) -> list[str]:
    """Return the jobs that there are, each with its state."""
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    done = subprocess.run(["squeue", "-h", "-o", "%i %T"], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _daemons(folder: Path, key: Path, configuration: Path, name: str) -> list[list[str]]:
    files = {
        "key-file": key,
        "socket": folder / "munge",
        "pid-file": folder / "munge.pid",
        "seed-file": folder / "seed",
    }
    munge = [f"--{option}={path}" for option, path in files.items()]
    return [
        [str(_found("munged")), "--foreground", "--force", *munge],
        [str(_found("slurmctld")), "-D", "-c", "-f", str(configuration)],
        [str(_found("slurmd")), "-D", "-f", str(configuration), "-N", name],
    ]


def _wait_until_idle(configuration: Path) -> None:
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    until = time.monotonic() + 60
    while True:
        done = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False)
        if done.stdout.strip() == "idle":
            return
        logs = [path.read_text(errors="replace")[-500:] for path in configuration.parent.glob("*.log")]
        assert time.monotonic() < until, (done, logs)
        time.sleep(0.2)


def _configuration(folder: Path, name: str) -> str:
    first, second = (_free_port() for _ in range(2))
    return f"""ClusterName=tests
SlurmctldHost={name}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
SlurmctldPort={first}
SlurmdPort={second}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
NodeName={name} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
