"""Rule DG101: an in-place write to a tensor that autograd has kept for backward."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Severity, Valid
from drygrad.static.context import Context
from drygrad.static.facts.events import InplaceWrite, Saved
from drygrad.static.facts.saving import keeps_result
from drygrad.static.facts.values import UNKNOWN, Tensor
from drygrad.static.rules.autograd.graph import ancestors, mode_is_shown
from drygrad.static.rules.autograd.inplace import counts, out_of_place, spelled
from drygrad.static.syntax import nodes_within, scope_of

_CHANGES_VALUES = frozenset(
    "abs add addcdiv addcmul clamp clamp_max clamp_min div exp log masked_fill mul neg pow relu rsqrt sigmoid sqrt sub "
    "tanh".split()
)


class InplaceOnSavedTensor(Rule):
    """
    ## What it does
    Finds in-place writes (`clamp_`, `+=`, `x[i] = v`, `inplace=True`) to a tensor that an earlier operation saved for
    backward.

    ## Why is this bad?
    `backward()` detects that the saved tensor has changed and raises `one of the variables needed for gradient
    computation has been modified by an inplace operation`, far from the write. Most in-place writes are harmless: only
    some operations save their result (`exp`, `sigmoid`, `tanh`, `relu`, `softmax`, `sqrt` ...) or their input (`x * y`,
    `x ** 2`, `log`, `Linear` ...). drygrad's list of them was measured on torch, operation by operation.

    If a function overwrites its argument and no call in the file shows where that argument comes from, the finding is
    an info: whether backward works depends on the caller.

    ## Example
    ```python
    probabilities = torch.sigmoid(nn.Linear(8, 1)(x))
    probabilities.clamp_(min=1e-6)
    loss = -probabilities.log().mean()
    loss.backward()
    ```
    Use instead:
    ```python
    probabilities = torch.sigmoid(nn.Linear(8, 1)(x))
    probabilities = probabilities.clamp(min=1e-6)
    loss = -probabilities.log().mean()
    loss.backward()
    ```

    ## Fix safety
    Safe for a local tensor without aliases; unsafe if another name, a container or the caller may share its memory and
    see the write.
    """

    code, name, since = "DG101", "inplace-on-saved-tensor", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            "def f(x):\n    x.clamp_(min=1e-6)\n    return x.log()\n\n"
            "x = torch.randn(10, requires_grad=True) - 2\nf(x).mean().backward()"
        ),
        Valid("w = torch.rand(3, requires_grad=True)\ny = w * 2\ny.clamp_(min=0)\ny.sum().backward()"),
        Valid("w = torch.rand(3, requires_grad=True)\ny = w.exp()\ny.sum().backward()\ny.mul_(2)"),
        Valid("w = torch.rand(3, requires_grad=True)\nwith torch.no_grad():\n    y = w.exp()\n    y.mul_(2)"),
        Valid("w = torch.rand(3, requires_grad=True)\ny = w.exp().clone()\ny[0] = 1\ny.sum().backward()"),
        Valid("w = torch.rand(3, requires_grad=True)\np = w.softmax(0)\np[p < 0.1] = 0\nprint(w.sum().backward())"),
        Valid("@torch.no_grad()\ndef f(x):\n    x.clamp_(min=1e-6)\n    return x.log()"),
        Valid("def add_one_(x):\n    x.add_(1)\n    return x"),
        Valid(
            """
            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)
                    self.relu = nn.ReLU(inplace=True)

                def forward(self, x):
                    out = self.relu(self.norm(self.conv(x)))
                    out = self.norm(self.conv(out))
                    out += x
                    return self.relu(out)
            """
        ),
        Valid(
            "w = torch.rand(3, requires_grad=True)\ntotal = 0\nfor i in range(3):\n    y = w + i\n    y.add_(1)\n"
            "    total = total + y * y\ntotal.sum().backward()"
        ),
    ]
    INVALID = [
        Invalid(
            "w = torch.rand(3, requires_grad=True)\ny = w.sigmoid()\ny.clamp_(min=1e-6)\ny.log().sum().backward()",
            "w = torch.rand(3, requires_grad=True)\ny = w.sigmoid()\ny = y.clamp(min=1e-6)\ny.log().sum().backward()",
            at=(3, 0, 3, 18),
            severity="error",
        ),
        Invalid(
            "def f(x):\n    x.clamp_(min=1e-6)\n    y = x.log()\n    return y",
            "def f(x):\n    x = x.clamp(min=1e-6)\n    y = x.log()\n    return y",
            at=(2, 4, 2, 22),
            severity="info",
        ),
        Invalid(
            """
            class Gate(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)

                def forward(self, x, skip):
                    gate = torch.sigmoid(self.fc(x))
                    gate *= skip + 1
                    return gate
            """,
            """
            class Gate(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)

                def forward(self, x, skip):
                    gate = torch.sigmoid(self.fc(x))
                    gate = gate * (skip + 1)
                    return gate
            """,
        ),
        Invalid(
            "w = torch.rand(3, requires_grad=True)\ny = w + 1\nz = y * y\ny[0] = 0.\nz.sum().backward()",
            "w = torch.rand(3, requires_grad=True)\ny = w + 1\nz = y * y\ny = y.clone()\ny[0] = 0.\nz.sum().backward()",
            severity="error",
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc, self.act = nn.Linear(4, 4), nn.ReLU(inplace=True)

                def forward(self, x):
                    h = torch.tanh(self.fc(x))
                    h = self.act(h)
                    return h.sum(1)
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc, self.act = nn.Linear(4, 4), nn.ReLU()

                def forward(self, x):
                    h = torch.tanh(self.fc(x))
                    h = self.act(h)
                    return h.sum(1)
            """,
        ),
        Invalid(
            "def shift(y):\n    y.add_(1)\n    return y * 2\n\n"
            "x = torch.randn(10, requires_grad=True)\nshift(x.exp()).mean().backward()",
            "def shift(y):\n    y = y.add(1)\n    return y * 2\n\n"
            "x = torch.randn(10, requires_grad=True)\nshift(x.exp()).mean().backward()",
            severity="warning",
        ),
    ]

    def visit_write(self, write: InplaceWrite, ctx: Context) -> Iterator[Finding]:
        if not counts(write) or (write.target.leaf and write.target.requires_grad and write.grad_enabled is not False):
            return
        saved = _kept(write, ctx)
        if saved is not None:
            reach = _reach(write, saved, ctx)
            if reach is not None:
                yield self._sure(write, saved, reach, ctx)
        elif _is_argument(write, ctx):
            yield self._perhaps(write, ctx)

    def _sure(self, write: InplaceWrite, saved: Saved, reach: Severity, ctx: Context) -> Finding:
        kept = f"{saved.operation} saves its {saved.role} for backward"
        return ctx.finding(
            self,
            write.node,
            f"{spelled(write)} overwrites `{ctx.source_of(write.expression)}`, but {kept} (line "
            f"{saved.node.lineno}); backward() raises 'modified by an inplace operation'",
            severity=reach,
            related=[(kept, saved.node)],
            fixes=[out_of_place(write, ctx)],
        )

    def _perhaps(self, write: InplaceWrite, ctx: Context) -> Finding:
        name = ctx.source_of(write.expression)
        return ctx.finding(
            self,
            write.node,
            f"{spelled(write)} overwrites the caller's `{name}`; backward() raises if `{name}` is a leaf that "
            "requires grad, or if the operation that produced it saved its result (exp, sigmoid, relu ...)",
            severity="info",
            fixes=[out_of_place(write, ctx)],
        )


def _kept(write: InplaceWrite, ctx: Context) -> Saved | None:
    """Return who surely keeps the overwritten content."""
    if write.grad_enabled is False and write.target.leaf is not False:
        return None
    sure = next((saved for saved in write.saved if saved.records and saved.node is not write.node), None)
    if sure is not None:
        return sure
    origin = write.target.origin
    if origin is None or not write.target.requires_grad or write.target.storage is not origin.node:
        return None
    elsewhere = ctx.function(origin.node) is not ctx.function(write.node)
    handed_over = elsewhere and _is_parameter(write.expression, ctx)
    if handed_over and write.grad_enabled and keeps_result(origin):
        return Saved(origin.operation, origin.node, "output", True)
    return None


def _reach(write: InplaceWrite, saved: Saved, ctx: Context) -> Severity | None:
    """Say how surely a backward goes through the operation: error if one does here, None if nothing leads to one."""
    found: Severity | None = None
    for node in nodes_within(scope_of(write.node, ctx)):
        match node:
            case ast.Call(func=ast.Attribute(value=receiver, attr="backward")) if _leads(receiver, write, saved, ctx):
                return "error" if mode_is_shown(ctx, node) else "warning"
            case ast.Return(value=ast.expr() as value) if _leads(value, write, saved, ctx):
                found = "warning"
            case ast.Call(args=arguments) if ctx.call(node) is None and _is_unknown(node.func, ctx):
                if any(_leads(argument, write, saved, ctx) for argument in arguments):
                    found = "warning"
            case _:
                pass
    return found


def _is_unknown(function: ast.expr, ctx: Context) -> bool:
    """Say whether a call may make a loss: what is called is not built in."""
    return not (ctx.name(function) or "").startswith("builtins.")


def _leads(expression: ast.expr, write: InplaceWrite, saved: Saved, ctx: Context) -> bool:
    """Say whether a value that may require grad was computed through the operation that keeps the content."""
    through = ancestors(ctx.value(expression), in_graph=True)
    return any(
        (t.origin is not None and t.origin.node is saved.node)
        or (saved.role == "output" and t.storage is not None and t.storage is write.target.storage)
        for t in through
    )


def _is_parameter(expression: ast.expr, ctx: Context) -> bool:
    function = ctx.function(expression)
    if function is None or not isinstance(expression, ast.Name):
        return False
    arguments = function.args
    return expression.id in {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _is_argument(write: InplaceWrite, ctx: Context) -> bool:
    """Say whether a function computes on with an argument that it overwrites, and no call shows what that is."""
    function, name = ctx.function(write.node), ctx.text(write.expression)
    if function is None or not _is_parameter(write.expression, ctx) or ctx.callers(function):
        return False
    method = write.call is not None and write.call.form == "method" and write.operation in _CHANGES_VALUES
    if not method or write.grad_enabled is not True or function.name.endswith("_") or function.name.startswith("_"):
        return False
    tensor = write.target
    if tensor.origin is not None or tensor.requires_grad is not None:
        return False
    return not any(name in _bound(n) for n in nodes_within(function)) and _computes_on(write, function, ctx)


def _bound(node: ast.AST) -> set[str]:
    return {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()


def _computes_on(write: InplaceWrite, function: ast.AST, ctx: Context) -> bool:
    """Say whether a later result of the overwritten tensor is returned and may require grad."""
    for node in nodes_within(function):
        if isinstance(node, ast.Return) and node.value is not None and node.lineno > write.node.lineno:
            value = ctx.value(node.value)
            made = [t for t in ancestors(value) if t.origin is not None and t.origin.node is write.node]
            if made and isinstance(value, Tensor) and value.requires_grad is not False and value is not UNKNOWN:
                return value.origin is not None and value.origin.node is not write.node
    return False
