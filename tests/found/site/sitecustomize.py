"""Declare the operators that torchvision's import names, where its compiled half was built for another torch.

PyPI's torchvision does not load beside a CPU build of torch. No proof runs these operators.
"""

import importlib
import importlib.util
import sys

import torch

if importlib.util.find_spec("torchvision"):
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(  # pyright: ignore[reportUnknownMemberType]
                f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
        for half in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[half]
