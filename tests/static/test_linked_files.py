"""Functions and classes of other files of the project are followed as those of the file itself."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from drygrad.settings import Settings
from drygrad.static.engine import Analyzer
from drygrad.static.lookup.library import Library
from drygrad.static.lookup.modules import Modules
from drygrad.static.source import Source

IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
HELPERS = """
    from .deeper import rate as activation

    def probabilities(x):
        return activation(x)

    def causal(n):
        return torch.ones(n, n).tril()

    def on(n, like):
        return torch.ones(n, n, device=like.device)

    def scaled(x, by):
        return x * by

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x):
            return activation(self.fc(x))
"""
DEEPER = """
    from .helpers import causal

    def rate(x):
        return torch.softmax(x, dim=-1)
"""


class Project:
    """Files in a folder, of which one is checked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.library = Library(Modules(root))
        for name, text in {"__init__": "", "helpers": HELPERS, "deeper": DEEPER}.items():
            self.write(name, text)
        self.analyzer = Analyzer(Settings())

    def write(self, name: str, text: str) -> Path:
        path = self.root / "pkg" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(IMPORTS + dedent(text))
        return path

    def codes(self, text: str) -> list[tuple[str, str]]:
        """Return what is told of a file, at which code."""
        path = self.write("main", text)
        source = Source(path.read_text())
        names = self.analyzer.check(source).questions
        self.analyzer.links = self.library.links(path, names)
        found = self.analyzer.check(source).findings
        return [(finding.code, source.slice(finding.span)) for finding in found]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


LOSS = "\ndef loss(x, y):\n    return F.cross_entropy({}, y)\n"


@pytest.mark.parametrize(
    ("imported", "called"),
    [
        ("from .helpers import probabilities", "probabilities(x)"),
        ("from pkg.helpers import probabilities as p", "p(x)"),
        ("from . import helpers", "helpers.probabilities(x)"),
        ("import pkg.helpers", "pkg.helpers.probabilities(x)"),
        ("from .helpers import Net", "Net()(x)"),
    ],
)
def test_what_a_function_of_another_file_returns_is_known(project: Project, imported: str, called: str) -> None:
    assert project.codes(imported + LOSS.format(called)) == [("DG304", called)]


def test_names_are_those_of_the_file_they_stand_in(project: Project) -> None:
    text = "from .helpers import probabilities\n\ndef activation(x):\n    return x\n" + LOSS.format("probabilities(x)")
    assert project.codes(text) == [("DG304", "probabilities(x)")]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("x.masked_fill(causal(3) == 0, -1e9)", "causal(3)"),
        ("scaled(x, torch.ones(3))", "torch.ones(3)"),
        ("x * on(3, x)", None),
        ("x * causal(3).to(x)", None),
    ],
)
def test_what_another_file_makes_on_the_cpu_meets_what_is_given(project: Project, body: str, told: str | None) -> None:
    text = f"from .helpers import causal, on, scaled\n\ndef f(x: torch.Tensor):\n    return {body}\n"
    assert project.codes(text) == ([] if told is None else [("DG203", told)])


def test_a_model_of_another_file_has_a_device(project: Project) -> None:
    text = "from .helpers import Net\nnet = Net().cuda()\nout = net(torch.ones(2, 4))\n"
    assert project.codes(text) == [("DG201", "torch.ones(2, 4)")]


def test_a_file_that_changes_is_read_again(project: Project) -> None:
    text = "from .deeper import rate\n" + LOSS.format("rate(x)")
    assert project.codes(text) == [("DG304", "rate(x)")]
    project.write("deeper", "def rate(x):\n    return x.sin()  # no probabilities any more\n")
    assert project.codes(text) == []


def test_a_file_that_changes_defaults_is_not_followed(project: Project) -> None:
    project.write("helpers", "torch.set_default_device('cuda')\n\ndef causal(n):\n    return torch.ones(n, n)\n")
    assert project.codes("from .helpers import causal\n\ndef f(x: torch.Tensor):\n    return x * causal(3)\n") == []


MADE_ANEW = "\ndef f(x: torch.Tensor):\n    return x * torch.ones(3)\n"


@pytest.mark.parametrize(
    ("initial", "utils", "told"),
    [
        ("", "def use(device):\n    torch.set_default_device(device)\n", True),
        ("from .utils import use", "def use(device):\n    torch.set_default_device(device)\n", False),
        ("from pkg import utils", "def use(device):\n    torch.set_default_device(device)\n", False),
        ("from .utils import use", "def use(dtype):\n    torch.set_default_dtype(dtype)\n", True),
        ("torch.set_default_tensor_type('torch.cuda.FloatTensor')", "", False),
    ],
)
def test_packages_around_a_file_change_the_default_device(
    project: Project, initial: str, utils: str, told: bool
) -> None:
    project.write("utils", utils)
    project.write("__init__", initial)
    assert project.codes(MADE_ANEW) == ([("DG203", "torch.ones(3)")] if told else [])


def test_nobody_is_led_out_of_the_project(project: Project, tmp_path: Path) -> None:
    installed = tmp_path / "site-packages" / "elsewhere.py"
    installed.parent.mkdir()
    installed.write_text(IMPORTS + dedent(DEEPER))
    library = Library(Modules(tmp_path, [str(installed.parent)]))
    path = project.write("main", "from elsewhere import rate\n")
    assert library.find(path, "elsewhere.rate") is None
    assert library.find(path, ".deeper.rate") is not None


KEEPING = """
class {name}:
    def __init__(self):
        self.values = []

    def update(self, value):
        self.values.append(value)
"""


def test_what_a_function_of_another_file_keeps_is_left_to_that_file(project: Project) -> None:
    project.write("meters", KEEPING.format(name="Meter"))
    text = "from .meters import Meter\n" + KEEPING.format(name="Own")
    text += "\ndef train(model, batches):\n    meter = Meter()\n"
    text += "    for x in batches:\n        meter.update(model(x).sum())\n"
    assert [code for code, _ in project.codes(text) if code == "DG501"] == []
