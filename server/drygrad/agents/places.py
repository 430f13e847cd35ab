"""Which files the tools may look at: those below the folders that the server was started for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from drygrad.cli.errors import Failure


class Places:
    """The folders of a session: those of the command line, else the client's roots, else the working folder."""

    def __init__(self, given: Sequence[Path]) -> None:
        for folder in given:
            if not folder.is_dir():
                raise Failure(f"{folder}: no such folder")
        self._given = tuple(folder.resolve() for folder in given)
        self._folders = self._given or (Path.cwd().resolve(),)
        os.chdir(self._folders[0])

    @property
    def asks_the_client(self) -> bool:
        """Whether the client's roots count."""
        return not self._given

    def told(self, uris: Sequence[str]) -> None:
        """Hear of the client's roots; those that are no folders here are passed over."""
        folders = tuple(path.resolve() for uri in uris if (path := _path_of(uri)) and path.is_dir())
        if self.asks_the_client and folders:
            self._folders = folders
            os.chdir(folders[0])

    def shown(self, name: str) -> str:
        """Return a file's or folder's name as the command line would be given it. Failure where it lies elsewhere."""
        path = Path(name).expanduser()
        if not name.strip() or "\0" in name:
            raise Failure("the path is empty" if not name.strip() else "a path has no NUL")
        self.check(path)
        absolute, here = Path(os.path.abspath(path)), self._folders[0]  # noqa: PTH100 - links stay as they are written
        shown = str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)
        return f"./{shown}" if shown.startswith("-") else shown

    def hold(self, path: Path) -> bool:
        """Say whether a file lies in the folders, whatever links lead to it."""
        real = path.resolve()
        return any(real.is_relative_to(folder) for folder in self._folders)

    def check(self, path: Path) -> None:
        """Raise Failure where a file lies outside of the folders, by whatever link it is reached."""
        if not self.hold(path):
            allowed = ", ".join(map(str, self._folders))
            raise Failure(f"{path} is outside of the folders that this server may look at: {allowed}")


def _path_of(uri: str) -> Path | None:
    parsed = urlparse(uri)
    if parsed.scheme != "file" or parsed.netloc not in ("", "localhost"):
        return None
    return Path(url2pathname(parsed.path))
