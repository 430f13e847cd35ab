"""What an untrusted workspace may not set: VS Code leaves out its settings that name programs."""

from __future__ import annotations

import json
from pathlib import Path

from drygrad.options import OPTIONS

MANIFEST = Path(__file__).resolve().parents[2] / "editor-client" / "vscode" / "package.json"


def test_settings_that_name_programs_are_restricted() -> None:
    manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    restricted = manifest["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]
    names = {f"drygrad.{option.name}" for option in OPTIONS if option.name in ("interpreter", "launcher", "launchers")}
    assert len(names) == 3
    assert names <= {*restricted}
