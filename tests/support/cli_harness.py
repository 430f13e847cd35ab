"""Calls the command line: in this process, where a test needs speed, or as a program, where it needs the truth."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from drygrad.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
SUPPRESSED = "x = 1  # drygrad: ignore[DG904, DG1]\n"


@dataclass
class Outcome:
    """What a call left: exit status and output."""

    status: int
    out: str
    err: str

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings of a call with ``--output-format json``."""
        return json.loads(self.out)["findings"]


class Cli:
    """Calls ``drygrad`` in a folder, in this process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._capfd = capfd
        monkeypatch.chdir(folder)

    def write(self, name: str, text: str | bytes) -> Path:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return path

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Outcome:
        """Run a command."""
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capfd.readouterr()
        try:
            status = main(arguments)
        except SystemExit as stop:
            status = int(stop.code or 0)
        sys.stdout.flush()
        sys.stderr.flush()
        captured = self._capfd.readouterr()
        return Outcome(status, captured.out, captured.err)


def run_here(*arguments: str, cwd: Path) -> Outcome:
    """Run ``drygrad`` in this process: its workers are forked (see ``warm_workers``)."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.chdir(cwd)
        status = main(arguments)
    return Outcome(status, *(_text(stream) for stream in (out, err)))


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def program(*arguments: str) -> list[str]:
    """Return the command of ``drygrad`` as a program of its own."""
    return [sys.executable, "-m", "drygrad", *arguments]


def environment() -> dict[str, str]:
    """Return an environment in which the checkout can be imported."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**inherited, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("server", "analyzers"))}


def run_program(*arguments: str, cwd: Path, stdin: bytes = b"", path: Path | None = None) -> Outcome:
    """Run ``drygrad`` as a program; modules of a folder ``path`` come before others."""
    variables = environment()
    if path is not None:
        variables["PYTHONPATH"] = f"{path}{os.pathsep}{variables['PYTHONPATH']}"
    done = subprocess.run(program(*arguments), cwd=cwd, env=variables, input=stdin, capture_output=True, check=False)
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
