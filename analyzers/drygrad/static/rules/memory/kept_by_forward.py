"""Rule DG513: a list that every forward makes longer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Function, Sequence
from drygrad.static.loops import is_guarded
from drygrad.static.syntax import called, nodes_within
from drygrad.static.tree import walk

_SHORTENS = frozenset({"clear", "pop", "popleft", "remove"})


class KeptByForward(Rule):
    """
    ## What it does
    Finds `self.maps.append(tensor)` in the `forward` of an `nn.Module`, and `maps.append(output)` in a forward hook of
    a file that trains, if nothing in the file clears the list or removes the hook.

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
        Valid(  # cleared in every step
            """
            maps = []
            model = nn.Linear(4, 2)
            model.register_forward_hook(lambda module, inputs, output: maps.append(output))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                maps.clear()
                optimizer.zero_grad()
                (F.cross_entropy(model(x), y) + maps[-1].abs().mean()).backward()
                optimizer.step()
            """
        ),
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
            maps = []

            def remember(module, inputs, output):
                maps.append(output)

            model = nn.Linear(4, 2)
            model.register_forward_hook(remember)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            """,
            at=(4, 4, 4, 23),
        ),
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

    def visit_hook(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """Find hooks that keep what a module returns, with its graph, in a file that trains."""
        match node:
            case ast.Call(func=ast.Attribute(attr="register_forward_hook"), args=[hook, *_]):
                function = ctx.value(hook)
            case _:
                return
        if not isinstance(function, Function) or len(function.node.args.args) < _OF_HOOK or not _trains(ctx):
            return
        result = function.node.args.args[-1].arg
        for call in nodes_within(function.node):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name() as kept, attr="append"), args=[item]):
                    name = kept.id
                case _:
                    continue
            if _is_part_of(item, result) and not is_guarded(call, function.node, ctx) and _only_grows(name, ctx):
                message = (
                    f"every forward appends to {name} and nothing clears it; the graphs of all steps stay in memory"
                )
                yield ctx.finding(self, call, message, related=[("the hook is registered here", node)])


_OF_HOOK = 3
"""The module, its arguments, its result."""


def _trains(ctx: Context) -> bool:
    removes = any(called(call) == "remove" for call in ctx.nodes(ast.Call))
    return not removes and any(called(call) == "backward" and ctx.loops(call) for call in ctx.nodes(ast.Call))


def _is_part_of(item: ast.expr, name: str) -> bool:
    while isinstance(item, ast.Subscript):
        item = item.value
    return isinstance(item, ast.Name) and item.id == name


def _only_grows(name: str, ctx: Context) -> bool:
    """Say whether a list is bound once, and no statement shortens it."""
    bound = 0
    for node in ctx.nodes(ast.Name):
        if node.id != name:
            continue
        parent = ctx.parent(node)
        bound += isinstance(node.ctx, ast.Store)
        changes = isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load)
        shortens = isinstance(parent, ast.Attribute) and parent.attr in _SHORTENS
        if isinstance(node.ctx, ast.Del) or changes or shortens:
            return False
    return bound == 1


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
