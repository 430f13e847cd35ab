"""Rule DG111: an in-place activation that overwrites the skip connection."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.events import InplaceWrite
from drygrad.static.facts.values import Object, TorchCall
from drygrad.static.rules.autograd.inplace import spelled, without_inplace
from drygrad.static.syntax import bound_names, nodes_within, scope_of
from drygrad.static.tree import walk

_ACTIVATIONS = frozenset(
    "relu relu6 leaky_relu elu celu selu silu mish hardswish hardsigmoid hardtanh sigmoid tanh".split()
)
_JOINS = frozenset({"add", "cat", "sub"})


class InplaceReluBeforeResidual(Rule):
    """
    ## What it does
    Finds in-place activations whose input is used again later as a skip connection.

    ## Why is this bad?
    `inplace=True` overwrites the input, so the block adds the *activated* input to its output: for an input of `[-1,
    4]`, `relu(x) + x` gives `[0, 8]` instead of `[-1, 8]`. Nothing raises; the network just computes something other
    than what is written.

    ## Example
    ```python
    out = F.relu(x, inplace=True)
    out = self.conv(out)
    return out + x
    ```
    Use instead:
    ```python
    out = F.relu(x)
    out = self.conv(out)
    return out + x
    ```

    ## Fix safety
    Unsafe: it changes what the block computes.
    """

    code, name, since = "DG111", "inplace-relu-before-residual", "0.1"
    severity = "warning"
    VALID = [
        Valid("def f(x):\n    out = F.relu(x)\n    return out + x"),
        Valid("def f(x):\n    x = F.relu(x, inplace=True)\n    return x * 2 + x"),
        Valid("def f(x):\n    F.relu_(x)\n    return x.sum(0) + x"),
        Valid("def f(x):\n    out = F.relu(x + 1, inplace=True)\n    return out + x"),
        Valid("def f(x, conv):\n    out = F.relu(x, inplace=True)\n    x = conv(out)\n    return x + out"),
        Valid("def f(x, conv):\n    skip = x.clone()\n    out = conv(F.relu(x, inplace=True))\n    return out + skip"),
        Valid(
            """
            class Block(nn.Module):
                def __init__(self, c):
                    super().__init__()
                    self.body = nn.Sequential(nn.Conv2d(c, c, 1), nn.ReLU(inplace=True), nn.Conv2d(c, c, 1))
                    self.relu = nn.ReLU(inplace=True)

                def forward(self, x):
                    out = self.body(x)
                    out += x
                    return self.relu(out)
            """
        ),
    ]
    INVALID = [
        Invalid(
            "def f(x, conv):\n    out = F.relu(x, inplace=True)\n    out = conv(out)\n    return out + x",
            "def f(x, conv):\n    out = F.relu(x)\n    out = conv(out)\n    return out + x",
            at=(2, 10, 2, 33),
        ),
        Invalid(
            """
            class PreActivation(nn.Module):
                def __init__(self, c):
                    super().__init__()
                    self.relu = nn.LeakyReLU(0.1, True)
                    self.conv1 = nn.Conv2d(c, c, 3, padding=1)
                    self.conv2 = nn.Conv2d(c, c, 3, padding=1)

                def forward(self, x):
                    identity = x
                    out = self.conv1(self.relu(x))
                    out = self.conv2(F.relu(out))
                    out += identity
                    return out
            """,
            """
            class PreActivation(nn.Module):
                def __init__(self, c):
                    super().__init__()
                    self.relu = nn.LeakyReLU(0.1)
                    self.conv1 = nn.Conv2d(c, c, 3, padding=1)
                    self.conv2 = nn.Conv2d(c, c, 3, padding=1)

                def forward(self, x):
                    identity = x
                    out = self.conv1(self.relu(x))
                    out = self.conv2(F.relu(out))
                    out += identity
                    return out
            """,
        ),
        Invalid(
            """
            class Residual(nn.Module):
                def __init__(self, c):
                    super().__init__()
                    self.body = nn.Sequential(
                        nn.ReLU(inplace=True),
                        nn.Conv2d(c, c, 3, padding=1),
                    )

                def forward(self, x):
                    return x + self.body(x)
            """,
            """
            class Residual(nn.Module):
                def __init__(self, c):
                    super().__init__()
                    self.body = nn.Sequential(
                        nn.ReLU(),
                        nn.Conv2d(c, c, 3, padding=1),
                    )

                def forward(self, x):
                    return x + self.body(x)
            """,
        ),
        Invalid(
            """
            class Residual(nn.Module):
                def __init__(self, c):
                    super().__init__()
                    self.act = nn.SiLU(inplace=True)
                    self.conv = nn.Conv1d(c, c, 3, padding=1)

                def forward(self, x):
                    return x + 0.5 * self.conv(self.act(x))
            """,
            """
            class Residual(nn.Module):
                def __init__(self, c):
                    super().__init__()
                    self.act = nn.SiLU()
                    self.conv = nn.Conv1d(c, c, 3, padding=1)

                def forward(self, x):
                    return x + 0.5 * self.conv(self.act(x))
            """,
        ),
        Invalid(
            "def f(x, w):\n    gate = x.sigmoid_()\n    return torch.cat([gate @ w, x], dim=1)",
            "def f(x, w):\n    gate = x.sigmoid()\n    return torch.cat([gate @ w, x], dim=1)",
        ),
    ]

    def visit_write(self, write: InplaceWrite, ctx: Context) -> Iterator[Finding]:
        call, name = write.call, ctx.text(write.expression)
        if call is None or write.operation not in _ACTIVATIONS or name is None or "." in name:
            return
        if not isinstance(write.node, ast.Call) or _is_meant(write.node, name, ctx):
            return
        read = _skip_connection(write.node, name, ctx)
        if read is None:
            return
        made = _constructor(call.module) if call.module is not None else None
        places = [(f"`{ctx.source_of(read)}` is read here", read)]
        yield ctx.finding(
            self,
            made or write.node,
            f"{spelled(write)} overwrites `{name}`, which is read again on line {read.lineno}; by then it holds the "
            "activated values",
            related=[("the input is overwritten here", write.node), *places] if made is not None else places,
            fixes=[_fix(write.node, call, ctx)],
        )


def _is_meant(node: ast.Call, name: str, ctx: Context) -> bool:
    """Say whether the text itself shows that the name shall stand for the result."""
    match ctx.parent(node):
        case ast.Expr():
            return True
        case ast.Assign() | ast.NamedExpr() as binding:
            return name in bound_names(binding)
        case _:
            return name in bound_names(ctx.statement(node))


def _skip_connection(node: ast.Call, name: str, ctx: Context) -> ast.Name | None:
    """Return where the overwritten tensor is read again as the operand of a sum or a concatenation."""
    held = {name}
    written = False
    for each in nodes_within(scope_of(node, ctx)):
        match each:
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=source)) if source in held and not written:
                held.add(alias)
            case ast.Assign() | ast.For() | ast.AnnAssign() if not _holds(each, node):
                held -= bound_names(each) - ({name} if not written else set())
            case ast.Name(ctx=ast.Load()) if written and each.id in held and _is_joined(each, node, ctx):
                return each
            case _:
                written = written or each is node
    return _before_it(node, held, ctx)


def _holds(statement: ast.AST, node: ast.AST) -> bool:
    return any(inner is node for inner in walk(statement))


def _before_it(node: ast.Call, held: set[str], ctx: Context) -> ast.Name | None:
    """``x + body(x)``: the left operand is the same tensor when the sum is taken."""
    inner: ast.AST = node
    for ancestor in ctx.ancestors(node):
        match ancestor:
            case ast.BinOp(left=ast.Name(id=name) as left, op=ast.Add() | ast.Sub(), right=right):
                if right is inner and name in held:
                    return left
            case ast.Call() | ast.keyword() | ast.BinOp():
                pass
            case _:
                return None
        inner = ancestor
    return None


def _is_joined(name: ast.Name, write: ast.Call, ctx: Context) -> bool:
    parent = ctx.parent(name)
    if isinstance(parent, (ast.List, ast.Tuple)):
        parent = ctx.parent(parent)
    match parent:
        case ast.BinOp(op=ast.Add() | ast.Sub()) | ast.AugAssign(op=ast.Add() | ast.Sub()):
            return True
        case ast.Call() if parent is not write:
            call = ctx.call(parent)
            return call is not None and call.operation in _JOINS
        case _:
            return False


def _fix(node: ast.Call, call: TorchCall, ctx: Context) -> Fix | None:
    title = "Use the out-of-place activation"
    if call.module is not None:
        made = _constructor(call.module)
        return ctx.fix(title, without_inplace(made, ctx)) if made is not None else None
    if isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
        plain = f"{ctx.source_of(node.func.value)}.{node.func.attr[:-1]}"
        return ctx.fix(title, ctx.replace(node.func, plain))
    return ctx.fix(title, without_inplace(node, ctx))


def _constructor(module: Object) -> ast.Call | None:
    return module.node if isinstance(module.node, ast.Call) else None
