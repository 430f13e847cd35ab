"""Which installed modules give way to modules of the workspace with the same name."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from drygrad.worker import modules


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed modules, of which one is loaded."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "solver.py").write_text("")
    loaded = ModuleType("solver")
    loaded.__file__ = str(folder / "solver.py")
    monkeypatch.setitem(sys.modules, "solver", loaded)
    monkeypatch.setattr(modules, "third_party_folders", lambda: (f"{folder}/",))
    return folder


def test_a_module_of_the_workspace_takes_the_place_of_an_installed_one(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "solver.py").write_text("")
    modules.forget_shadowed([str(tmp_path)])
    assert "solver" not in sys.modules


def test_a_workspace_of_installed_modules_keeps_them(installed: Path) -> None:
    modules.forget_shadowed([str(installed)])
    assert "solver" in sys.modules
