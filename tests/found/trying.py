"""Run a proof: against the package as released, then with the fault mended."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drygrad.fixing import apply_edits
from drygrad.model import Edit, Position, Span
from drygrad.static.source import Source

from .page import Proof, mended

SITE = Path(__file__).parent / "site"


@dataclass(frozen=True)
class Tried:
    """How a proof went; ``problem`` is empty where all of it holds."""

    name: str
    problem: str


class Trial:
    """The folder of the unpacked packages, and the interpreter that has what they import."""

    def __init__(self, folder: Path, python: str, timeout: float) -> None:
        self.folder, self.timeout = folder.resolve(), timeout
        self.python = str(Path(python).absolute())  # programs run in another folder; resolving would leave the venv

    def tried(self, proof: Proof) -> Tried:
        """Try all that the page says of this fault."""
        try:
            return Tried(proof.name, self._problem(proof))
        except subprocess.CalledProcessError as error:
            return Tried(proof.name, f"cannot be had: {error}")
        except subprocess.TimeoutExpired:
            return Tried(proof.name, f"takes more than {self.timeout:.0f} s")

    def _problem(self, proof: Proof) -> str:
        root = self._unpacked(f"{proof.package}=={proof.version}")
        path = root / proof.path
        found = [finding for finding in _checked(path) if finding["code"] == proof.code]
        at = [finding["start"]["line"] for finding in found]
        if not set(proof.lines) <= set(at):
            return f"drygrad says {proof.code} at lines {at}"
        ended = self._run(proof, root)
        if proof.ends_with not in ended:
            return f"ends with {ended or 'no error'}"
        text = path.read_text(encoding="utf-8")
        fixed = mended(text, proof.diff) if proof.diff else _with_fixes(text, found, proof.lines)
        with _instead(path, fixed):
            ended = self._run(proof, root)
        return f"ends with {ended} when mended" if ended else ""

    def _run(self, proof: Proof, root: Path) -> str:
        """Return the end of what the program says as it fails; nothing if it does not."""
        program = self.folder / "program.py"
        program.write_text(proof.program, encoding="utf-8")
        search = [str(SITE), str(root), *(str(self._unpacked(need)) for need in proof.needs)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search), "PYTHONWARNINGS": "ignore"}
        environment["CUDA_VISIBLE_DEVICES"] = ""  # the page has the errors of a machine without a GPU
        command = [self.python, str(program)]
        done = subprocess.run(
            command, check=False, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=self.timeout
        )
        return done.stderr.strip()[-2000:] if done.returncode else ""

    def _unpacked(self, requirement: str) -> Path:
        """Return the folder of a package as it was released, which nothing has been built from."""
        root = self.folder / requirement.replace("==", "-")
        if not root.exists():
            archives = self.folder / "archives" / hashlib.sha256(requirement.encode()).hexdigest()[:12]
            _quietly("-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(archives), requirement)
            unpacked = archives / "unpacked"
            [archive] = [path for path in archives.iterdir() if path.is_file()]
            shutil.unpack_archive(archive, unpacked, "zip" if archive.suffix == ".whl" else None)
            [*inside] = unpacked.iterdir()
            (inside[0] if archive.suffix != ".whl" else unpacked).rename(root)
        return root


def _quietly(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def _checked(path: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "drygrad", "check", "--output-format", "json", str(path)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)["findings"]


def _with_fixes(text: str, found: Sequence[dict[str, Any]], lines: Sequence[int]) -> str:
    """Return the text with the first fix of each of these findings."""
    edits: set[Edit] = set()
    for finding in found:
        if finding["start"]["line"] in lines and finding["fixes"]:
            edits |= {_edit(edit) for edit in finding["fixes"][0]["edits"]}
    return apply_edits(Source(text), edits)


def _edit(edit: dict[str, Any]) -> Edit:
    start, end = (Position(edit[side]["line"], edit[side]["column"] - 1) for side in ("start", "end"))
    return Edit(Span(start, end), edit["new_text"])


@contextmanager
def _instead(path: Path, text: str) -> Generator[None]:
    before = path.read_bytes()
    path.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        path.write_bytes(before)
