"""Rule DG513: a list that every forward makes longer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Sequence
from drygrad.static.loops import is_guarded
from drygrad.static.tree import walk

_SHORTENS = frozenset({"clear", "pop", "popleft", "remove"})


class KeptByForward(Rule):
    """
    ## What it does
    Finds `self.maps.append(tensor)` in the `forward` of an `nn.Module`, if nothing in the file clears the list.

    ## Why is this bad?
    The module keeps a tensor from every call, with its graph: all activations of all steps, until memory runs out.
    Under `no_grad` it keeps only the tensor, which may be enough. If the class reads the list, for example to collect
    calibration data, this is an info.

    ## Example
    ```python
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.scores = nn.Linear(8, 8)
            self.maps = []

        def forward(self, x):
            weights = self.scores(x).softmax(-1)
            self.maps.append(weights)
            return weights
    ```
    Use instead:
    ```python
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.scores = nn.Linear(8, 8)

        def forward(self, x):
            weights = self.scores(x).softmax(-1)
            self.last_map = weights.detach()
            return weights
    ```

    ## Fix safety
    No fix: the code does not say when to clear the list.
    """

    code, name, since = "DG513", "kept-by-forward", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(4, 4)
                    self.maps, self.seen, self.numbers = [], [], []

                def reset(self):
                    self.maps.clear()

                def forward(self, x, store=False):
                    y = self.fc(x)
                    self.maps.append(y)
                    self.numbers.append(y.shape)
                    if store:
                        self.seen.append(y)
                    return y
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Observer(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inputs = []

                @torch.no_grad()
                def forward(self, x: torch.Tensor):
                    self.inputs.append(x.cpu())
                    return x

                def scale(self):
                    return torch.cat(self.inputs).abs().amax(dim=0)
            """,
            severity="info",
        ),
        Invalid(
            """
            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(4, 4)
                    self.maps = []

                def forward(self, x):
                    y = self.fc(x).softmax(-1)
                    self.maps.append(y.detach())
                    return y
            """,
            at=(9, 8, 9, 36),
        ),
    ]

    def visit_append(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute() as owner, attr="append"), args=[item], keywords=[]):
                text = dotted_text(owner)
            case _:
                return
        function = ctx.function(node)
        cls = ctx.parent(function) if function is not None else None
        if function is None or function.name != "forward" or not isinstance(cls, ast.ClassDef) or text is None:
            return
        if not text.startswith("self.") or not ctx.is_module_class(cls) or is_guarded(node, function, ctx):
            return
        if ctx.tensor(item) is None or not _begins_as_list(owner, cls, ctx) or _is_emptied(owner.attr, ctx):
            return
        message = f"every forward appends to {text} and nothing clears it; all these tensors stay in memory"
        gathered = ctx.grad_enabled(ctx.statement(node)) is False and _is_gathered(owner, node, cls)
        yield ctx.finding(self, node, message, severity="info" if gathered else None)


def _begins_as_list(owner: ast.Attribute, cls: ast.ClassDef, ctx: Context) -> bool:
    value = ctx.value(owner)
    if isinstance(value, Sequence):
        return value.kind == "list"
    made = (n for n in walk(cls) if isinstance(n, ast.Assign) and isinstance(n.value, ast.List))
    return any(dotted_text(n.targets[0]) == f"self.{owner.attr}" for n in made)


def _is_emptied(attribute: str, ctx: Context) -> bool:
    """Say whether anything in the file shortens a list of this name, or begins it anew outside an ``__init__``."""
    for node in ctx.nodes(ast.Attribute):
        if node.attr != attribute:
            continue
        parent, function = ctx.parent(node), ctx.function(node)
        outside = function is None or function.name != "__init__"
        if isinstance(node.ctx, (ast.Store, ast.Del)) and outside and not isinstance(parent, ast.AugAssign):
            return True
        if isinstance(parent, ast.Attribute) and parent.attr in _SHORTENS:
            return True
        if isinstance(ctx.parent(parent) if isinstance(parent, ast.Subscript) else parent, ast.Delete):
            return True
    return False


def _is_gathered(owner: ast.Attribute, append: ast.Call, cls: ast.ClassDef) -> bool:
    """Say whether the class itself reads the list elsewhere: it may be there to gather what a few passes give."""
    reads = (n for n in walk(cls) if isinstance(n, ast.Attribute) and n.attr == owner.attr and n is not owner)
    return any(isinstance(n.ctx, ast.Load) and not _stands_in(n, append) for n in reads)


def _stands_in(node: ast.AST, whole: ast.AST) -> bool:
    return any(inner is node for inner in walk(whole))
