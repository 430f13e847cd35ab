"""The image sets of torchvision that say what is where in an image: masks of Pascal VOC, annotations of COCO."""

from __future__ import annotations

import os
from typing import Any, cast

from drygrad.worker.standing_in.absence import library

COCO_IMAGES = 640
COCO_SIZE = (640, 480)
_COCO_CATEGORIES = tuple(i for i in range(1, 91) if i not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83))
"""The numbers of COCO's 80 categories, which leave some out."""
_VOC = {"train": 1464, "val": 1449, "trainval": 2913, "test": 210}
_VOC_SIZE = (500, 375)
_VOC_CLASSES, _VOC_BORDER = 21, 255


def voc(made: Any, _: Any) -> None:
    """Fill a ``VOCSegmentation``: images of its usual size, and a mask that has all classes, and borders."""
    names = [os.path.join(str(made.root), f"{number:06}") for number in range(_VOC[made.image_set])]
    made.images = [f"{name}.jpg" for name in names]
    made.targets = [f"{name}.png" for name in names]
    kind = cast("type[Any]", type(made))
    made.__class__ = type(kind.__name__, (kind,), {"__getitem__": _voc_pair, "__module__": kind.__module__})


def _voc_pair(made: Any, index: int) -> Any:
    np = library("numpy")
    width, height = _VOC_SIZE
    stripes = np.arange(width) * (_VOC_CLASSES + 1) // width
    stripes[stripes == _VOC_CLASSES] = _VOC_BORDER
    mask = library("PIL.Image").fromarray(np.tile(stripes.astype(np.uint8), (height, 1)))
    pair = _random_image(_VOC_SIZE), mask
    return pair if made.transforms is None else made.transforms(*pair)


def coco(made: Any, _: Any) -> None:
    """Fill a ``CocoDetection``: every image has two objects, and every category comes equally often."""
    images: list[dict[str, Any]] = []
    objects: list[dict[str, Any]] = []
    width, height = COCO_SIZE
    for number in range(1, COCO_IMAGES + 1):
        images.append({"id": number, "file_name": f"{number:012}.jpg", "width": width, "height": height})
        objects += [_coco_object(2 * number + each, number, 40 + 300 * each) for each in (0, 1)]
    categories = [{"id": i, "name": f"category {i}", "supercategory": ""} for i in _COCO_CATEGORIES]
    made.coco = library("pycocotools.coco").COCO()
    made.coco.dataset = {"images": images, "annotations": objects, "categories": categories}
    made.coco.createIndex()
    made.ids = [image["id"] for image in images]
    made._load_image = _coco_image


def _coco_image(_: int) -> Any:
    return _random_image(COCO_SIZE)


def _coco_object(number: int, image: int, left: int) -> dict[str, Any]:
    size = 160
    right, top, bottom = left + size, 100, 100 + size
    outline: list[float] = [left, top, right, top, right, bottom, left, bottom]
    category = _COCO_CATEGORIES[number % len(_COCO_CATEGORIES)]
    place = {"bbox": [left, top, size, size], "segmentation": [outline], "area": size * size, "iscrowd": 0}
    return {"id": number, "image_id": image, "category_id": category, **place}


def _random_image(size: tuple[int, int]) -> Any:
    """Return an image of random colours; the generators that the program seeds are left alone."""
    np = library("numpy")
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return library("PIL.Image").fromarray(pixels)
