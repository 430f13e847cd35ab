"""A run is stopped by what it needs, not by all that fails to be imported beside that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worker_client import WorkerClient, argument, plan

LAYERS = """\
import absent_xyz.deep
from absent_xyz.more import Layer as Other, wrapped
from collections import OrderedDict, NoSuchName
SIZE = absent_xyz.SIZE + 1
def made():
    return absent_xyz.made
MADE = made()
class Mixed(absent_xyz.Base):
    @wrapped
    def forward(self, x: absent_xyz.Tensor) -> Other | None: ...
class Registry(absent_xyz.Base):
    pass
handlers = Registry("handlers")
@handlers.register(dict, list)
@handlers.register(OrderedDict)
def handle(value): ...
class Late:
    def __init__(self, size=OrderedDict.no_such_default): ...
def double(x):
    return 2 * x
"""
TEXT = """\
from .layers import Late, Mixed, NoSuchName, OrderedDict, Other, SIZE, double
from .layers import absent_xyz
from . import fast
def needs_nothing():
    print(double(3), OrderedDict(), isinstance(3, Mixed), fast)
def makes_a_base(): Mixed()
def calls(): Other(3)
def asks_a_module(): absent_xyz.nothing
def makes_a_class(): Late()
def asks_what_it_is(): isinstance({}, NoSuchName)
def counts(): return SIZE + 1
"""


def in_package(folder: Path, **modules: str) -> dict[str, Any]:
    package = folder / "package"
    package.mkdir(exist_ok=True)
    for name, text in {"__init__": "", **modules}.items():
        (package / f"{name}.py").write_text(text)
    return {
        "path": str(package / "train.py"),
        "module_name": "package.train",
        "package": "package",
        "sys_path": [str(folder)],
        "root": str(folder),
    }


@pytest.fixture
def ran(worker: WorkerClient, tmp_path: Path) -> Any:
    """Return the result of a function of the text; its package takes the wrong turn unless errors are as Python's."""
    init = "from .layers import Late\ntry:\n    from .quick import fast\nexcept ImportError:\n    fast = None\n"
    fields = in_package(tmp_path, __init__=init, layers=LAYERS, quick="import absent_xyz\nfast = absent_xyz.fast\n")
    starts = [[line, 0] for line, text in enumerate(TEXT.splitlines(), 1) if not text.startswith(" ")]

    def run(name: str, **more: Any) -> dict[str, Any]:
        return worker.run(plan(tmp_path, TEXT, name, setup=starts, **fields, **more))

    return run


def test_a_function_runs_without_what_it_does_not_need(ran: Any) -> None:
    result = ran("needs_nothing")
    assert (result["outcome"], result["output"]["text"]) == ("passed", "6 OrderedDict() False None\n")
    told = [note for note in result["notes"] if note.startswith("continued without the failed import at ")]
    assert [note.partition(" at ")[2].partition(":")[0] for note in told] == ["package/layers.py"] * 3
    assert "module `absent_xyz` is neither" in told[0]
    assert "cannot import name 'NoSuchName'" in told[1]
    assert "no_such_default" in told[2]


@pytest.mark.parametrize("name", ["makes_a_base", "calls", "asks_a_module"])
def test_what_is_of_a_missing_package_says_so_where_it_is_used(ran: Any, name: str) -> None:
    result = ran(name)
    assert result["outcome"] == "missing-package"
    assert "`absent_xyz`" in result["reason"]


@pytest.mark.parametrize(
    ("name", "error"),
    [("makes_a_class", "AttributeError: type object"), ("asks_what_it_is", "ImportError: cannot import name 'NoS")],
)
def test_what_fails_to_be_defined_raises_its_own_error_where_it_is_used(ran: Any, name: str, error: str) -> None:
    result = ran(name)
    assert result["outcome"] == "failed"
    assert any(fault["message"].startswith(error) for fault in result["faults"])


def test_what_is_made_of_something_absent_is_no_fault_of_the_program(ran: Any) -> None:
    result = ran("counts")
    assert result["outcome"] == "missing-package"
    assert not [fault for fault in result["faults"] if fault["at"]["path"].endswith("train.py")]


def test_inputs_are_not_made_of_something_absent(ran: Any) -> None:
    result = ran("counts", arguments=[argument("Mixed()", "x")])
    assert result["outcome"] == "missing-package"


def test_modules_know_one_another_when_a_package_is_imported_again(worker: WorkerClient, tmp_path: Path) -> None:
    init = "import package.tools\nimport package.later\nSIZE = package.tools.SIZE\n"
    tools = "print('once')\nimport package\nSIZE = 3\ndef size():\n    return package.SIZE\n"
    fields = in_package(tmp_path, __init__=init, tools=tools, later="import absent_xyz\n")
    text = "def f():\n    from .tools import size\n    print(size())\n"
    result = worker.run(plan(tmp_path, text, "f", setup=[[1, 0]], **fields))
    assert (result["outcome"], result["output"]["text"]) == ("passed", "once\n3\n")


def test_a_module_that_refuses_to_be_imported_is_left_out_as_a_whole(worker: WorkerClient, tmp_path: Path) -> None:
    guarded = (
        "try:\n    import absent_xyz\nexcept ImportError:\n    raise RuntimeError('you need absent_xyz') from None\n"
    )
    fields = in_package(tmp_path, __init__="from . import guarded\n", guarded=guarded)
    result = worker.run(plan(tmp_path, "def f():\n    print('ran')\n", "f", setup=[[1, 0]], **fields))
    assert (result["outcome"], result["output"]["text"]) == ("passed", "ran\n")
    assert result["faults"] == [], "the package is missing; the program's own error only says so"


def test_a_module_that_cannot_be_imported_is_missing_wherever_it_is_spelled_out(
    worker: WorkerClient, tmp_path: Path
) -> None:
    installed = tmp_path / "site-packages" / "bundle"
    installed.mkdir(parents=True)
    (installed / "__init__.py").touch()
    (installed / "board.py").write_text("import absent_xyz\n")
    layers = "import bundle\nfrom bundle.board import Writer\ndef made(w: bundle.board.Writer): ...\n"
    text = (
        "import bundle\nfrom .layers import made\n"
        "def runs():\n    print('ran')\ndef asks():\n    bundle.board.Writer()\n"
    )
    home = tmp_path / "home"
    home.mkdir()
    fields = in_package(home, layers=layers)
    fields["sys_path"].append(str(installed.parent))
    setup = [[1, 0], [2, 0], [3, 0], [5, 0]]
    runs, asks = (worker.run(plan(home, text, name, setup=setup, **fields)) for name in ("runs", "asks"))
    assert (runs["outcome"], runs["output"]["text"], runs["faults"]) == ("passed", "ran\n", [])
    assert asks["outcome"] == "missing-package"
