"""The extension in a real VS Code: built, installed and used as a user would."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from vscode_machine import HERE, ROOT, show

KEPT = ROOT / "build" / "vscode-session"
"""What a session leaves behind: its folders, and pictures of what it saw."""

pytestmark = pytest.mark.skipif(not shutil.which("chromium"), reason="needs Chromium: make test-vscode")


def test_a_session(node: Path, vsix: Path, installed: Path, interpreter: Path) -> None:
    shutil.rmtree(KEPT, ignore_errors=True)
    show(node, HERE / "session.mjs", installed, vsix, interpreter, KEPT)
