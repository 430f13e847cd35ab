"""The examples, run: each says what it is an example of, and none leaves anything behind, though some save a model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_harness import ROOT, environment, program

pytestmark = pytest.mark.slow


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_is_left_where_the_examples_are_or_where_they_are_run(tmp_path: Path) -> None:
    examples, here = tmp_path / "examples", tmp_path / "here"
    shutil.copytree(ROOT / "examples", examples)
    here.mkdir()
    before = files(tmp_path)
    assert any("torch.save(" in text.decode() for text in before.values())
    how = "--device sim --timeout 20 --experiment-time 0 --output-format json"
    options = (*how.split(), "--python", sys.executable)
    command = program("run", "../examples", *options)
    done = subprocess.run(
        command, cwd=here, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    scripts = {run["target"]: run["outcome"] for run in json.loads(done.stdout)["runs"] if "::" not in run["target"]}
    assert {Path(target).name for target in scripts} == {path.name for path in examples.glob("*.py")}
    assert scripts["../examples/accumulate.py"] in ("passed", "failed"), "it came to where it saves"
    assert files(tmp_path) == before
