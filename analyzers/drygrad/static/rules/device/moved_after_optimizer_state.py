"""Rule DG211: a model that moves after the state of its optimizer has been loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.datasets import called_by
from drygrad.static.editing import moved
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant, Object
from drygrad.static.rules.device.placement import device_of, unless
from drygrad.static.syntax import block_of, called, calls_in

_STATEFUL = frozenset({"Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "SGD", "ASGD"})


class MovedAfterOptimizerState(Rule):
    """
    ## What it does
    Finds `model.to(device)` and `model.cuda()` after `optimizer.load_state_dict(...)`, or after a call of a function
    that loads the state, if the optimizer holds the model's parameters.

    ## Why is this bad?
    `load_state_dict` puts the optimizer's state (momentum, moments) on the device where the parameters are at that
    moment. If the model moves afterwards, the state stays behind: the first `step()` after resuming raises "Expected
    all tensors to be on the same device".

    ## Example
    ```python
    model = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(torch.load("optimizer.pt", map_location="cpu"))
    model.to("cuda")
    ```
    Use instead:
    ```python
    model = nn.Linear(8, 4)
    model.to("cuda")
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(torch.load("optimizer.pt", map_location="cpu"))
    ```

    ## Fix safety
    Unsafe: statements between the two now run in a different order.
    """

    code, name, since = "DG211", "moved-after-optimizer-state", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def resume(path, device):
                model = nn.Linear(4, 2)
                optimizer = torch.optim.Adam(model.parameters())
                checkpoint = torch.load(path, map_location="cpu")
                model.load_state_dict(checkpoint["model"])
                model.to(device)
                optimizer.load_state_dict(checkpoint["optimizer"])
                return model, optimizer

            def other(path, device, teacher: nn.Linear):
                model = nn.Linear(4, 2).to(device)
                optimizer = torch.optim.Adam(model.parameters())
                optimizer.load_state_dict(torch.load(path))
                teacher.to(device)
                model.to("cpu")
                return model, optimizer
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def resume(path, device):
                model = nn.Linear(4, 2)
                optimizer = torch.optim.Adam(model.parameters())
                checkpoint = torch.load(path, map_location="cpu")
                model.load_state_dict(checkpoint["model"])
                optimizer.load_state_dict(checkpoint["optimizer"])
                model.to(device)
                return model, optimizer
            """,
            """
            def resume(path, device):
                model = nn.Linear(4, 2)
                optimizer = torch.optim.Adam(model.parameters())
                checkpoint = torch.load(path, map_location="cpu")
                model.load_state_dict(checkpoint["model"])
                model.to(device)
                optimizer.load_state_dict(checkpoint["optimizer"])
                return model, optimizer
            """,
            at=(7, 4, 7, 20),
        ),
        Invalid(
            """
            import os

            def load(path, model, optimizer):
                state = torch.load(path, map_location="cpu")
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
                return state["epoch"]

            def build(path, device):
                model = nn.Linear(4, 2)
                optimizer = torch.optim.AdamW(model.parameters())
                first = 0
                if os.path.exists(path):
                    first = load(path, model, optimizer)
                model.to(device)
                return model, optimizer, first
            """,
            at=(15, 4, 15, 20),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        for owner in _loaded_by(node, ctx):
            model = _model_of(ctx.value(owner))
            statement = ctx.statement(node)
            found = _moved_later(statement, model, ctx) if model is not None else None
            if found is None:
                continue
            later, move = found
            device = "cuda" if called(move) == "cuda" else device_of(ctx, move.args[0]) or "$device"
            message = (
                f"the optimizer state was loaded before this move and stays on the CPU; step() raises{unless(device)}"
            )
            related = [("the state is loaded here", node)]
            together = later in block_of(ctx, statement) and isinstance(statement, ast.Expr)
            fixes = [_fix(statement, later, ctx)] if together and isinstance(statement, ast.Expr) else []
            yield ctx.finding(self, move, message, related=related, fixes=fixes)
            return


def _loaded_by(node: ast.Call, ctx: Context) -> Iterator[ast.expr]:
    """Yield what a call loads a state into: its receiver, or what it hands to a function of the file that does."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="load_state_dict")):
            yield owner
        case ast.Call(func=ast.Name()):
            for function, names in called_by(node, ctx):
                given = [*zip(names, node.args, strict=False), *((k.arg or "", k.value) for k in node.keywords)]
                loaded = {
                    ctx.text(c.func.value)
                    for c in calls_in(function)
                    if _loads(c) and isinstance(c.func, ast.Attribute)
                }
                yield from (argument for name, argument in given if name in loaded)
        case _:
            return


def _loads(call: ast.Call) -> bool:
    return called(call) == "load_state_dict"


def _moved_later(statement: ast.stmt, model: str, ctx: Context) -> tuple[ast.stmt, ast.Call] | None:
    """Return the statement that moves a model after another one, in its block or in those around it, and the call."""
    inner: ast.AST | None = statement
    while isinstance(inner, ast.stmt) and not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        block = block_of(ctx, inner)
        for later in block[block.index(inner) + 1 :]:
            move = _move_of(later, model, ctx)
            if move is not None:
                return later, move
        inner = ctx.parent(inner)
        if isinstance(inner, (ast.For, ast.While, ast.AsyncFor, ast.ExceptHandler)):
            return None
    return None


def _model_of(optimizer: object) -> str | None:
    """Return the name of the model, still on the CPU, whose parameters an optimizer was given when it was made."""
    if not isinstance(optimizer, Object) or optimizer.type.rpartition(".")[2] not in _STATEFUL:
        return None
    if optimizer.type.endswith(".SGD") and optimizer.arguments.get("momentum", 2) in (None, Constant(0)):
        return None
    match optimizer.node:
        case ast.Call(args=[ast.Call(func=ast.Attribute(value=model, attr="parameters"), args=[]), *_]):
            return dotted_text(model)
        case _:
            return None


def _move_of(statement: ast.stmt, model: str, ctx: Context) -> ast.Call | None:
    """Return the call that moves the model to an accelerator, from the CPU as far as is known."""
    match statement:
        case ast.Expr(value=ast.Call() as move) | ast.Assign(value=ast.Call() as move):
            pass
        case _:
            return None
    if not isinstance(move.func, ast.Attribute) or move.func.attr not in ("to", "cuda"):
        return None
    if dotted_text(move.func.value) != model:
        return None
    before = ctx.value(move.func.value)
    if isinstance(before, Object) and before.device not in (None, "cpu"):
        return None
    target = device_of(ctx, move.args[0]) if move.args else None
    return move if move.func.attr == "cuda" or (target is not None and target != "cpu") else None


def _fix(loading: ast.Expr, move: ast.stmt, ctx: Context) -> Fix | None:
    return ctx.fix("Move the model first", *moved(ctx, move, loading))
