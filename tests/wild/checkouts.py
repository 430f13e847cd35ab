"""Whole projects as they were at a commit: cloned where no clone is given, unpacked into a temporary folder."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

FETCHING = 600.0
"""Seconds that git may take to clone a repository."""
LINK, EXECUTABLE, SUBMODULE = "120000", "100755", "160000"
"""Modes of git's entries."""


class Clones:
    """A folder of clones; what it lacks is fetched into it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, repo: str) -> Path | None:
        """Return the git directory of a repository ``owner/name``; None where it cannot be had."""
        found = next((place for place in self._places(repo) if (place / "HEAD").is_file()), None)
        return found or self._fetched(repo)

    def _places(self, repo: str) -> Iterator[Path]:
        owner, _, name = repo.partition("/")
        for folder in (f"{owner}+{name}", f"{owner}__{name}", repo, name):
            for inside in ("", ".git", "repo", "repo/.git"):
                yield self._folder / folder / inside

    def _fetched(self, repo: str) -> Path | None:
        into = self._folder / repo.replace("/", "+")
        try:
            _git("clone", "--quiet", "--bare", f"https://github.com/{repo}.git", str(into))
        except (subprocess.SubprocessError, OSError):
            shutil.rmtree(into, ignore_errors=True)
            return None
        return into


@contextmanager
def checked_out(clone: Path, commit: str) -> Generator[Path | None]:
    """Give a folder with the project as it was at a commit, as a checkout looks; None where it is not there."""
    with tempfile.TemporaryDirectory(prefix="wild-") as folder:
        project = Path(folder).resolve() / "project"
        (project / ".git").mkdir(parents=True)
        try:
            unpack(clone, commit, project)
        except (subprocess.SubprocessError, OSError):
            yield None
        else:
            yield project


def unpack(clone: Path, commit: str, into: Path) -> None:
    """Write the files of a commit; one that the clone lacks, as large ones may, is left out."""
    where = f"--git-dir={clone}"
    entries = [_entry(line) for line in _git(where, "ls-tree", "-r", "-z", commit).decode().split("\0") if line]
    entries = [entry for entry in entries if entry[0] != SUBMODULE]
    wanted = "".join(f"{name}\n" for _, name, _ in entries).encode()
    contents = BytesIO(_git(where, "cat-file", "--batch", given=wanted))
    for mode, _, path in entries:
        size = contents.readline().split()[-1]
        if size == b"missing":
            continue
        data = contents.read(int(size))
        contents.readline()
        _write(into / path, data, mode)


def _entry(line: str) -> tuple[str, str, str]:
    """Return mode, object and path of a line of git's list."""
    about, _, path = line.partition("\t")
    mode, _, name = about.split()
    return mode, name, path


def _write(path: Path, data: bytes, mode: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == LINK:
        path.symlink_to(data.decode())
        return
    path.write_bytes(data)
    if mode == EXECUTABLE:
        path.chmod(0o755)


def _git(*arguments: str, given: bytes | None = None) -> bytes:
    return subprocess.run(["git", *arguments], input=given, check=True, capture_output=True, timeout=FETCHING).stdout
