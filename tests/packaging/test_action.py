"""The GitHub Action: its steps, as a runner executes them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_harness import ROOT, environment

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
FAULTY = """\
import torch


def step(x):
    features = torch.ones(2, 4, requires_grad=True)
    weights = torch.exp(features)
    weights.clamp_(max=10.0)
    return weights.sum().backward()
"""


class Runner:
    """As much of a runner as the action's steps in bash ask for."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.workspace, self.temp = folder / "work space", folder / "temp"
        self._inputs = {name: str(given["default"]) for name, given in ACTION["inputs"].items()} | inputs
        self.paths: list[str] = []
        for each in (self.workspace, self.temp):
            each.mkdir()

    def file(self, name: str) -> str:
        path = self.temp / name
        return path.read_text() if path.exists() else ""

    def __call__(self, name: str) -> subprocess.CompletedProcess[str]:
        step = STEPS[name]
        known = {"runner.temp": str(self.temp), "github.action_path": str(ROOT), "runner.os": "Linux"}
        known |= {f"inputs.{name}": value for name, value in self._inputs.items()}
        given = {key: re.sub(r"\$\{\{ (.*?) \}\}", lambda m: known[m[1]], text) for key, text in step["env"].items()}
        assert "${{" not in step["run"], "what users write is no part of a program"
        variables = {
            **os.environ,
            **given,
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(self.temp / "output"),
            "GITHUB_PATH": str(self.temp / "path"),
            "PATH": os.pathsep.join([*self.file("path").split(), *self.paths, os.environ["PATH"]]),
        }
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(words, cwd=self.workspace, env=variables, capture_output=True, text=True, check=False)

    def installed(self) -> None:
        """Have `drygrad` be this checkout's, as if it was installed."""
        (self.temp / "bin").mkdir()
        program = self.temp / "bin" / "drygrad"
        path = environment()["PYTHONPATH"]
        program.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -m drygrad "$@"\n')
        program.chmod(0o755)
        self.paths.append(str(self.temp / "bin"))


def test_findings_become_annotations_and_fail_the_step(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    runner.installed()
    (runner.workspace / "train.py").write_text(FAULTY)
    done = runner("Check")
    assert done.returncode == 1
    assert "::warning file=train.py,line=7," in done.stdout
    assert list((runner.temp / "drygrad-cache").iterdir()), "results are kept where the step before restores them"


def test_inputs_choose_what_fails_and_give_sarif(tmp_path: Path) -> None:
    runner = Runner(tmp_path, **{"fail-on": "error", "sarif": "true", "paths": "src other.py", "args": "--select DG1"})
    runner.installed()
    (runner.workspace / "src").mkdir()
    (runner.workspace / "src" / "train.py").write_text(FAULTY)
    (runner.workspace / "other.py").write_text("")
    done = runner("Check")
    assert (done.returncode, done.stderr) == (0, "")
    assert "file=src/train.py" in done.stdout
    (path,) = re.findall(r"^sarif-file=(.*)$", runner.file("output"), re.MULTILINE)
    (run,) = json.loads(Path(path).read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["DG101"]


def test_what_goes_wrong_fails_the_step(tmp_path: Path) -> None:
    runner = Runner(tmp_path, sarif="true", paths="nowhere")
    runner.installed()
    done = runner("Check")
    assert done.returncode != 0
    assert "nowhere: no such file or folder" in done.stderr


def test_what_users_may_set_is_described_and_used() -> None:
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    assert all(given["description"] for given in ACTION["inputs"].values())


@pytest.mark.slow
def test_it_installs_itself(tmp_path: Path) -> None:
    runner = Runner(tmp_path, python=sys.executable)
    (runner.workspace / "train.py").write_text(FAULTY)
    done = runner("Install drygrad")
    assert done.returncode == 0, done.stderr
    assert runner("Check").returncode == 1
