"""Rule DG765: a parameter that holds whatever was in memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Number, Sequence, Tensor
from drygrad.static.rules.modules.methods import methods_of
from drygrad.static.syntax import called, class_around
from drygrad.static.tree import walk

_PARAMETER = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
_EMPTY = frozenset({"torch.empty"})
_TYPES = frozenset({"torch.Tensor", "torch.FloatTensor"})
_SETS_UP = frozenset({"reset_parameters", "_reset_parameters", "reset", "reset_weights"})
_ALL = frozenset(
    {"parameters", "named_parameters", "apply", "state_dict", "__dict__", "getattr", "vars", "_parameters"}
)
_PARAMETERS = frozenset({"parameters", "named_parameters"})
_LOADS = re.compile(r"load_state_dict|from_pretrained|load_(weights?|checkpoint|file|params|model)|load_from|assign_")


class ParameterUninitialized(Rule):
    """
    ## What it does
    Finds `nn.Parameter(torch.empty(...))` and `nn.Parameter(torch.Tensor(rows, columns))` as an attribute of a module,
    if nothing in the file writes to it or loads a checkpoint. If only other files create such modules, it is an info:
    their code may initialize all parameters.

    ## Why is this bad?
    Both are uninitialized memory: zeros today, 1e30 or NaN tomorrow. Training starts from garbage, differs from run to
    run whatever the seed, and is sometimes NaN from the first step.

    ## Example
    ```python
    class Gate(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.Tensor(n, n))
    ```
    Use instead:
    ```python
    class Gate(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.Tensor(n, n))
            nn.init.xavier_uniform_(self.weight)
    ```

    ## Fix safety
    Unsafe: it changes the initial values.
    """

    code, name, since = "DG765", "parameter-uninitialized", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            class Anchor(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.where = nn.Parameter(torch.empty(0))
            """
        ),
        Valid(
            """
            class Norm(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.scale = nn.Parameter(torch.empty(n))

            norm = Norm(8)
            norm.load_state_dict(torch.load("norm.pt"))
            """
        ),
        Valid(
            """
            class A(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.weight = nn.Parameter(torch.empty(n, n))
                    self.bias = nn.Parameter(torch.Tensor([1.0, 2.0]))
                    self.reset_parameters()

                def reset_parameters(self):
                    nn.init.xavier_uniform_(self.weight)
            """
        ),
        Valid(
            """
            class B(nn.Module):
                def __init__(self, n, values):
                    super().__init__()
                    self.weight = nn.Parameter(torch.empty(n, n))
                    self.scale = nn.Parameter(torch.Tensor(values))
                    for p in self.parameters():
                        p.data.uniform_(-1, 1)
            """
        ),
        Valid(
            """
            from layers import glorot

            class D(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.weight = nn.Parameter(torch.empty(n, n))
                    glorot(self.weight)
            """
        ),
        Valid(
            """
            class C(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.weight = nn.Parameter(torch.empty(n, n).normal_())
            """
        ),
        Valid(
            """
            class Layers(nn.Module):
                def __init__(self, count, n):
                    super().__init__()
                    self.kernels = nn.Parameter(torch.empty(count, n, n))
                    for i in range(count):
                        nn.init.orthogonal_(self.kernels[i])
            """
        ),
        Valid(
            """
            class Cell(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.weight = nn.Parameter(torch.empty(n, n))

            class Recommender(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.cell = Cell(n)
                    for weight in self.parameters():
                        weight.data.uniform_(-0.1, 0.1)
            """
        ),
        Valid(
            """
            class Mixture(nn.Module):
                def __init__(self, n: int):
                    super().__init__()
                    self.means = nn.Parameter(torch.Tensor(n))

                def set_values(self, means):
                    assert means.shape == self.means.shape
                    self.means = nn.Parameter(means)

                def forward(self, x):
                    return x - self.means
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Bilinear(nn.Module):
                def __init__(self, a, b):
                    super().__init__()
                    self.weight = nn.Parameter(torch.Tensor(a, b))
                    self.bias = nn.Parameter(torch.zeros(1))

                def forward(self, x, y):
                    return (x @ self.weight * y).sum(-1) + self.bias

            layer = Bilinear(3, 4)
            """,
            """
            class Bilinear(nn.Module):
                def __init__(self, a, b):
                    super().__init__()
                    self.weight = nn.Parameter(torch.Tensor(a, b))
                    nn.init.xavier_uniform_(self.weight)
                    self.bias = nn.Parameter(torch.zeros(1))

                def forward(self, x, y):
                    return (x @ self.weight * y).sum(-1) + self.bias

            layer = Bilinear(3, 4)
            """,
            at=(4, 22, 4, 54),
        ),
        Invalid(
            """
            class Prompt(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.tokens = nn.Parameter(torch.empty(n))

                def forward(self, x):
                    return x + self.tokens
            """,
            severity="info",
        ),
    ]

    def visit_class(self, node: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
        if not ctx.is_module_class(node):
            return
        made = [*_empty_parameters(node, ctx)]  # few have any: what follows reads the whole class
        if not made or any(_treats_all(part) for part in walk(node)) or _is_extended(node, ctx):
            return
        for name, statement, call in made:
            if _is_written(name, statement, ctx):
                continue
            message = f"self.{name} holds uninitialized memory; nothing in this file initializes it"
            severity = None if _is_made_here(node, ctx) else "info"  # else a module elsewhere may hold it
            fixes = [self._fix(ctx, statement, name, call)]
            yield ctx.finding(self, call, message, severity=severity, fixes=fixes)

    def _fix(self, ctx: Context, statement: ast.Assign, name: str, made: ast.Call) -> Fix | None:
        inner = made.args[0]
        init = ctx.imported_as("torch.nn")
        if init is None or not isinstance(inner, ast.Call) or len(inner.args) < 2:
            return None
        text = f"{init}.init.xavier_uniform_(self.{name})"
        return ctx.fix("Initialize it", ctx.insert_statement(statement, text, after=True))


def _empty_parameters(node: ast.ClassDef, ctx: Context) -> Iterator[tuple[str, ast.Assign, ast.Call]]:
    """Yield the attributes that a class binds to parameters of memory that nothing was written to."""
    for method in methods_of(node):
        for statement in walk(method):
            match statement:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Call() as made
                ) if _is_empty(made, ctx):
                    yield name, statement, made
                case _:
                    pass


def _is_empty(made: ast.Call, ctx: Context) -> bool:
    """Say whether a call makes a parameter of memory that nothing was written to."""
    match made:
        case ast.Call(func=function, args=[ast.Call(func=factory, args=sizes)]) if ctx.name(function) in _PARAMETER:
            name = ctx.name(factory)
        case _:
            return False
    if any(ctx.value(size) == Constant(0) for size in _sizes(sizes)):
        return False
    if name in _EMPTY:
        return True
    return name in _TYPES and bool(sizes) and (len(sizes) > 1 or _is_size(sizes[0], ctx))


def _sizes(given: list[ast.expr]) -> Iterator[ast.expr]:
    for size in given:
        yield from size.elts if isinstance(size, (ast.Tuple, ast.List)) else (size,)


def _is_size(node: ast.expr, ctx: Context) -> bool:
    value = ctx.value(node)
    if isinstance(value, (Sequence, Tensor)):
        return False
    return isinstance(value, Number) or (isinstance(value, Constant) and isinstance(value.value, int))


def _is_written(name: str, made: ast.Assign, ctx: Context) -> bool:
    """Say whether something in the file may give an attribute of that name its values."""
    for attribute in ctx.nodes(ast.Attribute):
        if attribute.attr != name or ctx.parent(attribute) is made:
            continue
        read: ast.AST = attribute
        parent = ctx.parent(read)
        while isinstance(parent, ast.Subscript) and parent.value is read and isinstance(parent.ctx, ast.Load):
            read, parent = parent, ctx.parent(parent)  # writing into a row writes into the parameter
        if isinstance(parent, ast.keyword):
            parent = ctx.parent(parent)
        match parent:
            case ast.Call(func=function):
                if read is not function and not _only_reads(function, ctx):
                    return True
            case ast.Attribute(attr=used):
                if used.endswith("_") or used == "data":
                    return True
            case ast.Assign(value=value) if value is not read and not isinstance(value, ast.Constant):
                if ctx.function(attribute) is not ctx.function(made):
                    return True  # another method gives it another parameter
            case ast.Subscript(ctx=ast.Store()) | ast.Tuple() | ast.List() | ast.For():
                return True
            case _:
                pass
    return False


def _only_reads(function: ast.expr, ctx: Context) -> bool:
    """Say whether a call is of an operation of torch's that writes nothing."""
    name = ctx.name(function) or ""
    return name.startswith("torch.") and not name.startswith("torch.nn.init.") and not name.endswith("_")


def _treats_all(node: ast.AST) -> bool:
    """Say whether all parameters of a module are treated alike somewhere."""
    match node:
        case ast.FunctionDef(name=name):
            return name in _SETS_UP or ("init" in name.lower() and name != "__init__")
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in _ALL or ("init" in name.lower() and name not in ("__init__", "init"))
        case _:
            return False


def _is_extended(node: ast.ClassDef, ctx: Context) -> bool:
    """Say whether a class of the file, or one of another, may fill the parameter."""
    cls = ctx.class_of(node)
    if cls is None or any(cls in other.bases for other in ctx.classes()):
        return True
    return not cls.known_bases or ctx.derived(_fills_from_outside)


def _is_made_here(node: ast.ClassDef, ctx: Context) -> bool:
    """Say whether the file itself makes a module of the class outside of others, which could fill its parameters."""
    made = (call for call in ctx.nodes(ast.Call) if called(call) == node.name)
    return any(class_around(call, ctx) is None for call in made)


def _fills_from_outside(ctx: Context) -> bool:
    """Say whether the file gives whole modules their values: by a function, in a loop, or from a checkpoint."""
    return any(called(call) == "apply" or _LOADS.search(called(call)) for call in ctx.nodes(ast.Call)) or any(
        _fills_each(loop, ctx) for loop in ctx.nodes(ast.For)
    )


def _fills_each(loop: ast.For, ctx: Context) -> bool:
    """Say whether a loop goes through the parameters of a module, which may hold others, and writes into them."""
    if not any(isinstance(node, ast.Call) and called(node) in _PARAMETERS for node in walk(loop.iter)):
        return False
    calls = (node for statement in loop.body for node in walk(statement) if isinstance(node, ast.Call))
    return any(called(call).endswith("_") for call in calls)
