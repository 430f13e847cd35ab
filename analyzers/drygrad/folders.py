"""Which folders hold what their users wrote."""

from __future__ import annotations

import os

SKIPPED = frozenset(
    ["__pycache__", "__pypackages__", "build", "dist", "node_modules", "site-packages", "venv", "buck-out"]
)
"""Folders that hold nothing their users wrote. Hidden folders and virtual environments do not either."""


def holds_users_code(folder: os.DirEntry[str]) -> bool:
    """Say whether a folder may hold code that users wrote."""
    name = folder.name
    if name.startswith(".") or name in SKIPPED or name.endswith(".egg-info"):
        return False
    return not os.path.exists(os.path.join(folder.path, "pyvenv.cfg"))  # noqa: PTH110, PTH118 - asked of every folder
