"""A hook of hatchling: the README as PyPI shows it, where links and pictures of the repository need their addresses."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)\s]+)(?=\))")
_PICTURE = re.compile(r'(?<=\bsrc=")(?!https?:)([^"]+)(?=")|(?<=\bsrcset=")(?!https?:)([^"]+)(?=")')


def absolute(text: str, version: str) -> str:
    """Return a README with the addresses of what it names beside it, as of a version's tag."""
    repository: str = runpy.run_path(str(ROOT / "server" / "drygrad" / "addresses.py"))["REPOSITORY"]
    raw = repository.replace("github.com", "raw.githubusercontent.com")
    text = _LINK.sub(lambda link: f"{repository}/blob/v{version}/{link[0]}", text)
    return _PICTURE.sub(lambda picture: f"{raw}/v{version}/{picture[0]}", text)


class Readme(MetadataHookInterface):
    """Gives the project its README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add it to the metadata."""
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        version: str = runpy.run_path(str(ROOT / "analyzers" / "drygrad" / "version.py"))["__version__"]
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, version)}
