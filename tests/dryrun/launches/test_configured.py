"""The launches that a project sets for its dry runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drygrad.dryrun.launches.configured import chosen, for_file, launches_of, with_variables
from drygrad.dryrun.launches.launch import LaunchError
from drygrad.project import Project, load_project

SET = """\
[tool.drygrad.run]
launch = "small"
arguments = ["--all"]
environment = { A = "1", B = "2" }
[tool.drygrad.run.launches]
small = "B=3 torchrun --nproc-per-node 2 train.py --small"
broken = "python gone.py"
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "pyproject.toml").write_text(SET)
    (tmp_path / "README.md").write_text("```\npython other.py --x\n```\n")
    for name in ("train.py", "other.py"):
        (tmp_path / name).write_text("")
    return load_project(tmp_path)


def test_the_launch_that_is_set_holds_for_its_file_alone(project: Project) -> None:
    train = for_file(project, project.root / "train.py", is_script=False)
    assert train is not None
    assert (train.arguments, train.environment, train.ranks) == (("--small",), {"A": "1", "B": "3"}, 2)
    assert train.origin is not None
    assert (train.origin.line, train.origin.name) == (6, "small")
    other = for_file(project, project.root / "other.py", is_script=True)
    assert other is not None
    assert (other.shown, other.folder) == ("A=1 B=2 python other.py --all", project.root)
    function = for_file(project, project.root / "other.py", is_script=False)
    assert function is not None
    assert (function.arguments, function.environment) == ((), {"A": "1", "B": "2"})
    assert for_file(Project(project.root, project.settings), project.root / "other.py", is_script=True) is None


def test_a_choice_is_a_name_a_place_or_a_command(project: Project) -> None:
    by_place = chosen(project, "README.md:2")
    assert by_place is not None
    assert by_place.shown == "A=1 B=2 python other.py --x"
    typed = chosen(project, "python train.py --y")
    assert typed is not None
    assert (typed.arguments, typed.origin) == (("--y",), None)
    assert with_variables(typed, project).environment == {"A": "1", "B": "2"}
    for choice, said in [
        ("broken", f"{project.config}:7: `broken`: gone.py: no such file in {project.root}"),
        ("nothing", "no launch is called nothing; see `drygrad launches`"),
        ("python 'x", "a ' is not closed"),
    ]:
        with pytest.raises(LaunchError, match=f"^{re.escape(said)}$"):
            chosen(project, choice)


def test_what_is_set_is_listed_first_and_what_is_wrong_is_told(project: Project) -> None:
    found = launches_of(project)
    assert [launch.program for launch in found.launches] == ["train.py", "other.py"]
    assert found.problems == [f"{project.config}:7: `broken`: gone.py: no such file in {project.root}"]
