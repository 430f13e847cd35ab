"""What is published: its metadata, its README on PyPI, an sdist that builds the same wheel, and the notes."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from cli_harness import ROOT
from trove_classifiers import classifiers

from drygrad.addresses import REPOSITORY
from drygrad.version import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_classifiers_are_known() -> None:
    assert [each for each in PROJECT["classifiers"] if each not in classifiers] == []


def test_the_address_is_everywhere_the_same() -> None:
    assert all(url.startswith(REPOSITORY) for url in PROJECT["urls"].values())
    manifest = json.loads((ROOT / "editor-client" / "vscode" / "package.json").read_text(encoding="utf-8"))
    assert manifest["repository"]["url"] == f"{REPOSITORY}.git"
    zed = tomllib.loads((ROOT / "editor-client" / "zed" / "extension.toml").read_text(encoding="utf-8"))
    assert zed["repository"] == REPOSITORY
    assert manifest["version"] == __version__


def test_the_page_about_ci_is_of_this_version_and_has_every_input() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert set(re.findall(r"(?:drygrad@|rev: )v(\d[\w.]*)", page)) == {__version__}
    assert set(re.findall(rf"({REPOSITORY})", page)) == {REPOSITORY}
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (\S*) ", page, re.MULTILINE))
    assert set(rows) == set(action["inputs"])
    said = {name: default.strip("`") for name, default in rows.items() if default.startswith("`")}
    assert said == {name: action["inputs"][name]["default"] for name in said}


def test_the_readme_of_pypi_names_nothing_beside_it() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = tool("pypi_readme").absolute(readme, "1.2.3")
    named = re.findall(r"\]\(([^)\s]+)\)", shown) + re.findall(r'\b(?:src|srcset)="([^"]+)"', shown)
    assert len(named) > 10
    assert [each for each in named if not each.startswith(("https://", "#"))] == []
    for page in re.findall(rf"{REPOSITORY}/blob/v1\.2\.3/([^)#\s]+)", shown):
        assert (ROOT / page).exists(), page
    raw = REPOSITORY.replace("github.com", "raw.githubusercontent.com")
    pictures = re.findall(rf"{raw}/v1\.2\.3/([^\"]+)", shown)
    assert len(pictures) == readme.count('="docs/images/')
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_the_notes_are_what_the_changelog_says_of_the_version() -> None:
    release = tool("release")
    text = "# Changes\n\n## 2.0.0 (not released yet)\n\n- new\n\n## 1.0.0\n\n- old\n"
    assert (release.notes(text, "2.0.0"), release.notes(text, "1.0.0")) == ("- new\n", "- old\n")
    for version in ("3.0.0", "1.0"):
        with pytest.raises(release.NotReady):
            release.notes(text, version)
    assert release.notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), __version__)


def test_publishing_is_left_to_a_person() -> None:
    release = tool("release")
    commands = release.left_to_do([Path("dist/a.whl"), Path("dist/a.vsix")])
    wanted = ("git tag", "twine upload a.whl", "vsce publish", "gh release")
    assert [command for command in wanted if command not in commands] == []
    text = (ROOT / "tools" / "release.py").read_text(encoding="utf-8")
    called = re.findall(r"subprocess\.run\((.*)", text)
    assert called
    assert not [each for each in called if "upload" in each or "publish" in each or "push" in each]


@pytest.mark.slow
def test_what_is_built_is_right_and_always_the_same(tmp_path: Path) -> None:
    release = tool("release")
    first, second = (release.packages(ROOT, tmp_path / name) for name in ("first", "second"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    release.check(first)
    sdist, wheel = first
    with tarfile.open(sdist) as archive:
        assert f"drygrad-{__version__}/docs/agents.md" in archive.getnames()
        assert not [name for name in archive.getnames() if "/tests/" in name]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(f"drygrad-{__version__}.dist-info/METADATA").decode()
        entries = archive.read(f"drygrad-{__version__}.dist-info/entry_points.txt").decode()
    assert {name.partition("/")[0] for name in names} == {"drygrad", f"drygrad-{__version__}.dist-info"}
    assert not [name for name in names if name.endswith((".so", ".pyd", ".pyc"))]
    assert "\n# drygrad\n" in metadata
    assert "drygrad.pytest_plugin" in entries


@pytest.mark.slow
def test_it_refuses_a_tree_that_builds_another_wheel_than_its_sdist(tmp_path: Path) -> None:
    release = tool("release")
    tree = tmp_path / "tree"
    (tree / "pkg").mkdir(parents=True)
    (tree / "pkg" / "__init__.py").write_text("")
    (tree / "pkg" / "forgotten.py").write_text("")
    settings = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    settings += '[project]\nname = "pkg"\nversion = "1"\n[tool.hatch.build.targets.sdist]\nexclude = ["forgotten.py"]\n'
    (tree / "pyproject.toml").write_text(settings)
    with pytest.raises(release.NotReady, match="different wheels"):
        release.packages(tree, tmp_path / "dist")
