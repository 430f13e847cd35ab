"""The image sets of torchvision: the classes are its own, so that transforms and indexing work as they do there."""

from __future__ import annotations

import inspect
import os
from functools import wraps
from typing import Any, Callable

import torch

from drygrad.worker.run import Run
from drygrad.worker.standing_in import annotated_sets
from drygrad.worker.standing_in.absence import is_absent, library

_FOLDER_CLASSES, _FOLDER_IMAGES = 10, 64
"""How many classes a folder has that nobody can look into, and how many images a class."""
_FOLDER_SIZE = (320, 256)
_IMAGENET = {"train": 1281167, "val": 50000}
_EMNIST = {
    "byclass": (697932, 116323),
    "bymerge": (697932, 116323),
    "balanced": (112800, 18800),
    "letters": (124800, 20800),
    "digits": (240000, 40000),
    "mnist": (60000, 10000),
}
_SVHN = {"train": 73257, "test": 26032, "extra": 531131}
_STL10 = {"train": 5000, "test": 8000, "unlabeled": 100000, "train+unlabeled": 105000}
_STL10_LABELED = {"train": 5000, "test": 8000, "train+unlabeled": 5000}
_MADE_OF = {"ImageFolder": "root", "CocoDetection": "annFile"}
"""The arguments that name files of the program's own."""
_PATTERNS = 1000
"""So many images differ; a set repeats them, so that it is made at once."""

_tensor: Callable[[Any], Any] = torch.from_numpy  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def change(module: Any, run: Run) -> None:
    """Let the constructors of these sets go on without their files."""
    for name, fill in _FILLED.items():
        kind = getattr(module, name, None)
        if kind is not None:
            kind.__init__ = _standing_in(kind, fill, run)


def _standing_in(kind: Any, fill: Callable[..., None], run: Run) -> Callable[..., None]:
    construct = kind.__init__
    signature = inspect.signature(construct)

    @wraps(construct)
    def __init__(self: Any, *args: Any, **named: Any) -> None:
        try:
            construct(self, *args, **named)
        except (OSError, RuntimeError) as error:
            given = signature.bind(self, *args, **named).arguments
            if not is_absent(error) and not _is_missing_path(kind, given, error):
                raise
            fill(self, given)
            _tell(run, self, given)

    return __init__


def _is_missing_path(kind: Any, given: dict[str, Any], error: BaseException) -> bool:
    """Say whether a set has failed because the files of the program's own that it is made of are not here."""
    path = given.get(_MADE_OF.get(kind.__name__, ""))
    return path is not None and isinstance(error, FileNotFoundError) and not os.path.exists(path)


def _tell(run: Run, made: Any, given: dict[str, Any]) -> None:
    name = next(kind.__name__ for kind in type(made).__mro__ if kind.__module__.startswith("torchvision."))
    if name == "ImageFolder":
        what = f"random images of {_FOLDER_SIZE[0]} x {_FOLDER_SIZE[1]} in {_FOLDER_CLASSES} classes"
        run.stands_in(f"the images in {made.root}", what, exact=False)
    elif name in ("CocoDetection", "CocoCaptions"):
        what = f"{len(made):,} random images with objects of COCO's 80 categories"
        run.stands_in(f"the annotations in {given['annFile']}", what, exact=False)
    else:
        run.stands_in(name, f"{len(made):,} random images with its shapes and classes", exact=True)


def _pixels(count: int, *shape: int) -> Any:
    """Return random bytes; the generators that the program seeds are left alone."""
    np = library("numpy")
    few = np.random.default_rng(0).integers(0, 256, (min(count, _PATTERNS), *shape), dtype=np.uint8)
    return few[np.arange(count) % len(few)]


def _mnist(made: Any, _: Any) -> None:
    np = library("numpy")
    sizes, first, classes = (60000, 10000), 0, 10
    if type(made).__name__ == "EMNIST" or hasattr(made, "classes_split_dict"):
        sizes = _EMNIST[made.split]
        first = 1 if made.split == "letters" else 0
        classes = len(made.classes_split_dict[made.split]) - first
    count = sizes[0 if made.train else 1]
    made.data = _tensor(_pixels(count, 28, 28))
    made.targets = _tensor(np.arange(count) % classes + first)


def _cifar(made: Any, _: Any) -> None:
    count = 50000 if made.train else 10000
    classes = 100 if "cifar-100" in made.base_folder else 10
    made.data = _pixels(count, 32, 32, 3)
    made.targets = [i % classes for i in range(count)]
    made.classes = [f"class {i}" for i in range(classes)]
    made.class_to_idx = {name: i for i, name in enumerate(made.classes)}


def _svhn(made: Any, _: Any) -> None:
    np = library("numpy")
    count = _SVHN[made.split]
    made.data = _pixels(count, 3, 32, 32)
    made.labels = np.arange(count, dtype=np.int64) % 10


def _stl10(made: Any, _: Any) -> None:
    np = library("numpy")
    count, labeled = _STL10[made.split], _STL10_LABELED.get(made.split, 0)
    made.data = _pixels(count, 3, 96, 96)
    made.labels = np.where(np.arange(count) < labeled, np.arange(count) % 10, -1)
    made.classes = [f"class {i}" for i in range(10)]


def _image_folder(made: Any, given: dict[str, Any]) -> None:
    names = [f"class_{i}" for i in range(_FOLDER_CLASSES)]
    _foldered(made, names, _FOLDER_CLASSES * _FOLDER_IMAGES)
    _transforming(made, given)


def _imagenet(made: Any, given: dict[str, Any]) -> None:
    _foldered(made, [f"n{i:08}" for i in range(1000)], _IMAGENET[made.split])
    made.wnids, made.wnid_to_idx = made.classes, made.class_to_idx
    made.classes = [(f"class {i}",) for i in range(1000)]
    made.class_to_idx = {name: i for i, names in enumerate(made.classes) for name in names}
    _transforming(made, given.get("kwargs", {}))


def _foldered(made: Any, names: list[str], count: int) -> None:
    """Give a set of files what it would have found in its folder."""
    files = [(os.path.join(str(made.root), name, "image.jpg"), i) for i, name in enumerate(names)]
    made.classes, made.class_to_idx = names, {name: i for i, name in enumerate(names)}
    made.samples = made.imgs = [files[i % len(files)] for i in range(count)]
    made.targets = [i % len(files) for i in range(count)]
    made.extensions, made.loader = (".jpg",), _loaded


def _transforming(made: Any, given: dict[str, Any]) -> None:
    made.transform, made.target_transform = given.get("transform"), given.get("target_transform")
    made.transforms = library("torchvision.datasets.vision").StandardTransform(made.transform, made.target_transform)


def _loaded(_: str) -> Any:
    width, height = _FOLDER_SIZE
    return library("PIL.Image").frombytes("RGB", _FOLDER_SIZE, _pixels(1, height, width, 3).tobytes())


_FILLED: dict[str, Callable[..., None]] = {
    "MNIST": _mnist,
    "CIFAR10": _cifar,
    "SVHN": _svhn,
    "STL10": _stl10,
    "VOCSegmentation": annotated_sets.voc,
    "CocoDetection": annotated_sets.coco,
    "ImageFolder": _image_folder,
    "ImageNet": _imagenet,
}
"""Subclasses, such as CIFAR100 and FashionMNIST, are made by the constructors of these."""
