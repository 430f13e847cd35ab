"""The worker lends the user's interpreter nothing but itself, and says why an interpreter cannot serve."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from worker_client import WorkerClient, plan


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    return folder


def packages(interpreter: Path) -> Path:
    return next(interpreter.glob("lib/python*/site-packages"))


def why_unusable(interpreter: Path) -> str:
    with WorkerClient(python=str(interpreter / "bin" / "python")) as worker:
        return worker.receive("unusable")["why"]


def fake_torch(interpreter: Path, text: str) -> None:
    folder = packages(interpreter) / "torch"
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_text(text)


def test_no_torch(interpreter: Path) -> None:
    assert why_unusable(interpreter) == f"no torch in {interpreter}/bin/python"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("__version__ = '2.6.1+cu124'\n", "torch 2.6.1+cu124 is too old for a dry run, which needs 2.7 or newer"),
        (
            "raise ImportError('libtorch_cpu.so: cannot open')\n",
            "torch cannot be imported: ImportError: libtorch_cpu.so",
        ),
        ("import torch._missing\n", "torch cannot be imported: ModuleNotFoundError: No module named 'torch._missing'"),
        ("import os\nos.abort()\n", "torch cannot be imported: the import ends with SIGABRT"),
        ("import ctypes\nctypes.string_at(0)\n", "torch cannot be imported: the import ends with SIGSEGV"),
    ],
)
def test_a_torch_that_cannot_serve(interpreter: Path, text: str, words: str) -> None:
    fake_torch(interpreter, text)
    assert why_unusable(interpreter).startswith(words)


def test_nothing_of_ours_can_be_imported_and_torch_is_the_interpreters_own(interpreter: Path) -> None:
    fake_torch(
        interpreter,
        "import sys, importlib.util as util\n"
        "ours = ['pygls', 'drygrad.static', 'drygrad.model', 'drygrad.lsp', 'wire', 'zygote', 'sandbox']\n"
        "found = []\n"
        "for name in ours:\n"
        "    try:\n"
        "        found += [name] if util.find_spec(name) else []\n"
        "    except ImportError:\n"
        "        pass\n"
        "raise ImportError('|'.join([__file__, repr(found), *sys.path]))\n",
    )
    told = why_unusable(interpreter).partition("ImportError: ")[2]
    place, found, *path = told.split("|")
    assert place == str(packages(interpreter) / "torch" / "__init__.py")
    assert found == "[]"
    assert not [entry for entry in path if "drygrad" in entry or "analyzers" in entry]


def test_the_path_of_a_run_is_the_users(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1\n")
    ours = "[e for e in sys.path if 'analyzers' in e]"  # an editable install of drygrad puts one there by itself
    text = f"import sys, mine\nprint(sys.path[0])\nprint({ours}, mine.x)\n"
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    plain = subprocess.check_output([sys.executable, "-c", f"import sys; print({ours})"], env=without, text=True)
    with WorkerClient() as worker:
        assert worker.receive("ready")["executable"] == sys.executable
        assert worker.run(plan(tmp_path, text))["output"]["text"] == f"{tmp_path}\n{plain.strip()} 1\n"
