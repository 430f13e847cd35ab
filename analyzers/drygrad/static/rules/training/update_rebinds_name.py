"""Rule DG718: a step by hand that gives the parameter's name to a new tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.facts.frame import dotted_text
from drygrad.static.syntax import assigned_in, bound_names, calls_in, follows
from drygrad.static.tree import walk

_PARAMETERS = frozenset({"parameters", "named_parameters", "buffers", "named_buffers"})
_LEAVES_AGAIN = frozenset({"requires_grad_", "retain_grad", "Parameter", "Variable"})


class UpdateRebindsName(Rule):
    """
    ## What it does
    Finds a handwritten update `w = w - lr * w.grad` in a loop instead of an in-place one, and a moving average of
    parameters written as `a = decay * a + (1 - decay) * p` in a loop over them.

    ## Why is this bad?
    The assignment creates a new tensor and rebinds the name. If the name is the loop variable over parameters, the
    parameters never change: the model learns nothing, and nothing raises. If it is a tensor with `requires_grad=True`,
    the new tensor is not a leaf (or, under `no_grad`, has no graph): its `grad` is None in the next iteration, or
    `backward()` fails.

    ## Example
    ```python
    with torch.no_grad():
        for p in model.parameters():
            p = p - lr * p.grad
    ```
    Use instead:
    ```python
    with torch.no_grad():
        for p in model.parameters():
            p -= lr * p.grad
    ```

    ## Fix safety
    Unsafe: the parameters now change.
    """

    code, name, since = "DG718", "update-rebinds-name", "0.1"
    severity = "error"
    VALID = [
        Valid(
            """
            @torch.no_grad()
            def update(average, model, decay=0.99):
                norms = []
                for a, p in zip(average.parameters(), model.parameters()):
                    a.mul_(decay).add_(p, alpha=1 - decay)
                    p = p - a
                    norms.append(p.norm())
                return norms
            """
        ),
        Valid(
            """
            def step(model, lr):
                with torch.no_grad():
                    for p in model.parameters():
                        p -= lr * p.grad
            """
        ),
        Valid(
            """
            def adapt(params, lr):
                fast = []
                for p in params:
                    p = p - lr * p.grad
                    fast.append(p)
                return fast
            """
        ),
        Valid(
            """
            def descend(w, loss_of, lr):
                for _ in range(10):
                    loss_of(w).backward()
                    w = w - lr * w.grad
                    w = w.detach().requires_grad_()
                return w
            """
        ),
        Valid(
            """
            def descend(w, loss_of, lr):
                loss_of(w).backward()
                w = w - lr * w.grad
                return w
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            @torch.no_grad()
            def update(average, model, decay=0.99):
                for a, p in zip(average.parameters(), model.parameters()):
                    a = decay * a + (1 - decay) * p
            """,
            """
            @torch.no_grad()
            def update(average, model, decay=0.99):
                for a, p in zip(average.parameters(), model.parameters()):
                    a.copy_(decay * a + (1 - decay) * p)
            """,
            at=(4, 8, 4, 39),
        ),
        Invalid(
            """
            def step(model, lr):
                with torch.no_grad():
                    for p in model.parameters():
                        p = p - lr * p.grad
            """,
            """
            def step(model, lr):
                with torch.no_grad():
                    for p in model.parameters():
                        p -= lr * p.grad
            """,
            at=(4, 12, 4, 31),
        ),
        Invalid(
            """
            w = torch.zeros(3, requires_grad=True)
            for x in torch.randn(10, 3):
                w.grad = None
                loss = (w * x).sum() ** 2
                loss.backward()
                w = w - 0.1 * w.grad
            """,
            """
            w = torch.zeros(3, requires_grad=True)
            for x in torch.randn(10, 3):
                w.grad = None
                loss = (w * x).sum() ** 2
                loss.backward()
                with torch.no_grad():
                    w -= 0.1 * w.grad
            """,
        ),
    ]

    def visit_average(self, node: ast.For, ctx: Context) -> Iterator[Finding]:
        """``for a, p in zip(average.parameters(), model.parameters()): a = 0.9 * a + 0.1 * p``."""
        if not any(isinstance(call, ast.Call) and _last_name(call) in _PARAMETERS for call in walk(node.iter)):
            return
        names = bound_names(node.target)
        for statement in node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in names and not (
                    _uses_gradient(value, name) or _is_read_after(name, statement, node)
                ):
                    if isinstance(value, ast.BinOp) and _mentions(value, name) and _loops_end(name, node, ctx):
                        message = f"this binds {name} to a new tensor; the parameter itself is unchanged"
                        yield ctx.finding(self, statement, message, fixes=[_copied(statement, name, ctx)])
                case _:
                    pass

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.BinOp(left=ast.Name(id=left), op=ast.Sub() | ast.Add()) as update
            ) if name == left and _uses_gradient(update.right, name):
                pass
            case _:
                return
        loop = next(iter(ctx.loops(node)), None)
        if loop is None:
            return
        if name in bound_names(getattr(loop, "target", loop)) and isinstance(loop, (ast.For, ast.AsyncFor)):
            message = f"this binds {name} to a new tensor; the parameter itself is unchanged"
            if _is_read_after(name, node, loop):
                return
        else:
            message = f"this binds {name} to a new non-leaf tensor; {name}.grad is None from the next iteration on"
            if _becomes_leaf(name, node, loop) or not _is_differentiated(loop):
                return
        yield ctx.finding(self, node, message, fixes=[_in_place(node, name, update, ctx)])


def _mentions(node: ast.expr, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in walk(node))


def _loops_end(name: str, loop: ast.For, ctx: Context) -> bool:
    """Say whether nothing reads the name after the loop."""
    scope = ctx.function(loop) or ctx.tree
    end = loop.end_lineno or loop.lineno
    return not any(
        isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load) and part.lineno > end
        for part in walk(scope)
    )


def _copied(node: ast.Assign, name: str, ctx: Context) -> Fix | None:
    text = f"{name}.copy_({ctx.source_of(node.value)})"
    if ctx.grad_enabled(node) is False:
        return ctx.fix("Copy it into the parameter", ctx.replace(node, text))
    torch = ctx.imported_as("torch")
    if torch is None:
        return None
    indentation = ctx.source.indentation(node.lineno)
    within = f"with {torch}.no_grad():{ctx.source.newline}{indentation}    {text}"
    return ctx.fix("Copy it into the parameter", ctx.replace(node, within))


def _uses_gradient(node: ast.expr, name: str) -> bool:
    return any(isinstance(n, ast.Attribute) and dotted_text(n) == f"{name}.grad" for n in walk(node))


def _is_read_after(name: str, node: ast.Assign, loop: Loop) -> bool:
    """Say whether the loop's body does something with the new tensor."""
    reads = (n for part in loop.body for n in walk(part) if isinstance(n, ast.Name) and n.id == name)
    return any(follows(n, node) and n.lineno > (node.end_lineno or node.lineno) for n in reads)


def _becomes_leaf(name: str, node: ast.Assign, loop: Loop) -> bool:
    """Say whether an iteration binds the name in another way, or makes the new tensor a leaf."""
    others = (statement for bound, statement in assigned_in(loop) if bound in (name, f"{name}.requires_grad"))
    if any(statement is not node for statement in others):
        return True
    return any(_last_name(call) in _LEAVES_AGAIN for call in calls_in(loop))


def _last_name(call: ast.Call) -> str:
    return (dotted_text(call.func) or getattr(call.func, "attr", "")).rpartition(".")[2]


def _is_differentiated(loop: Loop) -> bool:
    return any(_last_name(call) == "backward" for call in calls_in(loop))


def _in_place(node: ast.Assign, name: str, update: ast.BinOp, ctx: Context) -> Fix | None:
    sign = "-" if isinstance(update.op, ast.Sub) else "+"
    written = f"{name} {sign}= {ctx.source_of(update.right)}"
    edits: list[Edit | None]
    if ctx.grad_enabled(node) is False:
        edits = [ctx.replace(node, written)]
    else:
        indentation = ctx.source.indentation(node.lineno)
        torch = ctx.imported_as("torch")
        edits = [ctx.replace(node, f"with {torch}.no_grad():{ctx.source.newline}{indentation}    {written}")]
        if torch is None:
            return None
    return ctx.fix("Write it in place", *edits)
