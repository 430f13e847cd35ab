"""Rule DG804: a transform that is set for one part of a split, and so for all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.syntax import body_nodes, follows, scope_of

_SPLIT = ("torch.utils.data.random_split", "torch.utils.data.dataset.random_split")


class SplitSharesDataset(Rule):
    """
    ## What it does
    Finds `part.dataset.transform = ...` on a part returned by `random_split`.

    ## Why is this bad?
    The parts are lists of indices into the same dataset. A transform set for the validation part also applies to the
    training part: either training loses its augmentation, or the validation images are augmented. Nothing raises.

    ## Example
    ```python
    train, valid = random_split(dataset, [900, 100])
    valid.dataset.transform = plain
    ```
    Use instead:
    ```python
    train, valid = random_split(range(1000), [900, 100])
    train = Subset(Images(transform=augmented), train.indices)
    valid = Subset(Images(transform=plain), valid.indices)
    ```
    """

    code, name, since = "DG804", "split-shares-dataset", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            import copy
            from torch.utils.data import random_split

            def parts(dataset, plain):
                train, valid = random_split(dataset, [900, 100])
                valid.dataset = copy.copy(dataset)
                valid.dataset.transform = plain
                return train, valid
            """
        ),
        Valid("def f(part, plain):\n    part.dataset.transform = plain"),
    ]
    INVALID = [
        Invalid(
            """
            from torch.utils.data import random_split

            def parts(dataset, augmented, plain):
                train, valid = random_split(dataset, [900, 100])
                train.dataset.transform = augmented
                valid.dataset.transform = plain
                return train, valid
            """,
            at=(5, 4, 5, 27),
            count=2,
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        match node.targets:
            case [ast.Attribute(value=ast.Attribute(value=part, attr="dataset"), attr=attribute) as target]:
                name = dotted_text(part)
            case _:
                return
        made = _split_of(name, node, ctx) if name is not None else None
        if made is None:
            return
        message = f"both splits share one dataset; the other split's {attribute} is set too"
        yield ctx.finding(self, target, message, related=[("the splits are created here", made)])


def _split_of(name: str, node: ast.Assign, ctx: Context) -> ast.Assign | None:
    """Return the statement that made a part and another one of the same dataset; None where it got one of its own."""
    found: ast.Assign | None = None
    for statement in body_nodes(scope_of(node, ctx)):
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Call(func=function)) if ctx.name(
                function
            ) in _SPLIT and name in map(dotted_text, parts):
                found = statement if len(parts) > 1 else None
            case ast.Assign(targets=[ast.Attribute() as target]) if dotted_text(
                target
            ) == f"{name}.dataset" and follows(node, statement):
                return None
            case _:
                pass
    return found
