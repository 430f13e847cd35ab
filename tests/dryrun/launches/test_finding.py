"""The launches that a project's files have, and which of them a run takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drygrad.dryrun.launches.choosing import lacks_a_launch, named, only, worth_trying
from drygrad.dryrun.launches.finding import Found, find
from drygrad.dryrun.launches.launch import LaunchError
from drygrad.dryrun.result import ErrorInUserCode, Fault, Result

FILES = {
    "train.py": "",
    "tools/prepare.py": "",
    "pkg/__init__.py": "",
    "pkg/cli.py": "",
    ".vscode/launch.json": """{
  // which "python train.py" is no launch
  "version": "0.2.0",
  "configurations": [
    {
      "name": "Train // small", "type": "debugpy", "request": "launch", /* several
      lines */ "program": "${workspaceFolder}/train.py", "args": ["--lr", "0.1"],
      "env": {"A": "1"}, "cwd": "${workspaceFolder}",
    },
    {"name": "Attach", "type": "debugpy", "request": "attach"},
    {"name": "Module", "type": "python", "request": "launch", "module": "pkg.cli", "args": "--x 'a b'"},
    {"name": "This file", "type": "python", "request": "launch", "program": "${file}"},
  ],
}
""",
    ".vscode/tasks.json": """{"tasks": [
  {"label": "fit", "type": "shell", "command": "python train.py --a", "options": {"cwd": "tools", "env": {"B": "2"}}},
  {"label": "prep", "type": "process", "command": "python", "args": ["tools/prepare.py", "a b"]}
]}""",
    "pyproject.toml": '[project]\nname = "x"\n\n[project.scripts]\nfit = "pkg.cli:main"\ngone = "other.cli:main"\n',
    "Makefile": "PY ?= python\nARGS = --lr $(LR) \\\n  --b\nLR := 3\n\nall: train\n\n.PHONY: all\ntrain: data\n"
    "\t@echo python\n\t@cd tools && $(PY) prepare.py\n\tCUDA_VISIBLE_DEVICES=$$GPU $(PY) train.py $(ARGS)\n\xff",
    "justfile": 'py := "python"\n\nfit lr="0.2" *rest:\n    @{{py}} train.py --lr {{lr}} {{rest}}\n',
    "scripts/job.sbatch": "#!/bin/bash\n#SBATCH -n 4\nsrun -n 4 python ../train.py\nsrun python train.py --config $1\n",
    "README.md": "Run `python train.py --inline`, or ```python train.py --three```, or `pip install x`.\n\n"
    "```python\npython train.py --not\n```\n\n"
    "```console\n$ git clone x\n$ torchrun --nproc-per-node 2 \\\n  train.py --a\nloss: python train.py --output\n"
    "```\n\n```\npython train.py --data <dir> [--lr LR]\npython train.py --help\n```\n",
    "nested/deep/only.py": "",
    "other/train.py": "",
    "docs/notes.md": "```sh\npython deep/only.py\npython wrong/only.py\npython setup.py install\n```\n\n"
    "    $ python train.py --indented \\\n      --more\n    python train.py --next\n\n"
    "- run\n    python train.py --text\n\n    then see\n    python train.py --prose\n\n\tpython train.py --last",
    "setup.py": "",
    "docs/usage.rst": "Usage::\n\n    python train.py --rst\n\n.. code-block:: python\n\n    python train.py --py\n",
    "docker/Dockerfile": 'FROM x\nRUN pip install y\nCMD ["python", "train.py", "--docker", "a b"]\n',
    ".github/workflows/ci.yml": "jobs:\n  test:\n    steps:\n      - run: python train.py --ci\n      - name: x\n"
    "        run: |\n          pip install .\n          python -m pkg.cli --two\n",
    ".gitlab-ci.yml": "test:\n  script:\n    - 'python train.py --gitlab'\n    - echo python train.py\n",
    "node_modules/README.md": "```\npython train.py --never\n```\n",
}
EXPECTED = [
    (".vscode/launch.json:6", "Train // small", "A=1 python {root}/train.py --lr 0.1"),
    (".vscode/launch.json:11", "Module", "python -m pkg.cli --x 'a b'"),
    (".vscode/tasks.json:3", "prep", "python tools/prepare.py 'a b'"),
    ("pyproject.toml:5", "fit", "fit"),
    ("Makefile:11", "train", "python prepare.py"),
    ("Makefile:12", "train", "CUDA_VISIBLE_DEVICES='$GPU' python train.py --lr 3 --b"),
    ("justfile:4", "fit", "python train.py --lr 0.2"),
    ("scripts/job.sbatch:3", "", "python ../train.py"),
    ("scripts/job.sbatch:4", "", "python train.py --config"),
    ("README.md:1", "", "python train.py --inline"),
    ("README.md:1", "", "python train.py --three"),
    ("README.md:9", "", "python train.py --a"),
    ("README.md:15", "", "python train.py --data '<dir>' '[--lr' 'LR]'"),
    ("README.md:16", "", "python train.py --help"),
    ("docs/notes.md:2", "", "python deep/only.py"),
    ("docs/notes.md:7", "", "python train.py --indented --more"),
    ("docs/notes.md:17", "", "python train.py --last"),
    ("docs/usage.rst:3", "", "python train.py --rst"),
    ("docker/Dockerfile:3", "CMD", "python train.py --docker 'a b'"),
    (".github/workflows/ci.yml:4", "", "python train.py --ci"),
    (".github/workflows/ci.yml:8", "", "python -m pkg.cli --two"),
    (".gitlab-ci.yml:3", "", "python train.py --gitlab"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode("latin-1"))
    return root


@pytest.fixture(scope="module")
def found(root: Path) -> Found:
    return find(root)


def test_the_launches_of_a_project_with_where_they_stand(root: Path, found: Found) -> None:
    told = [(one.origin.shown(root), one.origin.name, said(one.shown, root)) for one in found.launches if one.origin]
    assert told == EXPECTED
    assert found.problems == []


def said(command: str, root: Path) -> str:
    return command.replace(str(root), "{root}")


def test_of_a_program_those_count_that_leave_nothing_open(root: Path, found: Found) -> None:
    commands = [said(launch.shown, root) for launch in found.of(root / "train.py")]
    assert commands[0] == "A=1 python {root}/train.py --lr 0.1"
    assert not [command for command in commands if "<" in command or "$" in command or "help" in command]
    assert named("Module", found, root).program == "pkg.cli"
    assert named("README.md:9", found, root).ranks == 2
    with pytest.raises(
        LaunchError, match=r"several launches were found; choose one with --launch:\n  .vscode/launch\.json:6 "
    ):
        only(found, root)
    with pytest.raises(LaunchError, match="no launch is called gone"):
        named("gone", found, root)


def test_a_file_that_cannot_be_read_is_a_problem_and_hides_no_others(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "README.md").write_text("```\npython train.py --a\n```\n")
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "launch.json").write_text('{\n"configurations": [}')
    (tmp_path / ".vscode" / "tasks.json").write_text("[" * 100_000)
    found = find(tmp_path)
    assert [problem.removeprefix(str(tmp_path)) for problem in found.problems] == [
        "/.vscode/launch.json:2: it is not JSON with comments: Expecting value",
        "/.vscode/tasks.json: it is not JSON with comments: it is nested too deep",
    ]
    assert only(found, tmp_path).arguments == ("--a",)
    with pytest.raises(LaunchError, match="no launches were found"):
        only(Found(), tmp_path)


def test_for_want_of_a_file_one_is_tried_that_names_files_or_starts_elsewhere(root: Path, found: Found) -> None:
    absent = Result("failed", error=ErrorInUserCode("FileNotFoundError", "x", None), seconds=1.0)
    plain = [one for one in found.launches if one.shown == "python train.py --a"]
    named_one = replace(plain[0], arguments=("--data=tools/prepare.py",))
    elsewhere = replace(plain[0], folder=root / "tools")
    assert worth_trying([*plain, named_one, elsewhere], absent, root) == [named_one]
    assert worth_trying([*plain, elsewhere], absent, root) == [elsewhere]
    assert not worth_trying([*plain, elsewhere], replace(absent, seconds=9.0), root)
    assert worth_trying([*plain] * 5, Result("no-inputs"), root) == plain * 3


def test_another_start_is_tried_for_what_it_may_give() -> None:
    unset = Fault("DG903", "the environment variable DATA is not set: the run could not continue", None)
    absent = Result("failed", error=ErrorInUserCode("FileNotFoundError", "x", None))
    assert lacks_a_launch(Result("no-inputs", faults=(Fault("DG901", "x", None),)), is_script=False)
    assert lacks_a_launch(Result("blocked", faults=(unset,)), is_script=True)
    assert lacks_a_launch(absent, is_script=True)
    assert not lacks_a_launch(absent, is_script=False)
    assert not lacks_a_launch(Result("no-inputs"), is_script=True)
    assert not lacks_a_launch(
        Result("blocked", faults=(Fault("DG903", "a dry run downloads nothing", None),)), is_script=True
    )
    assert not lacks_a_launch(Result("failed", faults=(Fault("DG314", "x", None),)), is_script=True)
