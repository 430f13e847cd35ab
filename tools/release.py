"""Build what is published into ``dist``, check it, and write its notes: ``python tools/release.py`` (``make release``).

Nothing is uploaded: what is left for a person to do is printed in the end.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from drygrad.addresses import REPOSITORY
from drygrad.version import __version__

ROOT = Path(__file__).resolve().parents[1]
EXTENSION = Path("editor-client", "vscode")
EPOCH = "1580601600"
"""The date of each file in an archive, as hatchling has it: what is the same is built the same."""


class NotReady(Exception):
    """What is there must not be published; the text says why."""


def built(source: Path, target: str, into: Path) -> Path:
    """Build a wheel or an sdist of a tree; return it."""
    before = set(into.glob("*"))
    words = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into)]
    subprocess.run(words, cwd=source, check=True, stdout=subprocess.DEVNULL)
    (made,) = set(into.glob("*")) - before
    return made


def packages(root: Path, into: Path) -> list[Path]:
    """Build the sdist, and of it the wheel. NotReady where the tree itself would give another wheel."""
    into.mkdir(parents=True, exist_ok=True)
    sdist = built(root, "sdist", into)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        wheel = built(unpacked, "wheel", into)
        (Path(folder) / "again").mkdir()
        again = built(root, "wheel", Path(folder) / "again")
        if again.read_bytes() != wheel.read_bytes():
            raise NotReady("the sdist and the tree build different wheels")
    return [sdist, wheel]


def notes(changelog: str, version: str) -> str:
    """Return what the changelog says of a version. NotReady where it says nothing."""
    section = re.search(rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if section is None or not section[1].strip():
        raise NotReady(f"CHANGELOG.md says nothing of {version}")
    return section[1].strip() + "\n"


def check(files: Sequence[Path]) -> None:
    """Have twine look at what PyPI would show. NotReady where it refuses something."""
    words = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)]
    if subprocess.run(words, check=False).returncode:
        raise NotReady("twine refuses the packages")


def extension(root: Path, into: Path) -> Path | None:
    """Build the extension of VS Code, with the server in it and no native code; None where there is no npm."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    subprocess.run([sys.executable, str(root / "tools" / "bundle_server.py")], check=True)
    variables = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    steps = ("ci --ignore-scripts --no-audit --no-fund", "run types", "run build", "run package")
    for step in steps:
        words = [npm, *step.split()]
        subprocess.run(words, cwd=root / EXTENSION, env=variables, check=True, stdout=subprocess.DEVNULL)
    return Path(shutil.copy(root / EXTENSION / "drygrad.vsix", into / f"drygrad-{__version__}.vsix"))


def unfinished(root: Path) -> list[str]:
    """Say what a person should look at before publishing."""
    told: list[str] = []
    status = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=False)
    if status.returncode or status.stdout.strip():
        told.append("the working tree has changes that are not committed, or is no repository")
    if re.search(
        rf"^## {re.escape(__version__)} \(not released", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    ):
        told.append(f'CHANGELOG.md still calls {__version__} "not released yet"')
    return told


def left_to_do(files: Sequence[Path]) -> str:
    """Return the commands that publish."""
    python = " ".join(path.name for path in files if path.suffix != ".vsix")
    every = " ".join(path.name for path in files)
    owner = REPOSITORY.partition("github.com/")[2]
    lines = [
        f"git tag -s v{__version__} && git push origin v{__version__}",
        f"(cd dist && twine upload {python})",
        *(f"npx @vscode/vsce publish --packagePath dist/{p.name}" for p in files if p.suffix == ".vsix"),
        f"(cd dist && gh release create v{__version__} --repo {owner} --notes-file notes.md {every})",
    ]
    return "".join(f"  {line}\n" for line in lines)


def main() -> int:
    """Build, check, write; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-extension", action="store_true", help="leave out the extension of VS Code")
    arguments = parser.parse_args()
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    try:
        text = notes((ROOT / "CHANGELOG.md").read_text("utf-8"), __version__)
        files = packages(ROOT, dist)
        check(files)
    except NotReady as reason:
        sys.stderr.write(f"not ready: {reason}\n")
        return 1
    vsix = None if arguments.no_extension else extension(ROOT, dist)
    (dist / "notes.md").write_text(text, encoding="utf-8")
    made = [*files, *([vsix] if vsix else [])]
    sys.stdout.write("".join(f"dist/{path.name}  {path.stat().st_size:,} bytes\n" for path in made))
    if vsix is None:
        sys.stdout.write("no .vsix: there is no npm here, or it was left out\n")
    for reason in unfinished(ROOT):
        sys.stdout.write(f"before you publish: {reason}\n")
    sys.stdout.write(f"what is left to you:\n{left_to_do(made)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
