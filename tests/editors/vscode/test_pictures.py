"""The README's pictures, taken in a real VS Code: only where they are asked for (``make screenshots``)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from vscode_machine import HERE, ROOT, show

IMAGES = os.environ.get("DRYGRAD_PICTURES")

pytestmark = pytest.mark.skipif(not IMAGES, reason="make screenshots takes them")


def test_pictures(node: Path, vsix: Path, installed: Path, interpreter: Path, tmp_path: Path) -> None:
    show(node, HERE / "pictures.mjs", installed, vsix, interpreter, tmp_path, ROOT / str(IMAGES))
