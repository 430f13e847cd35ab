"""The extension's own tests, in the extension host of a real VS Code: commands, settings, interpreters, trust."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from vscode_machine import EXTENSION, HERE, run, show

pytestmark = pytest.mark.skipif(not shutil.which("chromium"), reason="needs Chromium: make test-vscode")


@pytest.mark.usefixtures("vsix")  # the same build, unpacked
def test_the_extension_host(node: Path, installed: Path, interpreter: Path, tmp_path: Path) -> None:
    run("npm", "run", "build-tests", folder=EXTENSION)
    show(node, HERE / "extension_host.mjs", installed, EXTENSION, interpreter, sys.executable, tmp_path)
