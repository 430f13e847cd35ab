"""Inputs whose classes are in other files of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.inputs.neighbours import neighbours_of
from drygrad.dryrun.plan import Missing, Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.targets import target_named
from drygrad.worker.search.nodes import read, text_of

CONFIG = """\
from dataclasses import dataclass, field
from typing import List

@dataclass
class Sizes:
    seen: int
    hidden: List[int] = field(default_factory=lambda: [6, 5])

@dataclass
class Config:
    sizes: Sizes
    batch_size: int = 4
"""
NETS = """\
from torch import nn
from .config import Sizes

class Base(nn.Module):
    def forward(self, x):
        return self.body(x)

class Net(Base):
    def __init__(self, sizes: Sizes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(sizes.seen, sizes.hidden[0]), nn.Linear(*sizes.hidden))
"""
MAIN = """\
import torch
from torch.utils.data import DataLoader
from .config import Config
from .nets import Net as Model

class Runner:
    def __init__(self, config: Config, samples, logger):
        self.model = Model(config.sizes)
        self.loader = DataLoader(samples, config.batch_size)
        self.logger = logger
    def run(self):
        for x, y in self.loader:
            self.logger.log({"loss": torch.nn.functional.cross_entropy(self.model(x), y).item()})

def grade(model: Model, x):
    return model(x).sum()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "pack"
    folder.mkdir()
    for name, text in (("__init__", ""), ("config", CONFIG), ("nets", NETS), ("main", MAIN)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def planned(folder: Path, qualname: str, **options: object) -> Plan:
    source = source_of(MAIN)
    target = target_named(source, qualname)
    assert target is not None
    chosen = RunOptions(root=folder.parent, device="cpu", timeout=30.0, search_seconds=20.0, **options)  # type: ignore[arg-type]
    plans = plan_runs(source, folder / "main.py", target, chosen)
    assert not isinstance(plans, Missing), plans.message
    return plans[0]


@pytest.mark.parametrize("qualname", ["Runner.run", "grade"])
def test_objects_of_imported_classes_are_made(worker: WorkerClient, project: Path, qualname: str) -> None:
    result = Result.read(worker.run(planned(project, qualname).as_json()))
    assert result.outcome == "passed", (result.data.get("search"), result.error)
    assert not result.faults


def test_what_is_not_imported_by_name_is_read_where_it_is(project: Path) -> None:
    plan = planned(project, "grade")
    assert plan.proposal is not None
    written = str(plan.proposal.inputs)
    assert "'text': 'Model'" in written
    assert "__import__('pack.config', fromlist=['_']).Sizes" in written


def test_a_file_counts_as_it_is_in_the_editor(project: Path) -> None:
    buffers = {str(project / "nets.py"): NETS.replace("sizes: Sizes", "sizes: Sizes, extra: str")}
    plan = planned(project, "grade", buffers=buffers)
    assert plan.proposal is not None
    assert "extra" in str(plan.proposal.inputs)


def test_what_changes_on_the_disk_is_read_again(project: Path) -> None:
    tree = source_of(MAIN).tree
    assert "More" not in neighbours_of(tree, project / "main.py", project.parent, {}).classes
    (project / "config.py").write_text(f"{CONFIG}\n\nclass More:\n    pass\n", encoding="utf-8")
    os.utime(project / "config.py", (1, 1))
    assert "More" in neighbours_of(tree, project / "main.py", project.parent, {}).classes


def test_imports_in_a_circle_end(project: Path) -> None:
    (project / "config.py").write_text(f"from .nets import Net\n{CONFIG}", encoding="utf-8")
    found = neighbours_of(source_of(MAIN).tree, project / "main.py", project.parent, {})
    assert {"Config", "Sizes", "Net", "Base"} <= set(found.classes)


OPEN = """\
import abc
from typing import TYPE_CHECKING
import torch
if TYPE_CHECKING:
    from .nets import Sizes

class Solver(abc.ABC):
    @abc.abstractmethod
    def step(self, x): ...
    def solve(self, x):
        return self.step(x)

class Stage(torch.nn.Module):
    order: int
    def forward(self, x):
        return x ** self.order

def count(sizes: 'Sizes'):
    return sizes.seen
"""
COMPLETED = """\
from .open import Solver, Stage

class Half(Solver):
    def __init__(self, rate=2.0):
        self.rate = rate
    def step(self, x):
        return x / self.rate

class Cube(Stage):
    order = 3
"""


@pytest.mark.parametrize(
    ("qualname", "made"),
    [
        ("Solver.solve", "__import__('pack.completed', fromlist=['_']).Half()"),
        ("Stage.forward", "__import__('pack.completed', fromlist=['_']).Cube()"),
        ("count", "__import__('pack.config', fromlist=['_']).Sizes(seen=8)"),
    ],
)
def test_what_a_class_leaves_open_is_completed_by_one_of_the_package(tmp_path: Path, qualname: str, made: str) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    for name, text in {"__init__": "", "open": OPEN, "completed": COMPLETED, "nets": NETS, "config": CONFIG}.items():
        (package / f"{name}.py").write_text(text)
    source = source_of(OPEN)
    target = target_named(source, qualname)
    assert target is not None
    plans = plan_runs(source, package / "open.py", target, RunOptions(root=tmp_path))
    assert not isinstance(plans, Missing)
    assert plans[0].proposal is not None
    parts = read(dict(plans[0].proposal.inputs)).parts
    assert text_of(parts[0][1]) == made
