"""The light look-up, over packages on disk."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from drygrad.static.lookup.answers import MODULE, Answer
from drygrad.static.lookup.client import Place, look_up

from .conftest import Write

LIBRARY = {
    "mylib/__init__.py": "from .layers import *\nfrom .layers import Block as Renamed\nfrom . import layers as parts\n",
    "mylib/base.py": "import torch.nn as nn\n\nclass Base(nn.Module): ...\n",
    "mylib/layers.py": """
        import torch
        from torch import nn, Tensor
        from mylib.base import Base as B

        class Block(B): ...
        class Chain(nn.Sequential): ...
        class Plain: ...
        class _Hidden(B): ...
        class Strange(make()): ...
        class Lost(absent.Thing, B): ...
        class Generic(B[int]): ...

        Alias = Block
        MODEL = Block()
        SIZES = [1, 2]

        def build(): return Block()
        def build_on(device):
            net = Block()
            net.name = "n"
            return net.to(device)
        def indirect(): return build()
        def tensor() -> torch.Tensor: ...
        def noise(n): return torch.randn(n)
        def either(flag):
            if flag:
                return Block()
            return Chain()
        def same(flag):
            net = Block()
            if flag:
                net = Block()
            return net
        def trained(): return Plain().train()
        def loop(): return pool()
        def pool(): return loop()

        @torch.no_grad()
        def evaluate(model): ...
        @torch.inference_mode
        def infer(model): ...
        @torch.inference_mode(False)
        def normal(model): ...
        @torch.set_grad_enabled(False)
        def frozen(model): ...
    """,
}


@pytest.fixture
def place(write: Write) -> Place:
    return write(LIBRARY)


def ask(place: Place, name: str) -> Answer:
    return look_up(place, [name], 5.0)[name]


@pytest.mark.parametrize(
    ("name", "full_name"),
    [
        ("mylib.layers.Block", "mylib.layers.Block"),
        (".mylib.layers.Block", "mylib.layers.Block"),
        ("mylib.Block", "mylib.layers.Block"),
        ("mylib.Renamed", "mylib.layers.Block"),
        ("mylib.parts.Block", "mylib.layers.Block"),
        ("mylib.layers.Alias", "mylib.layers.Block"),
    ],
)
def test_the_same_class_by_many_ways(place: Place, name: str, full_name: str) -> None:
    assert ask(place, name) == Answer("class", full_name, ("mylib.base.Base", MODULE))
    assert ask(place, name).is_module


def test_torch_classes_between(place: Place) -> None:
    chain = ask(place, "mylib.layers.Chain")
    assert chain.bases == ("torch.nn.modules.container.Sequential", MODULE)


def test_no_module(place: Place) -> None:
    assert ask(place, "mylib.layers.Plain") == Answer("class", "mylib.layers.Plain")


def test_generic_base(place: Place) -> None:
    assert ask(place, "mylib.layers.Generic").is_module


def test_star_import_leaves_private_names_out(place: Place) -> None:
    assert ask(place, "mylib._Hidden").kind == "unknown"
    assert ask(place, "mylib.layers._Hidden").kind == "class"


@pytest.mark.parametrize("name", ["Strange", "Lost"])
def test_a_base_that_was_not_found_leaves_the_answer_incomplete(place: Place, name: str) -> None:
    assert not ask(place, f"mylib.layers.{name}").complete
    assert ask(place, "mylib.layers.Lost").is_module


def test_modules_and_values(place: Place) -> None:
    assert ask(place, "mylib.layers") == Answer("module", "mylib.layers")
    assert ask(place, "mylib.layers.SIZES") == Answer("instance", "mylib.layers.SIZES")
    model = ask(place, "mylib.layers.MODEL")
    assert (model.kind, model.returns, model.is_module) == ("instance", "mylib.layers.Block", True)


@pytest.mark.parametrize(
    ("name", "returns", "is_module"),
    [
        ("build", "mylib.layers.Block", True),
        ("build_on", "mylib.layers.Block", True),
        ("indirect", "mylib.layers.Block", True),
        ("tensor", "torch.Tensor", False),
        ("noise", "torch.Tensor", False),
        ("either", None, False),
        ("same", "mylib.layers.Block", True),
        ("trained", None, False),
        ("loop", None, False),
    ],
)
def test_functions_return(place: Place, name: str, returns: str | None, is_module: bool) -> None:
    answer = ask(place, f"mylib.layers.{name}")
    assert (answer.kind, answer.returns, answer.is_module) == ("function", returns, is_module)


@pytest.mark.parametrize(("name", "off"), [("evaluate", True), ("infer", True), ("normal", False), ("frozen", True)])
def test_grad_mode_of_functions(place: Place, name: str, off: bool) -> None:
    answer = ask(place, f"mylib.layers.{name}")
    assert answer.no_grad is off
    assert answer.decorators[0].startswith("torch.")


def test_a_name_of_torch_that_is_passed_on(place: Place) -> None:
    assert ask(place, "mylib.Tensor") == Answer("unknown", "torch.Tensor")


@pytest.mark.parametrize(
    "name", ["absent.Thing", "", ".", "a..b", "mylib.", "json.JSONDecoder", "mylib.layers.nothing"]
)
def test_unknown(place: Place, name: str) -> None:
    assert ask(place, name).kind == "unknown"


def test_without_torch_its_names_are_still_known(place: Place) -> None:
    bare = Place(place.path, place.root)
    assert ask(bare, "mylib.layers.Block").bases == ("mylib.base.Base", MODULE)


def test_relative_imports_within_packages(write: Write) -> None:
    place = write(
        {
            "pkg/__init__.py": "",
            "pkg/deep/__init__.py": "",
            "pkg/deep/train.py": "",
            "pkg/models.py": "from torch.nn import Module\nclass Net(Module): ...\n",
            "pkg/deep/utils.py": "from ..models import Net\n",
        }
    )
    place = Place(place.root / "pkg/deep/train.py", place.root, place.interpreter_paths)
    assert ask(place, "..models.Net").full_name == "pkg.models.Net"
    assert ask(place, ".utils.Net").bases == (MODULE,)
    assert ask(place, "..models").kind == "module"
    assert ask(place, "....models.Net").kind == "unknown"


def test_siblings_of_a_script_within_a_package(write: Write) -> None:
    place = write({"pkg/__init__.py": "", "pkg/models.py": "class Net: ...\n"})
    script = Place(place.root / "pkg/train.py", place.root, place.interpreter_paths)
    assert ask(script, "models.Net").kind == "class"


def test_a_data_folder_does_not_hide_an_installed_package(write: Write) -> None:
    place = write({"torch/data.bin": ""})
    assert ask(place, "torch.nn.Sequential").bases == (MODULE,)


def test_project_files_of_standard_names(write: Write) -> None:
    place = write({"queue.py": "class Net: ...\n"})
    assert ask(place, "queue.Net").kind == "class"


def test_a_function_named_as_its_module(write: Write) -> None:
    place = write(
        {
            "pkg/__init__.py": "from pkg.build import build, Net\n",
            "pkg/build.py": "class Net: ...\ndef build(): return Net()\n",
            "pkg/more.py": "from .build import *\n",
        }
    )
    assert ask(place, "pkg.build.Net").kind == "class"
    assert ask(place, "pkg.more.Net").kind == "class"
    assert ask(place, "pkg.build").returns == "pkg.build.Net"


def test_cycles_end(write: Write) -> None:
    place = write(
        {
            "a.py": "from b import *\nclass A(B): ...\nX = Y\n",
            "b.py": "from a import *\nclass B(A): ...\nY = X\n",
        }
    )
    assert ask(place, "a.A").bases == ("b.B", "a.A")
    assert ask(place, "a.X").kind == "unknown"
    assert ask(place, "a.nowhere").kind == "unknown"


def test_type_checking_and_fallback_imports(write: Write) -> None:
    place = write(
        {
            "lib.py": """
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                from models import Net
            try:
                from absent import Other
            except ImportError:
                Other = None
        """,
            "models.py": "class Net: ...\n",
        }
    )
    assert ask(place, "lib.Net").full_name == "models.Net"
    assert ask(place, "lib.Other") == Answer("unknown", "absent.Other")


def test_a_changed_file_is_read_again(write: Write) -> None:
    place = write({"models.py": "class Net: ...\n"})
    assert not ask(place, "models.Net").is_module
    write({"models.py": "import torch.nn as nn\nclass Net(nn.Module): ...\n"})
    assert ask(place, "models.Net").is_module


def test_broken_files(write: Write, tmp_path: Path) -> None:
    place = write({"broken.py": "def (", "models.py": "from broken import Base\nclass Net(Base): ...\n"})
    (place.root / "binary.py").write_bytes(b"\0\xff" * 100)
    (place.root / "huge.py").write_bytes(b"x = 1\n" * 500_000)
    answers = look_up(place, ["broken.Net", "binary.Net", "huge.x", "models.Net"], 5.0)
    assert [answer.kind for answer in answers.values()] == ["unknown", "unknown", "unknown", "class"]
    assert not answers["models.Net"].complete


def test_editable_installations_are_followed(write: Write, tmp_path: Path) -> None:
    place = write({})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/editable.py").write_text("class Net: ...\n")
    (tmp_path / "site-packages/links.pth").write_text(f"import os; os._exit(7)\n{tmp_path / 'elsewhere'}\n")
    assert ask(place, "editable.Net").kind == "class"


def test_no_time_no_answers(place: Place) -> None:
    assert look_up(place, ["mylib.Block"], timeout=-1.0) == {}


def test_nothing_is_imported(place: Place) -> None:
    before = set(sys.modules)
    ask(place, "mylib.layers.Block")
    assert not {"mylib", "torch.nn"} & (set(sys.modules) - before)
