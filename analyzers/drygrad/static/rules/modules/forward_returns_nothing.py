"""Rule DG745: forward without a return."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Position, Rule, Span, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.editing import inserted
from drygrad.static.facts.values import Class, Reference, Tensor, is_module_class
from drygrad.static.syntax import nodes_within


class ForwardReturnsNothing(Rule):
    """
    ## What it does
    Finds a `forward` of an `nn.Module` that computes a tensor but returns nothing on any path.

    ## Why is this bad?
    Without a `return`, `model(x)` is None: the loss raises, or the caller continues without a result.

    ## Example
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 4)

        def forward(self, x):
            x = self.fc(x)
    ```
    Use instead:
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 4)

        def forward(self, x):
            x = self.fc(x)
            return x
    ```

    ## Fix safety
    Unsafe: callers now get a tensor instead of None.
    """

    code, name, since = "DG745", "forward-returns-nothing", "0.1"
    VALID = [
        Valid(
            """
            from upstream import HookedModule

            class Expert(nn.Module, HookedModule):
                def forward(self, x):
                    features = x.exp().sum(-1)
            """
        ),
        Valid(
            '''
            class Base(nn.Module):
                def forward(self, x):
                    """What subclasses compute."""

            class Other(nn.Module):
                def forward(self, x):
                    x = torch.relu(x)
                    raise NotImplementedError

            class Third(nn.Module):
                def forward(self, x):
                    pass
            '''
        ),
        Valid(
            """
            class Net(nn.Module):
                def forward(self, x, flag):
                    x = torch.relu(x)
                    if flag:
                        return x
            """
        ),
        Valid(
            """
            class Keeps(nn.Module):
                def forward(self, x, cache):
                    y = torch.relu(x)
                    self.last = y

            class Fills(nn.Module):
                def forward(self, x, out):
                    y = torch.relu(x)
                    out[0] = y

            class Adds(nn.Module):
                def forward(self, x, outputs):
                    y = torch.relu(x)
                    outputs.append(y)

            class Overwrites(nn.Module):
                def forward(self, x: torch.Tensor):
                    y = torch.relu(x)
                    x.copy_(y)
            """
        ),
        Valid(
            """
            class Stream(nn.Module):
                def forward(self, x):
                    y = torch.relu(x)
                    yield y
            """
        ),
        Valid("def forward(x):\n    y = torch.relu(x)"),
        Valid(
            """
            class Statistics(nn.ModuleList):
                def forward(self, data: torch.Tensor):
                    known = torch.masked_select(data, ~torch.isnan(data))
                    for metric in self:
                        _ = metric(known)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 3)

                def forward(self, x):
                    x = self.fc(x)
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 3)

                def forward(self, x):
                    x = self.fc(x)
                    return x
            """,
            at=(6, 8, 6, 15),
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 3)

                def forward(self, x):
                    F.leaky_relu(
                        self.fc(x)
                    )  # scores

            def train(loader):
                model = Net()
                for x, y in loader:
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 3)

                def forward(self, x):
                    return F.leaky_relu(
                        self.fc(x)
                    )  # scores

            def train(loader):
                model = Net()
                for x, y in loader:
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
            """,
            severity="error",
        ),
        Invalid(
            """
            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.convs = nn.ModuleList([nn.Conv2d(3, 3, 3) for _ in range(4)])

                def forward(self, x):
                    print(x.shape)
                    for conv in self.convs:
                        x = torch.relu(conv(x))

            encoder = Encoder()
            features = encoder(torch.ones(1, 3, 32, 32))
            print(features.shape)
            """,
            severity="error",
        ),
    ]

    def visit_function(self, node: ast.FunctionDef, ctx: Context) -> Iterator[Finding]:
        cls = ctx.parent(node)
        if node.name != "forward" or not isinstance(cls, ast.ClassDef) or node.decorator_list:
            return
        if not _is_plain_module(cls, ctx) or _gives_something(node, ctx) or not _computes(node, ctx):
            return
        start = ctx.source.start(node)
        name = Span(
            Position(start.line, start.column + len("def ")), Position(start.line, start.column + len("def forward"))
        )
        used = _used_result(node, ctx)
        yield ctx.finding(
            self,
            node,
            f"`forward` of `{cls.name}` has no return statement, so calling the module returns None",
            severity="error" if used is not None else None,
            related=[("the result is used here", used)] if used is not None else [],
            span=name,
            fixes=[_fix(node, ctx)],
        )


def _is_plain_module(cls: ast.ClassDef, ctx: Context) -> bool:
    """Say whether calling an object is calling its ``forward``: no base of another file may do more."""
    known = ctx.class_of(cls)
    if known is None or not ctx.is_module_class(cls) or known.member("__call__") is not None:
        return False
    bases = (base for each in known.lineage() for base in each.bases)
    return all(isinstance(b, Class) or (isinstance(b, Reference) and is_module_class(b.name)) for b in bases)


def _gives_something(function: ast.FunctionDef, ctx: Context) -> bool:
    """Say whether a function returns, raises, yields, or changes something that its caller may look at."""
    for node in nodes_within(function):
        match node:
            case ast.Return(value=value) if value is not None:
                return True
            case ast.Raise() | ast.Yield() | ast.YieldFrom() | ast.Global() | ast.Nonlocal() | ast.With():
                return True
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()) | ast.AugAssign():
                return True
            case ast.Expr(value=value) if not _is_idle(value, ctx):
                return True
            case ast.Assign(targets=[ast.Name(id="_")], value=ast.Call()):
                return True  # called for what it does
            case _:
                pass
    return False


def _is_idle(value: ast.expr, ctx: Context) -> bool:
    """Say whether an expression statement surely changes nothing: a constant, a print, a tensor that nobody keeps."""
    if isinstance(value, ast.Call):
        call = ctx.call(value)
        kept = call is None or call.inplace or call.operation.endswith("_")
        return ctx.name(value.func) == "builtins.print" or (not kept and isinstance(ctx.value(value), Tensor))
    return isinstance(value, (ast.Constant, ast.Name, ast.Attribute, ast.BinOp))


def _computes(function: ast.FunctionDef, ctx: Context) -> bool:
    """Say whether a function makes a tensor that it gives a name to, or leaves as its last expression."""
    for node in nodes_within(function):
        match node:
            case ast.Assign(targets=[ast.Name()], value=ast.Call() | ast.BinOp() as value):
                made = value
            case ast.Expr(value=ast.Call() | ast.BinOp() as value) if node is function.body[-1]:
                made = value
            case _:
                continue
        if isinstance(ctx.value(made), Tensor):
            return True
    return False


def _used_result(function: FunctionNode, ctx: Context) -> ast.expr | None:
    """Return a call of the module in this file whose result something needs."""
    for site in ctx.callers(function):
        match ctx.parent(site.node):
            case ast.Call() | ast.Attribute() | ast.Subscript() | ast.BinOp():
                return site.node
            case ast.Assign(targets=[ast.Name(id=name)]) if _is_needed(name, ctx.function(site.node) or ctx.tree, ctx):
                return site.node
            case _:
                pass
    return None


def _is_needed(name: str, scope: ast.AST, ctx: Context) -> bool:
    needs = (ast.Attribute, ast.Subscript, ast.BinOp)
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(ctx.parent(n), needs) for n in ast.walk(scope))


def _fix(function: ast.FunctionDef, ctx: Context) -> Fix | None:
    last = function.body[-1]
    match last:
        case ast.Expr(value=value) if isinstance(ctx.value(value), Tensor):
            return ctx.fix("Return it", ctx.insert_before(last, "return "))
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if isinstance(ctx.value(value), Tensor):
            return ctx.fix(f"Return `{name}`", inserted(ctx, last, f"return {name}", after=True))
        case _:
            return None
