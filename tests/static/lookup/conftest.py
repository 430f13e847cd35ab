"""Small projects on disk, beside an installed torch that nobody may import."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from drygrad.static.lookup.client import Limits, Place

PATIENT = Limits(timeout=120.0, each=100.0)
"""What is asked is answered, however busy the machine is."""

Write = Callable[[dict[str, str]], Place]

TORCH = {
    "torch/__init__.py": "raise SystemExit('torch was imported')\n",
    "torch/nn/__init__.py": "from torch.nn.modules import *\nfrom torch.nn.parameter import Parameter\n",
    "torch/nn/parameter.py": "class Parameter: ...\n",
    "torch/nn/modules/__init__.py": """
        from .module import Module
        from .container import Sequential
        __all__ = ["Module", "Sequential"]
    """,
    "torch/nn/modules/module.py": "class Module: ...\n",
    "torch/nn/modules/container.py": "from .module import Module\n\nclass Sequential(Module): ...\n",
    "torch/autograd/__init__.py": "from .grad_mode import no_grad\n",
    "torch/autograd/grad_mode.py": "class no_grad: ...\n",
}


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), "utf-8")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a project; return the place of its ``train.py``, with a fake torch installed."""
    root, installed = tmp_path / "project", tmp_path / "site-packages"

    def project(files: dict[str, str]) -> Place:
        _write(installed, TORCH)
        _write(root, files)
        return Place(root / "train.py", root, (str(installed),))

    return project
