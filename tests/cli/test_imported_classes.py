"""What a class of another file is, the check learns by reading that file."""

from __future__ import annotations

from pathlib import Path

from drygrad.cli.inspection import Job, inspect
from drygrad.settings import Settings

TRAIN = """\
import torch
import torch.nn as nn
from .models import Net

def main():
    model = Net().cuda()
    x = torch.randn(8, 4)
    return model.forward(x)
"""


def test_an_imported_module_is_known_as_one(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()
    (tmp_path / "models.py").write_text("import torch.nn as nn\nclass Net(nn.Module):\n    pass\n")
    train = tmp_path / "train.py"
    train.write_text(TRAIN)
    result = inspect(Job(train, "train.py", Settings(), root=tmp_path))
    assert [item.finding.code for item in result.items] == ["DG749"]


def test_without_its_file_nothing_is_claimed(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(TRAIN)
    result = inspect(Job(train, "train.py", Settings(), root=tmp_path))
    assert result.items == ()
