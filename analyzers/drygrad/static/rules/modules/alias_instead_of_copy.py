"""Rule DG760: a second name where a second model is meant."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import UNKNOWN, Object
from drygrad.static.loops import trains
from drygrad.static.roles import role_of
from drygrad.static.syntax import assigned_in, body_nodes, parameter_names, scope_of
from drygrad.static.tree import walk


class AliasInsteadOfCopy(Rule):
    """
    ## What it does
    Finds `best_model = model` under a condition in a training loop if the best model is used after the loop, and
    `target = policy` if the file later copies weights from one to the other.

    ## Why is this bad?
    An assignment only gives the model a second name. The "best" model keeps training and ends up equal to the last one;
    a target network always equals the network it should lag behind. Nothing raises.

    ## Example
    ```python
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        accuracy = evaluate(model)
        if accuracy > best_accuracy:
            best_accuracy = accuracy
            best_model = model
    torch.save(best_model.state_dict(), "best.pt")
    ```
    Use instead:
    ```python
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        accuracy = evaluate(model)
        if accuracy > best_accuracy:
            best_accuracy = accuracy
            best_model = copy.deepcopy(model)
    torch.save(best_model.state_dict(), "best.pt")
    ```

    ## Fix safety
    Unsafe: a different model is used afterwards.
    """

    code, name, since = "DG760", "alias-instead-of-copy", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            import copy

            def fit(model, loader, optimizer, evaluate):
                best, best_model = 0, model
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    if evaluate(model) > best:
                        best_model = copy.deepcopy(model)
                        best = evaluate(model)
                return best_model
            """
        ),
        Valid(
            """
            def choose(models, evaluate):
                best_model = None
                for model in models:
                    if evaluate(model) > 0:
                        best_model = model
                return best_model
            """
        ),
        Valid(
            """
            class Solver:
                def __init__(self, model: nn.Module):
                    self.model = model

                def load(self, path):
                    model = torch.load(path, weights_only=False)
                    self.model.load_state_dict(model.state_dict())
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import copy

            def fit(model, loader, optimizer, evaluate):
                best, best_model = 0, None
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    if evaluate(model) > best:
                        best_model = model
                        best = evaluate(model)
                return best_model
            """,
            """
            import copy

            def fit(model, loader, optimizer, evaluate):
                best, best_model = 0, None
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    if evaluate(model) > best:
                        best_model = copy.deepcopy(model)
                        best = evaluate(model)
                return best_model
            """,
            at=(10, 25, 10, 30),
        ),
        Invalid(
            """
            class Agent:
                def __init__(self):
                    self.policy = nn.Linear(4, 2)
                    self.target = self.policy

                def sync(self):
                    self.target.load_state_dict(self.policy.state_dict())
            """,
            at=(4, 22, 4, 33),
        ),
        Invalid(
            """
            policy = nn.Linear(4, 2)
            target = policy

            def sync():
                target.load_state_dict(policy.state_dict())
            """
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        target = dotted_text(node.targets[0]) if len(node.targets) == 1 else None
        source = dotted_text(node.value)
        if target is None or source is None or not _is_model(node.value, ctx):
            return
        best = _is_kept_as_best(node, target, source, ctx)
        if best or _is_synchronised(node, target, source, ctx):
            message = f"{target} is another name for {source}, not a copy; both are always the same model"
            yield ctx.finding(self, node.value, message, fixes=[_copied(node.value, ctx)])


def _is_model(node: ast.expr, ctx: Context) -> bool:
    value = ctx.value(node)
    if isinstance(value, Object):
        return value.is_module
    return value is UNKNOWN and role_of(ctx, node) == "model"


def _is_kept_as_best(node: ast.Assign, target: str, source: str, ctx: Context) -> bool:
    """Say whether a loop that trains the model keeps it under a condition, and something reads what is kept later."""
    loops = [loop for loop in ctx.loops(node) if trains(loop)]
    if "best" not in target.lower() or not loops or not ctx.enclosing(node, ast.If):
        return False
    outer = loops[-1]
    if any(isinstance(n, (ast.Name, ast.Attribute)) and _stores(n, source) for n in walk(outer)):
        return False
    reads = (n for n in body_nodes(scope_of(node, ctx)) if isinstance(n, (ast.Name, ast.Attribute)))
    end = outer.end_lineno or outer.lineno
    used = any(dotted_text(n) == target and isinstance(n.ctx, ast.Load) and n.lineno > end for n in reads)
    return used or "." in target


def _stores(node: ast.Name | ast.Attribute, name: str) -> bool:
    return isinstance(node.ctx, ast.Store) and dotted_text(node) == name


def _is_synchronised(node: ast.Assign, target: str, source: str, ctx: Context) -> bool:
    """Say whether the file copies the weights of one into the other: it takes them for two."""
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "load_state_dict"
        and dotted_text(call.func.value) == target
        and len(call.args) == 1
        and ast.unparse(call.args[0]) == f"{source}.state_dict()"
        and all(_is_one_variable(name, node, call, ctx) for name in (target, source))
        for call in ctx.nodes(ast.Call)
    )


def _is_one_variable(name: str, first: ast.AST, second: ast.AST, ctx: Context) -> bool:
    """Say whether a name means the same at both places: a variable in the reach of both, or what methods share."""
    root, scope = name.partition(".")[0], ctx.function(first)
    inner = ctx.function(second)
    if inner is not scope and _is_self(root, scope, ctx) and _is_self(root, inner, ctx):
        return _class_around(scope, ctx) is _class_around(inner, ctx)
    while inner is not scope:
        if inner is None or root in parameter_names(inner) or root in dict(assigned_in(inner)):
            return False
        inner = ctx.function(inner)
    return True


def _is_self(name: str, function: FunctionNode | None, ctx: Context) -> bool:
    return function is not None and parameter_names(function)[:1] == [name] and _class_around(function, ctx) is not None


def _class_around(function: FunctionNode | None, ctx: Context) -> ast.ClassDef | None:
    parent = ctx.parent(function) if function is not None else None
    return parent if isinstance(parent, ast.ClassDef) else None


def _copied(node: ast.expr, ctx: Context) -> Fix | None:
    copy = ctx.imported_as("copy")
    deepcopy = f"{copy}.deepcopy" if copy is not None else ctx.imported_as("copy.deepcopy")
    if deepcopy is None:
        return None
    return ctx.fix("Copy the model", ctx.replace(node, f"{deepcopy}({ctx.source_of(node)})"))
