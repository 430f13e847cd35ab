"""Rule DG715: layer replaced after the optimizer was made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.datasets import called_by
from drygrad.static.editing import inserted, moved
from drygrad.static.facts.values import Object
from drygrad.static.roles import is_optimizer_class, is_scheduler_class
from drygrad.static.rules.training.replacing import grows, replacement
from drygrad.static.syntax import argument, block_of
from drygrad.static.tree import walk


class LayerReplacedAfterOptimizer(Rule):
    """
    ## What it does
    Finds layers of a model that are replaced, by an assignment or `setattr`, after an optimizer got the model's
    parameters: directly, by a function called later, or by another method of the class whose `__init__` creates the
    optimizer.

    ## Why is this bad?
    The optimizer holds the parameters of the old layer. The new ones get gradients but are never updated: the new head
    stays random, without an error. (Moving a model with `to(device)` is fine: its parameters stay the same objects.)

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
        Valid(
            """
            class Scaled(nn.Module):
                def __init__(self, inner):
                    super().__init__()
                    self.inner = inner

                def forward(self, x):
                    return 2 * self.inner(x)

            def finetune(model):
                optimizer = torch.optim.Adam(model.parameters())
                for block in model.blocks:
                    setattr(block, "fc", Scaled(block.fc))
                setattr(model, "name", "scaled")
                return train(model, optimizer)
            """
        ),
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
        Valid(
            """
            model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
            optimizer = torch.optim.Adam(model.parameters())
            model[1] = nn.Sequential(nn.Dropout(), model[1])  # the old layer goes on in it
            """
        ),
        Valid(
            """
            class LanguageModel(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.embedding, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)

            model = LanguageModel()
            optimizer = torch.optim.Adam(model.parameters())
            model.head.weight = model.embedding.weight  # tied
            """
        ),
        Valid(
            """
            class Learner:
                def __init__(self, body):
                    self.net = nn.Sequential(body, nn.Linear(4, 2))
                    self.optimizer = torch.optim.Adam(self.net.parameters())

                def set_classes(self, classes):
                    self.net[1] = nn.Linear(4, classes)
                    self.optimizer = torch.optim.Adam(self.net.parameters())
            """
        ),
        Valid(
            """
            class Explainer(nn.Module):
                def set_masks(self):
                    self.mask = nn.Parameter(torch.zeros(3))

                def fit(self, model, x):
                    self.set_masks()
                    optimizer = torch.optim.Adam(self.parameters())
                    for _ in range(9):
                        try:
                            model(x * self.mask)
                        except RuntimeError:
                            self.set_masks()  # on a path that may never be taken
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Adapter(nn.Module):
                def __init__(self, inner, rank=4):
                    super().__init__()
                    self.inner = inner
                    self.down = nn.Parameter(torch.zeros(rank, inner.in_features))

                def forward(self, x):
                    return self.inner(x + x @ self.down.T @ self.down)

            def add_adapters(model):
                for block in model.blocks:
                    for name in ("query", "value"):
                        setattr(block, name, Adapter(getattr(block, name)))
                return model

            def finetune(model, lr):
                optimizer = torch.optim.Adam(model.parameters(), lr=lr)
                model = add_adapters(model)
                return train(model, optimizer)
            """,
            """
            class Adapter(nn.Module):
                def __init__(self, inner, rank=4):
                    super().__init__()
                    self.inner = inner
                    self.down = nn.Parameter(torch.zeros(rank, inner.in_features))

                def forward(self, x):
                    return self.inner(x + x @ self.down.T @ self.down)

            def add_adapters(model):
                for block in model.blocks:
                    for name in ("query", "value"):
                        setattr(block, name, Adapter(getattr(block, name)))
                return model

            def finetune(model, lr):
                model = add_adapters(model)
                optimizer = torch.optim.Adam(model.parameters(), lr=lr)
                return train(model, optimizer)
            """,
            at=(17, 16, 17, 59),
        ),
        Invalid(
            """
            class Tuner:
                def __init__(self, model, classes):
                    self.model = model
                    self.optimizer = torch.optim.Adam(self.model.parameters())
                    self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 9)
                    self.replace_head(classes)

                def replace_head(self, classes):
                    self.model.head = nn.Linear(self.model.head.in_features, classes)
            """,
            """
            class Tuner:
                def __init__(self, model, classes):
                    self.model = model
                    self.replace_head(classes)
                    self.optimizer = torch.optim.Adam(self.model.parameters())
                    self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 9)

                def replace_head(self, classes):
                    self.model.head = nn.Linear(self.model.head.in_features, classes)
            """,
            at=(4, 25, 4, 66),
        ),
        Invalid(
            """
            class Growing(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(4, 2)

                def grow(self, classes):
                    self.head = nn.Linear(4, classes)

            class Learner:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = self.make_optimizer()

                def make_optimizer(self):
                    return torch.optim.Adam(self.model.parameters())

                def begin_task(self, classes):
                    if classes > 2:
                        self.model.grow(classes)
            """,
            """
            class Growing(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(4, 2)

                def grow(self, classes):
                    self.head = nn.Linear(4, classes)

            class Learner:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = self.make_optimizer()

                def make_optimizer(self):
                    return torch.optim.Adam(self.model.parameters())

                def begin_task(self, classes):
                    if classes > 2:
                        self.model.grow(classes)
                        self.optimizer = self.make_optimizer()
            """,
            at=(19, 12, 19, 36),
        ),
        Invalid(
            """
            class Learner:
                def __init__(self, model, lr):
                    self.model = model
                    self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

                def set_classes(self, classes):
                    self.model.head = nn.Linear(8, classes)
            """,
            """
            class Learner:
                def __init__(self, model, lr):
                    self.model = model
                    self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

                def set_classes(self, classes):
                    self.model.head = nn.Linear(8, classes)
                    self.optimizer.add_param_group({"params": self.model.head.parameters()})
            """,
        ),
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
            replaced = replacement(ctx, later, model)
            if replaced is None and _mentions(later, optimizer) and not _makes_scheduler(ctx, later):
                return
            if replaced is not None:
                if any(grows(rest, optimizer) for rest in (replaced[1], *block[block.index(later) + 1 :])):
                    return
                yield ctx.finding(
                    self,
                    node.value,
                    f"{optimizer} is created before a layer is replaced, so it never updates the new layer",
                    related=[("the layer is replaced here", replaced[0])],
                    fixes=[self._fix(ctx, node, later)],
                )
                return
        yield from self._replaced_in_methods(node, model, optimizer, ctx)

    def _replaced_in_methods(self, node: ast.Assign, model: str, optimizer: str, ctx: Context) -> Iterator[Finding]:
        """Find methods that replace a layer of the model whose optimizer ``__init__`` has made, once and for all."""
        init = ctx.function(node)
        cls = ctx.parent(init) if init is not None else None
        if not isinstance(cls, ast.ClassDef) or init is None or init.name != "__init__":
            return
        if not (model.startswith("self.") and optimizer.startswith("self.")) or not _is_made_once(ctx, node, optimizer):
            return
        for method in (m for m in cls.body if isinstance(m, ast.FunctionDef) and m is not init):
            if _is_called_in(init, method.name) or method.name.startswith("_"):
                continue
            for statement in (n for n in walk(method) if isinstance(n, (ast.Assign, ast.Expr))):
                found = replacement(ctx, statement, model)
                if found is not None:
                    yield ctx.finding(
                        self,
                        found[0],
                        f"the new layer's parameters are in no optimizer; {optimizer} still holds those of the old "
                        "layer",
                        related=[("the optimizer is created here", node.value)],
                        fixes=[_made_anew(ctx, node, statement)],
                    )

    def _fix(self, ctx: Context, node: ast.Assign, later: ast.stmt) -> Fix | None:
        block = block_of(ctx, node)
        optimizer = ast.unparse(node.targets[0])
        if any(_mentions(between, optimizer) for between in block[block.index(node) + 1 : block.index(later)]):
            return ctx.fix("Replace the layer before creating the optimizer", *moved(ctx, later, node))
        return ctx.fix("Create the optimizer after the replacement", *moved(ctx, node, later, after=True))


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
    """Return the model whose parameters a function of the file gives to the optimizer that it makes."""
    for function, parameters in called_by(call, ctx):
        for given, parameter in zip(call.args, parameters, strict=False):
            if any(_takes_parameters(node, parameter) for node in walk(function)):
                return ctx.text(given)
        if isinstance(call.func, ast.Attribute) and ctx.text(call.func.value) == "self":
            own = {model for node in walk(function) if (model := _own_model(node, ctx)) is not None}
            return own.pop() if len(own) == 1 else None
    return None


def _own_model(node: ast.AST, ctx: Context) -> str | None:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")) as model, attr=attr), args=[]):
            return ctx.text(model) if attr in ("parameters", "named_parameters") else None
        case _:
            return None


def _takes_parameters(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=model), attr="parameters" | "named_parameters"), args=[]):
            return model == name
        case _:
            return False


def _mentions(node: ast.stmt, name: str) -> bool:
    return any(isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) == name for n in walk(node))


def _makes_scheduler(ctx: Context, node: ast.stmt) -> bool:
    """Say whether a statement does no more with the optimizer than to give it to a schedule."""
    value = node.value if isinstance(node, ast.Assign) else None
    return isinstance(value, ast.Call) and is_scheduler_class(ctx.name(value.func) or "")


def _is_made_once(ctx: Context, node: ast.Assign, optimizer: str) -> bool:
    """Say whether nothing in the file gives an optimizer other parameters, or another one its place."""
    name = optimizer.rpartition(".")[2]
    for other in ctx.nodes(ast.Attribute):
        if other.attr in ("add_param_group", "param_groups"):
            return False
        if other.attr == name and isinstance(other.ctx, ast.Store) and ctx.statement(other) is not node:
            return False
    return True


def _is_called_in(function: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == name for n in walk(function))


def _made_anew(ctx: Context, made: ast.Assign, replaced: ast.stmt) -> Fix | None:
    """Return the fix that makes the optimizer again behind the replacement; None where it reads names of ``__init__``.

    Else the optimizer is given the new layer, where the replacement names it.
    """
    optimizer = ctx.source_of(made.targets[0])
    names = {n.id for n in ast.walk(made.value) if isinstance(n, ast.Name)}
    if names <= {"self", *ctx.facts.globals} and made.lineno == made.end_lineno:
        return ctx.fix(f"Recreate `{optimizer}`", inserted(ctx, replaced, ctx.source_of(made), after=True))
    target = replaced.targets[0] if isinstance(replaced, ast.Assign) else None
    if not isinstance(target, ast.Attribute):
        return None
    text = f'{optimizer}.add_param_group({{"params": {ctx.source_of(target)}.parameters()}})'
    return ctx.fix(f"Add the new layer to `{optimizer}`", inserted(ctx, replaced, text, after=True))
