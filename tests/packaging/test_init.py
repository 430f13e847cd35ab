"""``drygrad init``: what it writes is right, and what is there stays as it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from cli_harness import Outcome, run_here

from drygrad.addresses import REPOSITORY
from drygrad.cli.init import settings_text
from drygrad.options import OPTIONS, validate
from drygrad.project import load_project
from drygrad.version import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ALL = (".pre-commit-config.yaml", ".github/workflows/drygrad.yml", "pyproject.toml")


def init(folder: Path, *options: str) -> Outcome:
    return run_here("init", *options, cwd=folder)


def test_in_an_empty_folder_it_writes_what_is_asked_for(tmp_path: Path) -> None:
    assert init(tmp_path).status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]
    assert init(tmp_path, "--pre-commit", "--workflow").status == 0
    assert all((tmp_path / name).is_file() for name in ALL)
    project = load_project(tmp_path)
    assert (list(project.problems), project.config) == ([], tmp_path / "pyproject.toml")


def test_again_it_changes_nothing(tmp_path: Path) -> None:
    init(tmp_path, "--pre-commit", "--workflow")
    before = {name: (tmp_path / name).read_bytes() for name in ALL}
    again = init(tmp_path, "--pre-commit", "--workflow")
    assert again.status == 0
    assert again.out.count("left unchanged") == 3
    assert {name: (tmp_path / name).read_bytes() for name in ALL} == before


def test_the_examples_are_settings(tmp_path: Path) -> None:
    """Each comment that is an example is one, and there is one of each setting."""
    examples = [line.removeprefix("# ") for line in settings_text().splitlines() if " = " in line]
    tables = settings_text().split("[tool.drygrad.run]")
    for place, text in (("file", tables[0]), ("run", tables[1])):
        lines = "\n".join(line for line in examples if f"# {line}" in text)
        given = tomllib.loads(lines)
        wanted = {option.name for option in OPTIONS if option.stands_in("file" if place == "file" else "run")}
        assert set(given) == wanted
        assert validate(given, "file" if place == "file" else "run").complaints == []


@pytest.mark.parametrize(
    ("before", "added"),
    [
        ('[project]\nname = "x"', True),
        ('[project]\nname = "x"\n[tool.ruff]\nline-length = 100\n', True),
        ('[tool.drygrad]\nselect = ["DG1"]\n', False),
        ("tool = { ruff = {} }\n", False),
        ("[project\n", False),
    ],
)
def test_other_settings_stay(tmp_path: Path, before: str, added: bool) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(before)
    outcome = init(tmp_path)
    after = path.read_text()
    assert after.startswith(before)
    assert (after != before) == added
    assert outcome.status == (0 if added or "drygrad" in before else 2)
    if added:
        assert "drygrad" in tomllib.loads(after)["tool"]


HOOKS = "repos:\n- repo: https://github.com/x/y\n  rev: v1\n  hooks:\n  - id: z\n"


INDENTED = "repos:\n    - repo: https://github.com/x/y\n      rev: v1\n      hooks: [{id: z}]"


@pytest.mark.parametrize("before", [HOOKS, INDENTED, f"ci: {{}}\n{HOOKS}"])
def test_a_hook_joins_the_others(tmp_path: Path, before: str) -> None:
    path = tmp_path / ".pre-commit-config.yaml"
    path.write_text(before)
    assert init(tmp_path, "--pre-commit").status == 0
    first, second = yaml.safe_load(path.read_text())["repos"]
    assert first["repo"] == "https://github.com/x/y"
    assert second == {"repo": REPOSITORY, "rev": f"v{__version__}", "hooks": [{"id": "drygrad"}]}


@pytest.mark.parametrize("before", [f"{HOOKS}ci: {{}}\n", "repos: []\n", "# nothing\n"])
def test_a_file_of_another_form_is_left_to_its_owner(tmp_path: Path, before: str) -> None:
    path = tmp_path / ".pre-commit-config.yaml"
    path.write_text(before)
    outcome = init(tmp_path, "--pre-commit")
    assert (outcome.status, path.read_text()) == (2, before)
    assert "- id: drygrad" in outcome.err


def test_links_out_of_the_project_are_not_followed(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere.toml"
    project.mkdir()
    elsewhere.write_text("")
    (project / "pyproject.toml").symlink_to(elsewhere)
    outcome = init(project)
    assert (outcome.status, elsewhere.read_text()) == (2, "")
    assert "outside of the project" in outcome.err


def test_the_workflow_uses_the_action_of_this_version(tmp_path: Path) -> None:
    init(tmp_path, "--workflow")
    workflow = yaml.safe_load((tmp_path / ".github" / "workflows" / "drygrad.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert job["steps"][-1]["uses"] == f"drygrad/drygrad@v{__version__}"
