"""Rule DG750: the best weights kept without a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Position, Rule, Span, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Object

_MODEL_NAMES = ("model", "net", "network", "module", "encoder", "decoder", "classifier")


class StateDictNotCopied(Rule):
    """
    ## What it does
    Finds `best = model.state_dict()` under a condition in a training loop, followed by `load_state_dict(best)`; also
    `self.best = model.state_dict()` under a condition in a method, if another method of the class loads it.

    ## Why is this bad?
    `state_dict()` returns references to the tensors that the optimizer keeps updating, not copies. By the time the
    "best" weights are loaded they are the last ones, silently. `.copy()` of the dict copies no tensor.

    ## Example
    ```python
    def fit(model: nn.Module, epochs):
        best_accuracy = 0.0
        for epoch in range(epochs):
            accuracy = train_and_validate(model)
            if accuracy > best_accuracy:
                best_accuracy = accuracy
                best_weights = model.state_dict()
        model.load_state_dict(best_weights)
    ```
    Use instead:
    ```python
    def fit(model: nn.Module, epochs):
        best_accuracy = 0.0
        for epoch in range(epochs):
            accuracy = train_and_validate(model)
            if accuracy > best_accuracy:
                best_accuracy = accuracy
                best_weights = copy.deepcopy(model.state_dict())
        model.load_state_dict(best_weights)
    ```

    ## Fix safety
    Unsafe: different weights are loaded.
    """

    code, name, since = "DG750", "state-dict-not-copied", "0.1"
    VALID = [
        Valid(
            """
            import copy
            import torch

            def train(model, loader, epochs, step):
                best, lowest = None, float("inf")
                for epoch in range(epochs):
                    loss = step(model, loader)
                    if loss < lowest:
                        best, lowest = copy.deepcopy(model.state_dict()), loss
                model.load_state_dict(best)
            """
        ),
        Valid(
            """
            def train(model, loader, epochs, step):
                for epoch in range(epochs):
                    if step(model, loader):
                        best = {k: v.clone() for k, v in model.state_dict().items()}
                model.load_state_dict(best)
            """
        ),
        Valid(
            """
            def train(model, loader, epochs, step):
                for epoch in range(epochs):
                    if step(model, loader):
                        weights = model.state_dict()
                        torch.save(weights, "best.pt")
                model.load_state_dict(torch.load("best.pt"))
            """
        ),
        Valid(
            """
            def average(model, others):
                for other in others:
                    if other is not model:
                        weights = other.state_dict()
                        model.load_state_dict(weights)
            """
        ),
        Valid(
            """
            def train(model, epochs, step):
                for epoch in range(epochs):
                    if step(model):
                        best = model.state_dict()
                        best = {k: v.clone() for k, v in best.items()}
                model.load_state_dict(best)
            """
        ),
        Valid(
            """
            class Published:
                def publish(self, step):
                    if step % 100 == 0:
                        self.weights = self.learner_model.state_dict()

                def fetch(self, actor_model):
                    actor_model.load_state_dict(self.weights)
            """
        ),
        Valid(
            """
            class Best:
                def update(self, loss, model):
                    if loss < self.lowest:
                        self.weights = model.state_dict()
                        self.weights = {name: value.clone() for name, value in self.weights.items()}

                def restore(self, model):
                    model.load_state_dict(self.weights)
            """
        ),
        Valid(
            """
            class Saved:
                def update(self, loss, model):
                    if loss < self.lowest:
                        self.weights = copy.deepcopy(model.state_dict())

                def restore(self, model):
                    model.load_state_dict(self.weights)
            """
        ),
        Valid(
            """
            def resume(loader, model, epochs):
                for step, batch in enumerate(loader):
                    if step == 2:
                        state = loader.state_dict()
                loader.load_state_dict(state)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def fit(model: nn.Module, epochs, step):
                best = None
                for epoch in range(epochs):
                    if step(model):
                        best = model.state_dict()  # so far
                model.load_state_dict(best)
            """,
            """
            import copy
            import torch
            import torch.nn as nn
            import torch.nn.functional as F
            def fit(model: nn.Module, epochs, step):
                best = None
                for epoch in range(epochs):
                    if step(model):
                        best = copy.deepcopy(model.state_dict())  # so far
                model.load_state_dict(best)
            """,
            at=(5, 19, 5, 37),
        ),
        Invalid(
            """
            import copy
            import torch
            from torch import nn

            def train(model, loader, validate, epochs):
                criterion = nn.CrossEntropyLoss()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                best_accuracy, best_weights = 0.0, None
                for epoch in range(epochs):
                    for images, labels in loader:
                        optimizer.zero_grad()
                        loss = criterion(model(images), labels)
                        loss.backward()
                        optimizer.step()
                    accuracy = validate(model)
                    if accuracy > best_accuracy:
                        best_accuracy = accuracy
                        best_weights = model.state_dict().copy()
                model.load_state_dict(best_weights)
                return model
            """,
            """
            import copy
            import torch
            from torch import nn

            def train(model, loader, validate, epochs):
                criterion = nn.CrossEntropyLoss()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                best_accuracy, best_weights = 0.0, None
                for epoch in range(epochs):
                    for images, labels in loader:
                        optimizer.zero_grad()
                        loss = criterion(model(images), labels)
                        loss.backward()
                        optimizer.step()
                    accuracy = validate(model)
                    if accuracy > best_accuracy:
                        best_accuracy = accuracy
                        best_weights = copy.deepcopy(model.state_dict())
                model.load_state_dict(best_weights)
                return model
            """,
        ),
        Invalid(
            """
            from copy import deepcopy

            class Best:
                def __init__(self):
                    self.lowest, self.weights = float("inf"), None

                def update(self, loss, model):
                    if self.weights is None or loss < self.lowest:
                        self.lowest, self.stale = loss, 0
                        self.weights = model.state_dict()
                    return self.stale > 3

                def restore(self, model):
                    model.load_state_dict(self.weights)
            """,
            """
            from copy import deepcopy

            class Best:
                def __init__(self):
                    self.lowest, self.weights = float("inf"), None

                def update(self, loss, model):
                    if self.weights is None or loss < self.lowest:
                        self.lowest, self.stale = loss, 0
                        self.weights = deepcopy(model.state_dict())
                    return self.stale > 3

                def restore(self, model):
                    model.load_state_dict(self.weights)
            """,
        ),
        Invalid(
            '''
            """Early stopping."""

            import torch

            class EarlyStopping:
                def __init__(self, patience=3):
                    self.best, self.lowest = None, float("inf")

                def run(self, model, epochs, step):
                    for epoch in range(epochs):
                        loss = step(model)
                        if loss < self.lowest:
                            self.lowest = loss
                            self.best = model.state_dict()

                def restore(self, model):
                    model.load_state_dict(self.best)
            ''',
            '''
            """Early stopping."""

            import copy
            import torch

            class EarlyStopping:
                def __init__(self, patience=3):
                    self.best, self.lowest = None, float("inf")

                def run(self, model, epochs, step):
                    for epoch in range(epochs):
                        loss = step(model)
                        if loss < self.lowest:
                            self.lowest = loss
                            self.best = copy.deepcopy(model.state_dict())

                def restore(self, model):
                    model.load_state_dict(self.best)
            ''',
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        taken, target = _taken(node.value), ctx.text(node.targets[0]) if len(node.targets) == 1 else None
        if (
            taken is None
            or target is None
            or not _is_of_model(taken, ctx)
            or not (_is_under_condition_in_loop(node, ctx) or _is_kept_between_calls(node, target, taken, ctx))
        ):
            return
        loaded = _loaded(target, node, ctx)
        if loaded is None or _is_used_at_once(target, node, ctx):
            return
        yield ctx.finding(
            self,
            node.value,
            f"`state_dict()` returns references, so training keeps changing `{target}`; the last weights are loaded, "
            "not the saved ones",
            related=[("loaded here", loaded)],
            fixes=[_fix(node.value, taken, ctx)],
        )


def _taken(value: ast.expr) -> ast.Call | None:
    """Return the ``model.state_dict()`` that a value is, or is a shallow copy of."""
    match value:
        case ast.Call(func=ast.Attribute(attr="state_dict"), args=[], keywords=[]):
            return value
        case ast.Call(func=ast.Attribute(value=held, attr="copy"), args=[], keywords=[]):
            return _taken(held)
        case ast.Call(func=ast.Name(id="dict"), args=[held], keywords=[]):
            return _taken(held)
        case _:
            return None


def _is_of_model(taken: ast.Call, ctx: Context) -> bool:
    """Say whether a state is a model's: optimizers, schedulers and loaders have the method too."""
    called = ctx.receiver(taken)
    if called is None:
        return False
    receiver, value, _ = called
    name = (ctx.text(receiver) or "").rpartition(".")[2].lower()
    return (isinstance(value, Object) and value.is_module) or name.endswith(_MODEL_NAMES)


def _is_under_condition_in_loop(node: ast.Assign, ctx: Context) -> bool:
    condition = ctx.enclosing(node, ast.If)
    return condition is not None and bool(ctx.loops(condition))


def _is_kept_between_calls(node: ast.Assign, target: str, taken: ast.Call, ctx: Context) -> bool:
    """Say whether one method keeps the weights under a condition and another loads them, into the same model."""
    method = ctx.function(node)
    cls = ctx.parent(method) if method is not None else None
    model = ctx.receiver(taken)
    if ctx.enclosing(node, ast.If) is None or not isinstance(cls, ast.ClassDef) or model is None:
        return False
    if not target.startswith("self.") or method is None or method.name == "__init__":
        return False
    loaded = _loaded(target, node, ctx)
    other = ctx.function(loaded) if loaded is not None else None
    if loaded is None or other is None or other is method or ctx.parent(other) is not cls:
        return False
    into = ctx.receiver(loaded)
    return into is not None and ctx.text(into[0]) == ctx.text(model[0])


def _loaded(target: str, node: ast.Assign, ctx: Context) -> ast.Call | None:
    """Return the call that loads the weights, outside of the condition that takes them."""
    held = "." in target
    scope = ctx.tree if held else ctx.function(node) or ctx.tree
    condition = ctx.enclosing(node, ast.If)
    for call in ast.walk(scope):
        match call:
            case ast.Call(func=ast.Attribute(attr="load_state_dict"), args=[given, *_]) if ctx.text(given) == target:
                if condition not in list(ctx.ancestors(call)) and (held or call.lineno > node.lineno):
                    return call
            case _:
                pass
    return None


def _is_used_at_once(target: str, node: ast.Assign, ctx: Context) -> bool:
    """Say whether the branch goes on to do something with the weights, which may copy them."""
    condition = ctx.enclosing(node, ast.If)
    assert condition is not None, "the assignment was found under a condition"
    nodes = [n for branch in (condition.body, condition.orelse) for each in branch for n in ast.walk(each)]
    uses = [n for n in nodes if isinstance(n, (ast.Name, ast.Attribute)) and ctx.text(n) == target]
    return len(uses) > 1


def _fix(value: ast.expr, taken: ast.Call, ctx: Context) -> Fix | None:
    copy, deepcopy = ctx.imported_as("copy"), ctx.imported_as("copy.deepcopy")
    title, text = "Copy the weights", ctx.source_of(taken)
    if copy or deepcopy:
        return ctx.fix(title, ctx.replace(value, f"{deepcopy or f'{copy}.deepcopy'}({text})"))
    if any(isinstance(n, ast.Name) and n.id == "copy" for n in ast.walk(ctx.tree)):
        return None
    return ctx.fix(title, _import_copy(ctx), ctx.replace(value, f"copy.deepcopy({text})"))


def _import_copy(ctx: Context) -> Edit | None:
    """Return the edit that imports ``copy`` above the file's first import."""
    first = next((s for s in ctx.tree.body if _is_import(s)), None)
    if first is None:
        return None
    start = Position(first.lineno, 0)
    return Edit(Span(start, start), f"import copy{ctx.source.newline}")


def _is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import) or (
        isinstance(statement, ast.ImportFrom) and statement.module != "__future__"
    )
