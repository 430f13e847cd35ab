"""Rule DG808: image and mask that go through a random transform one after the other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.rules.api.transforms import random_step, resolved
from drygrad.static.syntax import body_nodes, called
from drygrad.static.tree import walk

_PAIRED = re.compile(
    r"(^|_)(masks?|labels?|targets?|gt|seg|segmentation|annotation|depth|heatmap|hr|clean)(_|$|\d)", re.I
)
_SEEDS = frozenset({"manual_seed", "seed", "set_rng_state", "setstate", "get_rng_state", "getstate"})


class TransformDrawsAnew(Rule):
    """
    ## What it does
    Finds a `__getitem__` that applies the same random transform to an image and its mask (label map, depth map, target
    image) in two separate calls.

    ## Why is this bad?
    Each call draws its own random numbers: the image is flipped but its mask is not, or the crops show different
    regions. The labels become noise, and the model cannot learn. Pass both to one call (`torchvision.transforms.v2`
    accepts several inputs), or reuse the same parameters.

    ## Example
    ```python
    class Cells(Dataset):
        def __init__(self, images, masks):
            self.images, self.masks = images, masks
            self.augment = transforms.RandomHorizontalFlip()

        def __getitem__(self, index):
            image, mask = self.images[index], self.masks[index]
            return self.augment(image), self.augment(mask)
    ```
    Use instead:
    ```python
    class Cells(Dataset):
        def __init__(self, images, masks):
            self.images, self.masks = images, masks
            self.augment = v2.RandomHorizontalFlip()

        def __getitem__(self, index):
            return self.augment(self.images[index], self.masks[index])
    ```
    """

    code, name, since = "DG808", "transform-draws-anew", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            import torch
            from torchvision import transforms as T

            class Views(torch.utils.data.Dataset):
                def __init__(self, images):
                    self.images = images
                    self.augment = T.Compose([T.RandomCrop(8), T.RandomHorizontalFlip()])
                    self.resize = T.Compose([T.Resize(8), T.ToTensor()])

                def __len__(self):
                    return len(self.images)

                def __getitem__(self, i):
                    image, mask = self.images[i]
                    return self.augment(image), self.augment(image), self.resize(image), self.resize(mask)
            """
        ),
        Valid(
            """
            import torch
            from torchvision import transforms as T

            class Cells(torch.utils.data.Dataset):
                def __init__(self, images, masks):
                    self.images, self.masks = images, masks
                    self.augment = T.RandomCrop(8)

                def __getitem__(self, i):
                    torch.manual_seed(i)
                    image = self.augment(self.images[i])
                    torch.manual_seed(i)
                    return image, self.augment(self.masks[i])
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            from torchvision import transforms as T

            class Cells(torch.utils.data.Dataset):
                def __init__(self, images, masks):
                    self.images, self.masks = images, masks
                    self.augment = T.Compose([T.RandomHorizontalFlip(), T.RandomRotation(20)])

                def __len__(self):
                    return len(self.images)

                def __getitem__(self, i):
                    image = self.augment(self.images[i])
                    mask = self.augment(self.masks[i])
                    return image, mask
            """,
            at=(14, 15, 14, 42),
        ),
    ]

    def visit_function(self, node: ast.FunctionDef, ctx: Context) -> Iterator[Finding]:
        if node.name != "__getitem__" or any(isinstance(n, ast.Call) and called(n) in _SEEDS for n in body_nodes(node)):
            return
        calls = [n for n in body_nodes(node) if isinstance(n, ast.Call) and len(n.args) == 1 and not n.keywords]
        first: dict[str, ast.Call] = {}
        for call in sorted(calls, key=lambda c: (c.lineno, c.col_offset)):
            name = dotted_text(call.func)
            if name is None or (random := self._random(call, ctx)) is None:
                continue
            before = first.setdefault(name, call)
            if before is not call and _is_paired(call, ctx) and not _is_paired(before, ctx):
                related = [("the image goes through it here", before), ("random numbers are drawn here", random)]
                message = "the transform draws new random numbers here; image and target no longer match"
                yield ctx.finding(self, call, message, related=related)

    def _random(self, call: ast.Call, ctx: Context) -> ast.expr | None:
        made = resolved(call.func, ctx)
        return random_step(made, ctx) if made is not None and made is not call.func else None


def _is_paired(call: ast.Call, ctx: Context) -> bool:
    """Say whether a call is given a mask, or its result is called one."""
    statement = ctx.parent(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = [
        n.id if isinstance(n, ast.Name) else n.attr
        for part in (*call.args, *targets)
        for n in walk(part)
        if isinstance(n, (ast.Name, ast.Attribute))
    ]
    return any(_PAIRED.search(name) for name in names)
