"""A host with a real sshd on this machine, in which neither drygrad nor the projects of the tests are to be seen."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SSHD = shutil.which("sshd") or ("/usr/sbin/sshd" if Path("/usr/sbin/sshd").exists() else None)


@dataclass(frozen=True)
class FarHost:
    """How to get there, and what is there: an interpreter with torch, and a home of its own."""

    command: tuple[str, ...]
    python: str
    home: Path

    @property
    def shown(self) -> str:
        """The command in one text."""
        return shlex.join(self.command)

    def told(self, command: str) -> str:
        """Return what a command prints there."""
        done = subprocess.run([*self.command, command], capture_output=True, text=True, timeout=60, check=False)
        return done.stdout


def why_not() -> str | None:
    """Return why there can be no such host here."""
    if SSHD is None or not shutil.which("ssh"):
        return "there is no sshd: apt-get install openssh-server"
    if os.name != "posix" or os.geteuid() != 0:
        return "only root can hide folders from an sshd"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "there are no mount namespaces here"


@contextmanager
def far_host(folder: Path, hidden: Path) -> Generator[FarHost]:
    """Start the host; what it needs is kept in a folder, another one and this repository are hidden from it."""
    port = _free_port()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    home, python = folder / "home", folder / "python"
    home.mkdir()
    python.mkdir()
    Path("/run/sshd").mkdir(exist_ok=True)
    (folder / "sshd_config").write_text(_sshd_config(folder, port, home))
    (folder / "config").write_text(_config(folder, port))
    server = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _within(folder, python, hidden)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr is not None
        heard = next((line for line in server.stderr if "listening" in line or "rror" in line), "it ended")
        assert "listening" in heard, heard
        command = ("ssh", "-F", str(folder / "config"), "box")
        yield FarHost(command, str(python / "bin" / Path(sys.executable).name), home)
    finally:
        server.terminate()
        server.wait()


def _within(folder: Path, python: Path, hidden: Path) -> str:
    words = [f"mount --bind {shlex.quote(sys.prefix)} {shlex.quote(str(python))}"]
    words += [f"mount -t tmpfs none {shlex.quote(str(path))}" for path in (REPOSITORY, hidden)]
    return "\n".join([*words, f"exec {SSHD} -D -e -f {shlex.quote(str(folder / 'sshd_config'))}"])


def _sshd_config(folder: Path, port: int, home: Path) -> str:
    return f"""Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
SetEnv HOME={home} XDG_CACHE_HOME={home}/cache TMPDIR={home}
"""


def _config(folder: Path, port: int) -> str:
    return f"""Host box
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/user
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking accept-new
  LogLevel ERROR
"""


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
