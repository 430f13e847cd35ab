"""What Python imports where a program is installed or started, a run imports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from worker_client import WorkerClient

from drygrad.dryrun.layout import packages_around, project_folders
from drygrad.dryrun.plan import RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.targets import target_named
from drygrad.static.source import Source

CONFIGURATIONS = [
    ("pyproject.toml", '[tool.setuptools.package-dir]\n"" = "lib"\n'),
    ("pyproject.toml", '[tool.setuptools.packages.find]\nwhere = ["lib"]\n'),
    ("pyproject.toml", '[tool.poetry]\npackages = [{ include = "mine", from = "lib" }]\n'),
    ("pyproject.toml", '[tool.hatch.build.targets.wheel]\npackages = ["lib/mine"]\n'),
    ("pyproject.toml", '[tool.hatch.build.targets.wheel]\nsources = ["lib"]\n'),
    ("pyproject.toml", '[tool.pdm.build]\npackage-dir = "lib"\n'),
    ("pyproject.toml", '[tool.uv.build-backend]\nmodule-root = "lib"\n'),
    ("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["lib"]\n'),
    ("setup.cfg", "[options]\npackage_dir =\n    = lib\n"),
    ("setup.cfg", "[options.packages.find]\nwhere = lib\n"),
    ("setup.py", "from setuptools import setup\nsetup(package_dir={'': 'lib'})\n"),
    ("setup.py", "from setuptools import find_packages, setup\nsetup(packages=find_packages('lib'))\n"),
    ("pytest.ini", "[pytest]\npythonpath = lib\n"),
]


def written(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(("name", "text"), CONFIGURATIONS)
def test_a_project_says_where_its_packages_are(tmp_path: Path, name: str, text: str) -> None:
    written(tmp_path, {name: text, "lib/mine/__init__.py": "", "src/x.py": "", "scripts/train.py": ""})
    assert project_folders(tmp_path / "scripts" / "train.py") == (tmp_path / "lib", tmp_path / "src", tmp_path)


def test_what_cannot_be_read_names_nothing(tmp_path: Path) -> None:
    broken = {"pyproject.toml": "[", "setup.cfg": "x", "setup.py": "(", "tool.py": "", "tox.ini": "[pytest]\n"}
    written(tmp_path, broken)
    assert project_folders(tmp_path / "tool.py") == (tmp_path,)
    (tmp_path / "pyproject.toml").write_text("[tool]\nsetuptools = 3\npoetry = {packages = [1]}\n")
    assert project_folders(tmp_path / "tool.py") == (tmp_path,)


@pytest.mark.parametrize(
    ("text", "packages"),
    [
        ("import torch\n", 0),
        ("from .b import scale\n", 1),
        ("from ..c import scale\n", 2),
        ("from pkg.utils.b import scale\n", 2),
        ("from pkg import utils\n", 2),
        ("import utils.b\n", 1),
        ("import pkg.absent\n", 0),
    ],
)
def test_imports_tell_the_packages_that_have_no_file(tmp_path: Path, text: str, packages: int) -> None:
    written(tmp_path, {"pkg/utils/a.py": text, "pkg/utils/b.py": "", "pkg/c.py": ""})
    path = tmp_path / "pkg" / "utils" / "a.py"
    assert packages_around(path, Source(text)) == path.parents[:packages]


PROGRAMS = {
    "a package in src": (
        "scripts/train.py",
        {"pyproject.toml": "", "src/mine/__init__.py": "", "src/mine/net.py": "NAME = 'net'\n"},
        "from mine.net import NAME\ndef f():\n    print(NAME)\n",
        "net\n",
    ),
    "packages without a file": (
        "pkg/utils/a.py",
        {"pkg/utils/b.py": "def scale():\n    return __name__\n"},
        "from pkg.utils.b import scale\ndef f():\n    print(scale(), __name__)\n",
        "pkg.utils.b pkg.utils.a\n",
    ),
    "a folder above the program": (
        "tools/deep/train.py",
        {"shared/io.py": "WORD = 'io'\n", "tools/deep/other.py": "from shared.io import WORD\n"},
        "def f():\n    from other import WORD\n    print(WORD)\n",
        "io\n",
    ),
    "a cycle of star imports": (
        "pkg/geo/aff.py",
        {
            "pkg/__init__.py": "from . import filters\nfrom . import geo\n",
            "pkg/geo/__init__.py": "from .aff import *\n",
            "pkg/filters/__init__.py": "from .gauss import blur\nfrom .kg import motion\n",
            "pkg/filters/gauss.py": "def blur():\n    return 'blurred'\n",
            "pkg/filters/kg.py": "from pkg.geo import rotate\ndef motion():\n    return rotate\n",
        },
        "__all__ = ['rotate']\nfrom pkg.filters import blur\ndef rotate():\n    return blur()\n"
        "def f():\n    from pkg.filters import motion\n    print(motion() is rotate, rotate())\n",
        "True blurred\n",
    ),
    "star imports of what has no list": (
        "pkg/ops.py",
        {
            "pkg/__init__.py": "from .ops import *\nfrom .nets import NET\n",
            "pkg/nets.py": "import pkg\nNET = pkg.one()\n",
        },
        "def one():\n    return 1\ndef f():\n    import pkg\n    print(pkg.NET, pkg.one is one)\n",
        "1 True\n",
    ),
    "a sibling of the half-loaded target": (
        "pkg/a.py",
        {"pkg/__init__.py": "", "pkg/b.py": "import pkg.a as whole\nSEEN = whole.early(), dir(whole)\n"},
        "def early():\n    return 1\nfrom .b import SEEN\nfrom . import b\ndef f():\n"
        "    print(SEEN[0], 'f' in SEEN[1], b.whole.f is f)\n",
        "1 False True\n",
    ),
    "what an installed package can do without": (
        "tools/scripts/a.py",
        {"tools/drivers/one.py": ""},
        "from xml.sax import make_parser\ndef f():\n    print(type(make_parser(['drivers'])).__name__)\n",
        "ExpatParser\n",
    ),
    "the package itself": (
        "pkg/__init__.py",
        {"pkg/one.py": "from . import LIMIT\nfrom pkg.two import TWO\n", "pkg/two.py": "TWO = 2\n"},
        "LIMIT = 3\nfrom .one import TWO\nfrom . import one\ndef f():\n    print(TWO, one.LIMIT, __name__)\n",
        "2 3 pkg\n",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerClient]:
    with WorkerClient() as client:
        client.receive("ready")
        yield client


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_python_imports_a_run_imports(worker: WorkerClient, tmp_path: Path, name: str) -> None:
    where, files, text, said = PROGRAMS[name]
    written(tmp_path, {**files, where: text})
    source, path = Source(text), tmp_path / where
    target = target_named(source, "f")
    assert target is not None
    plans = plan_runs(source, path, target, RunOptions(root=tmp_path, device="cpu"))
    assert isinstance(plans, list)
    result = worker.run(plans[0].as_json())
    assert (result["outcome"], result["output"]["text"]) == ("passed", said), result["faults"]
