"""Rule DG715: layer replaced after the optimizer was made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.datasets import called_by
from drygrad.static.editing import moved
from drygrad.static.facts.values import Object
from drygrad.static.parameters import has_parameters
from drygrad.static.roles import is_optimizer_class
from drygrad.static.syntax import argument, block_of
from drygrad.static.tree import walk


class LayerReplacedAfterOptimizer(Rule):
    """
    ## What it does
    Finds layers of a model that are replaced after an optimizer has been given the model's parameters.

    ## Why is this bad?
    The optimizer holds the parameters of the old layer. Those of the new one get gradients and are never updated: the
    new head stays random, with no error. (Moving a model with `to(device)` is no problem: its parameters stay the same
    objects.)

    ## Example
    ```python
    optimizer = torch.optim.Adam(model.parameters())
    model.fc = nn.Linear(512, 10)
    ```
    Use instead:
    ```python
    model.fc = nn.Linear(512, 10)
    optimizer = torch.optim.Adam(model.parameters())
    ```

    ## Fix safety
    Unsafe: it changes which parameters are trained.
    """

    code, name, since = "DG715", "layer-replaced-after-optimizer", "0.1"
    severity = "warning"
    VALID = [
        Valid("model.fc = nn.Linear(512, 10)\noptimizer = torch.optim.Adam(model.parameters())"),
        Valid("optimizer = torch.optim.Adam(model.parameters())\nmodel.to(device)\nmodel.name = 'a'"),
        Valid(
            "optimizer = torch.optim.Adam(model.parameters())\nmodel.fc = nn.Linear(512, 10)\n"
            "optimizer.add_param_group({'params': model.fc.parameters()})"
        ),
        Valid(
            "optimizer = torch.optim.Adam(model.parameters())\nmodel.fc = nn.Linear(512, 10)\n"
            "optimizer = torch.optim.Adam(model.parameters())"
        ),
        Valid("optimizer = torch.optim.Adam(model.parameters())\nmodel.act = nn.ReLU()\nother.fc = nn.Linear(2, 2)"),
    ]
    INVALID = [
        Invalid(
            """
            def make_optimizer(model, lr):
                decay = [p for p in model.parameters() if p.ndim > 1]
                return torch.optim.SGD(decay, lr=lr)

            def finetune(classes):
                model = load()
                optimizer = make_optimizer(model, 0.1)
                model.fc = nn.Linear(model.fc.in_features, classes)
                return train(model, optimizer)
            """,
            """
            def make_optimizer(model, lr):
                decay = [p for p in model.parameters() if p.ndim > 1]
                return torch.optim.SGD(decay, lr=lr)

            def finetune(classes):
                model = load()
                model.fc = nn.Linear(model.fc.in_features, classes)
                optimizer = make_optimizer(model, 0.1)
                return train(model, optimizer)
            """,
            at=(7, 16, 7, 42),
        ),
        Invalid(
            "optimizer = torch.optim.Adam(model.parameters())\nmodel.fc = nn.Linear(512, 10)",
            "model.fc = nn.Linear(512, 10)\noptimizer = torch.optim.Adam(model.parameters())",
            at=(1, 12, 1, 48),
        ),
        Invalid(
            """
            import torch
            from torch import nn, optim
            from torchvision.models import resnet18

            def finetune(loader, classes):
                model = resnet18(weights="DEFAULT")
                optimizer = optim.SGD(params=model.parameters(), lr=0.01)
                model.classifier[6] = nn.Linear(4096, classes)
                for x, y in loader:
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(model(x), y).backward()
                    optimizer.step()
            """,
            """
            import torch
            from torch import nn, optim
            from torchvision.models import resnet18

            def finetune(loader, classes):
                model = resnet18(weights="DEFAULT")
                model.classifier[6] = nn.Linear(4096, classes)
                optimizer = optim.SGD(params=model.parameters(), lr=0.01)
                for x, y in loader:
                    optimizer.zero_grad()
                    nn.functional.cross_entropy(model(x), y).backward()
                    optimizer.step()
            """,
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        model = _optimized_model(ctx, node)
        optimizer = ctx.text(node.targets[0])
        if model is None or optimizer is None:
            return
        block = block_of(ctx, node)
        for later in block[block.index(node) + 1 :]:
            if _mentions(later, optimizer) and not _is_replacement(ctx, later, model):
                return
            if isinstance(later, ast.Assign) and _is_replacement(ctx, later, model):
                if any(_grows(rest, optimizer) for rest in block[block.index(later) + 1 :]):
                    return
                yield ctx.finding(
                    self,
                    node.value,
                    f"{optimizer} is made before a layer is replaced: it never updates the new one",
                    related=[("the layer is replaced here", later.targets[0])],
                    fixes=[self._fix(ctx, node, later)],
                )
                return

    def _fix(self, ctx: Context, node: ast.Assign, later: ast.Assign) -> Fix | None:
        return ctx.fix("Make the optimizer after the replacement", *moved(ctx, node, later, after=True))


def _optimized_model(ctx: Context, node: ast.Assign) -> str | None:
    """Return the model of ``optimizer = Adam(model.parameters())``."""
    value = node.value
    if not isinstance(value, ast.Call):
        return None
    if not is_optimizer_class(ctx.name(value.func) or ""):
        made = ctx.value(value)
        return _given_model(value, ctx) if isinstance(made, Object) and is_optimizer_class(made.type) else None
    given = argument(value, "params", 0)
    match given:
        case ast.Call(func=ast.Attribute(value=model, attr="parameters"), args=[]):
            return ctx.text(model)
        case _:
            return None


def _given_model(call: ast.Call, ctx: Context) -> str | None:
    """Return the model that is given to a function of the file which makes an optimizer of its parameters."""
    for function, parameters in called_by(call, ctx):
        for given, parameter in zip(call.args, parameters, strict=False):
            if any(_takes_parameters(node, parameter) for node in walk(function)):
                return ctx.text(given)
    return None


def _takes_parameters(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=model), attr="parameters" | "named_parameters"), args=[]):
            return model == name
        case _:
            return False


def _is_replacement(ctx: Context, node: ast.stmt, model: str) -> bool:
    """Say whether a statement assigns a layer with parameters to an attribute, or item, of the model."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    while isinstance(target, ast.Subscript):
        target = target.value
    value = ctx.value(node.value)
    return has_parameters(value, ctx) and (ctx.text(target) or "").startswith(model + ".")


def _mentions(node: ast.stmt, name: str) -> bool:
    return any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) == name for n in walk(node))


def _grows(node: ast.stmt, optimizer: str) -> bool:
    """Say whether an optimizer is made anew or given more parameters."""
    for child in walk(node):
        if isinstance(child, ast.Attribute) and child.attr in ("add_param_group", "param_groups"):
            return True
        if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == optimizer:
            return True
    return False
