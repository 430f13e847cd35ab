"""What a plan consists of, and what its key depends on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from plan_harness import missing, plan, steps

from drygrad.dryrun.launches.reading import read
from drygrad.dryrun.plan import Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.targets import target_named
from drygrad.static.source import Source

PROGRAM = """\
import torch
from helpers import load

SCALE = 2

def scaled(x):
    return x * SCALE

def unrelated(x):
    return x

# dry-run: x=torch.ones(3)
def run(x):
    return scaled(x)
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("SCALE = 2", "SCALE = 3", False),
        ("x * SCALE", "x / SCALE", False),
        ("torch.ones(3)", "torch.ones(4)", False),
        ("    return scaled(x)", "    return scaled(x) + 1", False),
        ("return x\n", "return -x\n", True),
        ("from helpers import load\n", "\n\n", True),
        ("def unrelated", "# a comment\ndef unrelated", True),
    ],
)
def test_the_key_depends_on_what_is_executed_only(old: str, new: str, same: bool) -> None:
    changed = PROGRAM.replace(old, new)
    assert changed != PROGRAM
    assert (plan(PROGRAM, "run").key == plan(changed, "run").key) is same


def test_the_key_depends_on_the_conditions() -> None:
    base = RunOptions(device="sim", torch="2.13.0")
    keys = {
        plan(PROGRAM, "run", options).key
        for options in (base, replace(base, device="cpu"), replace(base, torch="2.7.0"), replace(base, seed=1))
    }
    assert len(keys) == 4


def test_methods_get_an_object_from_the_file_or_make_one() -> None:
    text = "class Net:\n    def __init__(self, n{}): ...\n    # dry-run: x=1{}\n    def forward(self, x): ...\n"
    made = plan(text.format("=1", ""), "Net.forward").receiver
    assert made is not None
    assert (made.name, made.text, made.source) == ("self", "Net()", "constructor")
    given = plan(text.format("", ", self=Net(3)"), "Net.forward").receiver
    assert given is not None
    assert (given.text, given.source) == ("Net(3)", "comment")
    built = plan(text.format("", "") + "if __name__ == '__main__':\n    net = Net(10).eval()\n", "Net.forward")
    assert built.receiver is not None
    assert (built.receiver.text, built.receiver.source) == ("net", "call")
    assert steps(built) == ["net = Net(10).eval()"]
    assert missing(text.format("", ""), "Net.forward").message == "nothing creates the `self` of `Net.forward`"


def test_the_module_and_its_path(tmp_path: Path) -> None:
    package = tmp_path / "src" / "mine" / "models"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    path = package / "net.py"
    source = Source("import os, numpy.linalg, mine.data, torch\ndef f(): return os, numpy, mine, torch\nf()\n")

    def of(qualname: str | None) -> Plan:
        target = target_named(source, qualname)
        assert target is not None
        found = plan_runs(source, path, target, RunOptions(root=tmp_path))
        assert isinstance(found, list)
        return found[0]

    function, script = of("f"), of(None)
    assert function.module_name == "mine.models.net"
    assert function.sys_path == (tmp_path / "src", tmp_path)
    assert function.modules == ("numpy",)
    assert script.module_name == "__main__"
    assert script.sys_path == (tmp_path / "src", package, tmp_path)
    assert script.package == function.package == "mine.models"
    assert script.as_json()["setup"] is None


def test_a_launch_looks_for_installed_packages_before_folders_that_it_does_not_name(tmp_path: Path) -> None:
    path = tmp_path / "references" / "train.py"
    path.parent.mkdir()
    source = Source("import torchvision\n")
    path.write_text(source.text)
    target = target_named(source, None)
    assert target is not None
    started = read(["python", "references/train.py"], tmp_path)
    for launch, own in ((None, []), (started, [str(tmp_path)])):
        found = plan_runs(source, path, target, RunOptions(root=tmp_path, launch=launch))
        assert isinstance(found, list)
        request = found[0].as_json()
        assert request["sys_path_last"] == own
        assert request["sys_path"] == [str(path.parent), str(tmp_path)][: 2 - len(own)]


def test_a_function_of_any_number_of_arguments_is_searched(tmp_path: Path) -> None:
    source = Source("import torch\ndef f(*parts):\n    return torch.cat(parts)\n")
    target = target_named(source, "f")
    assert target is not None
    found = plan_runs(source, tmp_path / "f.py", target, RunOptions(root=tmp_path))
    assert isinstance(found, list)
    assert found[0].input_sources == {"search"}


def test_the_plan_crosses_the_wire_as_json() -> None:
    data = json.loads(json.dumps(plan(PROGRAM, "run").as_json()))
    assert data["setup"] == [[1, 0], [4, 0], [6, 0], [13, 0]]
    assert data["target"] == "run"
    assert data["arguments"] == [
        {"name": "x", "star": "", "text": "torch.ones(3)", "line": 12, "column": 13, "source": "comment"}
    ]
    assert data["root"] == "/project"


def test_a_script_that_misses_names_says_which() -> None:
    found = missing("import torch\nloss = model(x)\nprint(loss)\n", None)
    assert found.names == ("model", "x")
    assert "`model` and `x`" in found.message
