"""The hook of pre-commit, from a tag of this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_harness import ROOT

PARTS = ("pyproject.toml", ".pre-commit-hooks.yaml", "README.md", "LICENSE", "server", "analyzers", "tools")
FAULTY = """\
import torch

weights = torch.exp(torch.ones(2, 4, requires_grad=True))
weights.clamp_(max=10.0)
weights.sum().backward()
"""


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.slow
def test_the_hook_works_from_a_tag(tmp_path: Path) -> None:
    ours, project = tmp_path / "drygrad", tmp_path / "project"
    for folder in (ours, project):
        folder.mkdir()
        git(folder, "init", "-q")
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
        copy(ROOT / part, ours / part)
    git(ours, "add", "-A")
    git(ours, "commit", "-qm", "all of it")
    git(ours, "tag", "v1.2.3")
    config = f"repos:\n  - repo: {ours}\n    rev: v1.2.3\n    hooks:\n      - id: drygrad\n"
    (project / ".pre-commit-config.yaml").write_text(config)
    (project / "pyproject.toml").write_text('[tool.drygrad]\nexclude = ["left_out.py"]\n')
    (project / "train.py").write_text(FAULTY)
    (project / "left_out.py").write_text(FAULTY)
    git(project, "add", "-A")
    variables = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}
    words = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
    done = subprocess.run(words, cwd=project, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "train.py:4:1: error[DG101]" in done.stdout, done.stdout
    assert "left_out.py" not in done.stdout
    (project / "train.py").write_text(FAULTY.replace("weights.clamp_(", "weights = weights.clamp("))
    git(project, "add", "-A")
    again = subprocess.run(words, cwd=project, env=variables, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stdout
