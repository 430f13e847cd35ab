"""Rule DG807: augmentation of the samples that a model is evaluated on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant
from drygrad.static.rules.api.transforms import random_step, resolved, transform_name
from drygrad.static.syntax import argument

_EVALUATION = re.compile(
    r"^_?(val|valid|validation|test|eval|evaluation|inference|dev)(_|$|\d)|_(val|valid|test|eval)$", re.I
)
_TRAINING = re.compile(r"train|tta|aug", re.I)
_TRANSFORM = re.compile(r"transform|tf|tfm|trans|preprocess|compose", re.I)
_SPLIT = frozenset(
    {"torch.utils.data.random_split", "torch.utils.data.dataset.random_split", "torch.utils.data.Subset"}
)


class RandomTransformInEvaluation(Rule):
    """
    ## What it does
    Finds random transforms (`RandomHorizontalFlip`, `RandomCrop`, `ColorJitter` ...) in a transform named
    `test_transform`, `val_tf` and the like, in one passed to a dataset with `train=False` or `split="test"`, and in
    that of a dataset from which `random_split` also takes the validation set.

    ## Why is this bad?
    The model is evaluated on randomly distorted samples: the metric is too low, differs from epoch to epoch, and
    selects the wrong checkpoint. The parts of `random_split` share one dataset and therefore its transform: give each
    part its own dataset, over the same files, with its own transform.

    ## Example
    ```python
    from torchvision import transforms

    test_transform = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    ```
    Use instead:
    ```python
    from torchvision import transforms

    test_transform = transforms.Compose([transforms.ToTensor()])
    ```
    """

    code, name, since = "DG807", "random-transform-in-evaluation", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            import torch
            from torchvision import datasets, transforms as T

            train_transform = T.Compose([T.RandomCrop(28), T.RandomHorizontalFlip(), T.ToTensor()])
            test_transform = T.Compose([T.CenterCrop(28), T.ToTensor()])
            train = datasets.CIFAR10("data", train=True, transform=train_transform)
            test = datasets.CIFAR10("data", train=False, transform=test_transform)
            tta_transform = T.Compose([T.RandomHorizontalFlip(), T.ToTensor()])
            """
        ),
        Valid(
            """
            import torch
            from torch.utils.data import random_split
            from torchvision import datasets, transforms as T

            plain = T.Compose([T.Resize(28), T.ToTensor()])
            train, val = random_split(datasets.ImageFolder("data", transform=plain), [0.9, 0.1])
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            from torchvision import transforms

            val_tf = transforms.Compose([
                transforms.RandomResizedCrop(224),
                transforms.ToTensor(),
            ])
            """,
            at=(5, 4, 5, 37),
        ),
        Invalid(
            """
            import torch
            from torchvision import datasets, transforms as T

            augment = T.Compose([T.RandomCrop(28, padding=4), T.ToTensor()])
            train = datasets.CIFAR10("data", train=True, transform=augment)
            test = datasets.CIFAR10("data", train=False, transform=augment)
            """,
            at=(6, 55, 6, 62),
        ),
        Invalid(
            """
            import torch
            from torch.utils.data import DataLoader, random_split
            from torchvision import datasets, transforms as T

            augment = T.Compose([T.RandomHorizontalFlip(), T.ToTensor()])
            full = datasets.ImageFolder("data", transform=augment)
            train_set, val_set = random_split(full, [800, 200])
            loader = DataLoader(val_set, batch_size=8)
            """,
            at=(7, 21, 7, 51),
        ),
        Invalid(
            """
            import torch
            from torchvision import transforms as T

            data_transforms = {
                "train": T.Compose([T.RandomRotation(10), T.ToTensor()]),
                "val": T.Compose([T.RandomRotation(10), T.ToTensor()]),
            }
            """,
            at=(6, 22, 6, 42),
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        name = dotted_text(node.targets[0]) if len(node.targets) == 1 else None
        last = (name or "").rpartition(".")[2]
        if _is_evaluation(last) and _TRANSFORM.search(last) and transform_name(node.value, ctx) == "Compose":
            yield from self._found(random_step(node.value, ctx), ctx, f"{last} is used for evaluation")

    def visit_dict(self, node: ast.Dict, ctx: Context) -> Iterator[Finding]:
        for key, value in zip(node.keys, node.values, strict=True):
            name = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
            if _is_evaluation(name) and transform_name(value, ctx) == "Compose":
                yield from self._found(random_step(value, ctx), ctx, f"{name!r} is used for evaluation")

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if ctx.name(node.func) in _SPLIT:
            yield from self._split(node, ctx)
            return
        transform = argument(node, "transform")
        train, split = argument(node, "train"), argument(node, "split")
        evaluates = train is not None and ctx.value(train) == Constant(False)
        if split is not None and isinstance(split, ast.Constant):
            evaluates = evaluates or (isinstance(split.value, str) and _is_evaluation(split.value))
        if transform is None or not evaluates or transform_name(transform, ctx) is not None:
            return
        step = random_step(transform, ctx)
        if step is not None:
            yield ctx.finding(self, transform, _MESSAGE, related=[("random numbers are drawn here", step)])

    def _split(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        statement = ctx.parent(node)
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=parts)]):
                names = [dotted_text(part) or "" for part in parts]
            case ast.Assign(targets=[target]):
                names = [dotted_text(target) or ""]
            case _:
                return
        if not any(_is_evaluation(name.rpartition(".")[2]) for name in names):
            return
        made = resolved(node.args[0], ctx) if node.args else None
        transform = argument(made, "transform") if isinstance(made, ast.Call) else None
        step = random_step(transform, ctx) if transform is not None else None
        if step is not None:
            message = "both splits share one dataset and its random transform; the evaluation data is augmented too"
            yield ctx.finding(self, node, message, related=[("random numbers are drawn here", step)])

    def _found(self, step: ast.expr | None, ctx: Context, why: str) -> Iterator[Finding]:
        if step is not None:
            yield ctx.finding(self, step, f"{why}, but this transform is random; the metric varies between runs")


_MESSAGE = "the evaluation data is augmented at random; the metric varies between runs"


def _is_evaluation(name: str) -> bool:
    return _EVALUATION.search(name) is not None and _TRAINING.search(name) is None
