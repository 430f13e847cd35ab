"""Data that is not on this machine: something of the same shapes and types stands in for it, and is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worker_client import WorkerClient, plan

pytestmark = pytest.mark.slow  # each is a program

VISION = """\
import os

class VisionDataset:
    def __init__(self, root, transform=None, target_transform=None):
        self.root, self.transform, self.target_transform = root, transform, target_transform

class StandardTransform:
    def __init__(self, transform=None, target_transform=None):
        pass
"""
SETS = """\
import os
from torchvision.datasets.vision import VisionDataset

class Sized(VisionDataset):
    def __len__(self):
        return len(self.data)

class MNIST(Sized):
    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        super().__init__(root, transform, target_transform)
        self.train = train
        if self.root == "broken":
            raise RuntimeError("the file ends too early")
        raise RuntimeError("Dataset not found. You can use download=True to download it")

class CIFAR10(Sized):
    base_folder = "cifar-10-batches-py"

    def __init__(self, root, train=True):
        super().__init__(root)
        self.train = train
        raise RuntimeError("Dataset not found or corrupted. You can use download=True to download it")

class CIFAR100(CIFAR10):
    base_folder = "cifar-100-python"

class VOCSegmentation(VisionDataset):
    def __init__(self, root, image_set="train"):
        super().__init__(root)
        self.image_set, self.transforms = image_set, None
        raise RuntimeError("Dataset not found or corrupted. You can use download=True to download it")

    def __len__(self):
        return len(self.images)

class CocoDetection(VisionDataset):
    def __init__(self, root, annFile):
        super().__init__(root)
        from pycocotools.coco import COCO
        self.coco = COCO(annFile)
        self.ids = sorted(self.coco.imgs)

    def __getitem__(self, index):
        number = self.ids[index]
        return self._load_image(number), [o for o in self.coco.dataset["annotations"] if o["image_id"] == number]

    def __len__(self):
        return len(self.ids)

class ImageFolder(VisionDataset):
    def __init__(self, root, transform=None, target_transform=None):
        super().__init__(root, transform, target_transform)
        os.scandir(root)
        raise FileNotFoundError(f"Couldn't find any class folder in {root}.")
"""
COCO = """\
class COCO:
    def __init__(self, file=None):
        if file is not None:
            open(file)

    def createIndex(self):
        self.imgs = {image["id"]: image for image in self.dataset["images"]}
"""
PICTURES = """\
class Image:
    def __init__(self, pixels):
        self.size = lambda: (pixels.shape[1], pixels.shape[0])

fromarray = Image
"""
CONFIGURATIONS = """\
class PreTrainedConfig:
    @classmethod
    def get_config_dict(cls, name, **named):
        raise OSError("We couldn't connect to 'https://huggingface.co' to load the files")

class Config:
    num_hidden_layers, hidden_size = 12, 768

class AutoConfig:
    def for_model(found):
        return Config()

CONFIG_MAPPING_NAMES = {"bert": "Config"}
"""
EVALUATE = """\
def load(path, name=None):
    raise FileNotFoundError(f"Module '{path}' doesn't exist on the Hugging Face Hub either.")
"""


def installed(folder: Path, **modules: str) -> str:
    """Write packages of which only the text matters here; return the statements that make them importable."""
    for name, text in modules.items():
        path = folder / "installed" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return f"import sys\nsys.path.insert(0, {str(folder / 'installed')!r})\n"


def images(folder: Path, program: str) -> str:
    there = installed(folder, torchvision__datasets__vision=VISION, torchvision__datasets__sets="")
    (folder / "installed" / "torchvision" / "datasets" / "__init__.py").write_text(SETS)
    return f"{there}from torchvision import datasets\n{program}"


def notes(result: dict[str, Any]) -> list[str]:
    return [note for note in result["notes"] if note.startswith("not on this machine")]


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        ("datasets.MNIST('data', train=False)", "(10000, torch.Size([10000, 28, 28]), torch.uint8, 0, 9)"),
        ("datasets.CIFAR10('data')", "(50000, (50000, 32, 32, 3), dtype('uint8'), 0, 9)"),
        ("datasets.CIFAR100('data')", "(50000, (50000, 32, 32, 3), dtype('uint8'), 0, 99)"),
    ],
)
def test_an_image_set_has_its_own_shapes_and_classes(
    worker: WorkerClient, tmp_path: Path, made: str, shape: str
) -> None:
    program = f"import torch\ns = {made}\nl = [int(t) for t in s.targets]\n"
    program += "print((len(s), s.data.shape, s.data.dtype, min(l), max(l)))\n"
    result = worker.run(plan(tmp_path, images(tmp_path, program)))
    assert (result["outcome"], result["output"]["text"]) == ("passed", shape + "\n"), result["faults"]
    assert len(notes(result)) == 1


def test_a_set_that_fails_for_another_reason_fails(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, images(tmp_path, "datasets.MNIST('broken')\n")))
    assert result["outcome"] == "failed"
    assert "ends too early" in result["error"]["message"]
    assert not notes(result)


def test_a_folder_of_images_that_is_there_is_the_programs_own(worker: WorkerClient, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = worker.run(plan(tmp_path, images(tmp_path, f"datasets.ImageFolder({str(tmp_path / 'empty')!r})\n")))
    assert (result["outcome"], notes(result)) == ("failed", [])
    program = "s = datasets.ImageFolder('/nowhere', transform=len)\n"
    program += "print(len(s.classes) == len(s.class_to_idx), s.transform)\n"
    result = worker.run(plan(tmp_path, images(tmp_path, program)))
    assert result["output"]["text"] == "True <built-in function len>\n", result["faults"]
    assert "/nowhere" in notes(result)[0]


def test_annotations_that_are_not_there_have_objects_of_all_categories(worker: WorkerClient, tmp_path: Path) -> None:
    installed(tmp_path, pycocotools__coco=COCO, PIL__Image=PICTURES)
    program = (
        "s = datasets.CocoDetection('/nowhere', '/nowhere/instances.json')\nimage, objects = s[3]\n"
        "kinds = {o['category_id'] for i in range(len(s)) for o in s[i][1]}\n"
        "print(image.size(), len(objects), len(objects[0]['segmentation'][0]), len(kinds), max(kinds))\n"
    )
    result = worker.run(plan(tmp_path, images(tmp_path, program)))
    assert result["output"]["text"] == "(640, 480) 2 8 80 90\n", (result["error"], result["notes"])
    assert "/nowhere/instances.json" in notes(result)[0]
    masks = (
        "s = datasets.VOCSegmentation('data', 'val')\nimage, mask = s[7]\nprint(len(s), image.size(), mask.size())\n"
    )
    result = worker.run(plan(tmp_path, images(tmp_path, masks)))
    assert result["output"]["text"] == "1449 (500, 375) (500, 375)\n", (result["error"], result["notes"])
    (tmp_path / "broken.json").touch()
    broken = f"datasets.CocoDetection('/nowhere', {str(tmp_path / 'broken.json')!r})\n"
    assert worker.run(plan(tmp_path, images(tmp_path, broken)))["outcome"] == "failed"


def test_what_the_program_draws_is_the_same_with_a_stand_in(worker: WorkerClient, tmp_path: Path) -> None:
    program = "import random, torch\nimport numpy as np\ntorch.manual_seed(0), random.seed(0), np.random.seed(0)\n"
    drawn = "print(torch.rand(1).item(), random.random(), np.random.rand())\n"
    with_set = worker.run(plan(tmp_path, images(tmp_path, f"{program}s = datasets.MNIST('data')\n{drawn}")))
    without = worker.run(plan(tmp_path, program + drawn))
    assert with_set["output"]["text"] == without["output"]["text"]


def test_a_fault_tells_what_stood_in(worker: WorkerClient, tmp_path: Path) -> None:
    program = "import torch\ns = datasets.MNIST('data')\ntorch.ones(3, 4) @ torch.ones(5, 2)\n"
    result = worker.run(plan(tmp_path, images(tmp_path, program)))
    assert [fault["facts"]["stood_in"] for fault in result["faults"]] == [{"name": "MNIST", "exact": True}]


def test_a_metric_that_cannot_be_downloaded_takes_predictions(worker: WorkerClient, tmp_path: Path) -> None:
    program = "import evaluate\nm = evaluate.load('glue', 'mrpc')\nm.add_batch(predictions=[1], references=[1])\n"
    text = installed(tmp_path, evaluate=EVALUATE) + program + "print(m.compute()['f1'])\n"
    result = worker.run(plan(tmp_path, text))
    assert (result["outcome"], result["output"]["text"]) == ("passed", "0.0\n"), result["faults"]
    assert notes(result) == ["not on this machine: the metric `glue`; stand-in: scores of 0"]


def test_a_pretrained_model_that_is_much_work_has_few_layers(worker: WorkerClient, tmp_path: Path) -> None:
    packages = installed(
        tmp_path,
        transformers__configuration_utils=CONFIGURATIONS,
        transformers__models__auto__configuration_auto="from transformers.configuration_utils import *\n",
    )
    (tmp_path / "installed" / "transformers" / "__init__.py").write_text(
        "from .configuration_utils import AutoConfig\n"
    )
    text = "from transformers.configuration_utils import PreTrainedConfig\n"
    text += "print(PreTrainedConfig.get_config_dict('bert-base-cased')[0])\n"
    result = worker.run(plan(tmp_path, packages + text))
    assert result["output"]["text"] == "{'model_type': 'bert', 'num_hidden_layers': 2}\n", result["faults"]
    assert notes(result)[0].endswith("stand-in: the usual sizes of Config with 2 layers")
    forecast = worker.run(plan(tmp_path, packages + text, forecast={"gpu": None}))
    assert forecast["output"]["text"] == "{'model_type': 'bert'}\n", forecast["faults"]
