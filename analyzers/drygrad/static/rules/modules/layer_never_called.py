"""Rule DG756: a layer that no method of its module uses, perhaps for another that is called twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Class, Object
from drygrad.static.parameters import has_parameters
from drygrad.static.rules.modules.methods import method, methods_of
from drygrad.static.syntax import own_nodes
from drygrad.static.tree import walk

_SETS_UP = frozenset({"__init__", "reset_parameters", "_reset_parameters", "init_weights", "_init_weights"})
_BY_NAME = frozenset({"getattr", "vars", "children", "named_children", "modules", "named_modules", "get_submodule"})
_FIELDS = frozenset({"_modules", "__dict__"})


class LayerNeverCalled(Rule):
    """
    ## What it does
    Finds layers with parameters that an `nn.Module` creates in `__init__` and nothing in the file uses. If `forward`
    calls a layer of the same kind twice instead, the finding is a warning on the second call; otherwise it is an info.

    ## Why is this bad?
    If `self.conv3` was created but `forward` calls `self.conv2` again, the model shares weights by accident and has one
    layer less. Nothing raises, because both layers have the same shape. (A layer that is never called may be a
    leftover; `DistributedDataParallel` raises on its missing gradients.)

    ## Example
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(8, 8, 3)
            self.conv2 = nn.Conv2d(8, 8, 3)

        def forward(self, x):
            x = torch.relu(self.conv1(x))
            return torch.relu(self.conv1(x))
    ```
    Use instead:
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(8, 8, 3)
            self.conv2 = nn.Conv2d(8, 8, 3)

        def forward(self, x):
            x = torch.relu(self.conv1(x))
            return torch.relu(self.conv2(x))
    ```

    ## Fix safety
    Unsafe: it changes what the model computes.
    """

    code, name, since = "DG756", "layer-never-called", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc1, self.fc2 = nn.Linear(8, 8), nn.Linear(8, 8)
                    self.act = nn.ReLU()

                def forward(self, x):
                    return self.fc2(self.fc1(x)) + self.fc1(x)
            """
        ),
        Valid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc1 = nn.Linear(8, 8)
                    self.fc2 = nn.Linear(8, 8)

                def forward(self, x):
                    for i in (1, 2):
                        x = getattr(self, f"fc{i}")(x)
                    return x
            """
        ),
        Valid(
            """
            class Base(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)

                def forward(self, x):
                    return self.step(x)

            class Net(Base):
                def step(self, x):
                    return x
            """
        ),
        Valid(
            """
            class Base(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.table = nn.Embedding(8, 8)

                def forward(self, x):
                    raise NotImplementedError
            """
        ),
        Valid(
            """
            class Shared(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
                    self.three = nn.Linear(4, 4)
                    self.four = nn.Linear(4, 4)
                    self.layers = nn.ModuleList([self.three, nn.ReLU(), self.three])
                    self.body = nn.Sequential(self.four, nn.ReLU())

                def forward(self, x):
                    for layer in self.layers:
                        x = layer(x)
                    return self.two(self.one(self.body(x)))
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv1 = nn.Conv2d(1, 8, 3)
                    self.conv2 = nn.Conv2d(8, 8, 3)
                    self.conv3 = nn.Conv2d(8, 8, 3)

                def forward(self, x):
                    x = F.relu(self.conv1(x))
                    x = F.relu(self.conv2(x))
                    return F.relu(self.conv2(x))
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv1 = nn.Conv2d(1, 8, 3)
                    self.conv2 = nn.Conv2d(8, 8, 3)
                    self.conv3 = nn.Conv2d(8, 8, 3)

                def forward(self, x):
                    x = F.relu(self.conv1(x))
                    x = F.relu(self.conv2(x))
                    return F.relu(self.conv3(x))
            """,
            at=(11, 22, 11, 35),
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)
                    self.head = nn.Linear(8, 2)
                    nn.init.zeros_(self.head.bias)

                def forward(self, x):
                    return self.fc(x)
            """,
            at=(5, 8, 5, 35),
            severity="info",
        ),
    ]

    def visit_class(self, node: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
        cls = ctx.class_of(node)
        start, forward = method(node, "__init__"), method(node, "forward")
        if cls is None or start is None or forward is None or not ctx.is_module_class(node):
            return
        if not _is_plain(cls) or _is_extended(cls, ctx) or _is_to_be_extended(node):
            return
        if any(_reads_by_name(n) for n in walk(node)):
            return
        made = _layers(start, ctx)
        for name, (statement, layer) in made.items():
            if _is_used(name, node, ctx):
                continue
            again = _called_again(forward, [n for n, (_, other) in made.items() if n != name and _alike(layer, other)])
            if again is None:
                message = f"self.{name} is never used in this file; its parameters are not trained"
                yield ctx.finding(self, statement, message, severity="info")
                continue
            message = f"self.{again.attr} is called twice, and self.{name}, a layer of the same kind, never"
            fix = ctx.fix(f"Call `self.{name}`", ctx.replace(again, f"{ctx.source_of(again.value)}.{name}"))
            call = ctx.parent(again)
            place = call if isinstance(call, ast.Call) else again
            yield ctx.finding(self, place, message, related=[("never called", statement)], fixes=[fix])


def _is_plain(cls: Class) -> bool:
    """Say whether a class is a module by itself: what else it inherits may use its layers."""
    return cls.known_bases and not any(isinstance(base, Class) for base in cls.bases) and len(cls.bases) == 1


def _is_extended(cls: Class, ctx: Context) -> bool:
    return any(cls in other.bases for other in ctx.classes())


def _is_to_be_extended(node: ast.ClassDef) -> bool:
    """Say whether a class leaves a method to those that inherit from it, perhaps in another file."""
    return any(isinstance(n, ast.Raise) and "NotImplementedError" in ast.unparse(n) for n in walk(node)) or any(
        "abstract" in ast.unparse(decorator) for m in methods_of(node) for decorator in m.decorator_list
    )


def _reads_by_name(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _BY_NAME or name in _FIELDS
        case _:
            return False


def _layers(start: ast.FunctionDef, ctx: Context) -> dict[str, tuple[ast.stmt, Object]]:
    """Return the layers that a constructor surely gives attributes of their own."""
    found: dict[str, tuple[ast.stmt, Object]] = {}
    for statement in start.body:
        match statement:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Call() as call):
                layer = ctx.value(call)
                if isinstance(layer, Object) and has_parameters(layer, ctx):
                    found[name] = statement, layer
            case _:
                pass
    return found


def _is_used(name: str, node: ast.ClassDef, ctx: Context) -> bool:
    """Say whether something reads an attribute of that name, the set-up of the class aside."""
    inside = {id(n) for m in methods_of(node) if m.name in _SETS_UP for n in walk(m)}
    for read in ctx.nodes(ast.Attribute):
        if read.attr != name or not isinstance(read.ctx, ast.Load):
            continue
        if id(read) not in inside or _is_handed_on(read, ctx):
            return True
    return any(n.value == name for n in ctx.nodes(ast.Constant) if isinstance(n.value, str))


def _is_handed_on(read: ast.Attribute, ctx: Context) -> bool:
    """Say whether the set-up puts a layer elsewhere: under another name, in a list, into a module of several."""
    parent = ctx.parent(read)
    if isinstance(parent, ast.Call):
        return read in parent.args and isinstance(ctx.value(parent), Object)
    return isinstance(parent, (ast.List, ast.Tuple, ast.Dict, ast.Assign, ast.AnnAssign, ast.keyword))


def _alike(layer: Object, other: Object) -> bool:
    return layer.type == other.type and layer.cls is None and layer.arguments == other.arguments


def _called_again(forward: ast.FunctionDef, names: list[str]) -> ast.Attribute | None:
    """Return the second call of a layer that is called exactly twice."""
    for name in names:
        calls = [
            node.func
            for node in own_nodes(*forward.body)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
        ]
        if len(calls) == 2:
            return calls[1]
    return None
