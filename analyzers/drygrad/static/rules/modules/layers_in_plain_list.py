"""Rule DG741: layers held by a plain list or dict."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import written_as
from drygrad.static.facts.values import Object
from drygrad.static.parameters import has_parameters
from drygrad.static.rules.modules.methods import attributes_assigned, is_initialised_before, method
from drygrad.static.tree import walk

Container: TypeAlias = ast.List | ast.Tuple | ast.ListComp | ast.Dict | ast.DictComp
_TAKES_CARE = frozenset({"parameters", "named_parameters", "__setattr__", "_apply", "train", "state_dict"})
"""Methods by which a class may reach the layers in its own way."""
_REGISTERS = frozenset(
    "add_module register_module register_parameter setattr parameters named_parameters state_dict".split()
)
_READERS = frozenset("enumerate len zip reversed range iter next sum any all print repr str isinstance".split())
_LIST_METHODS = frozenset({"append", "extend", "insert", "pop"})
_DICT_METHODS = frozenset({"items", "keys", "values", "update", "pop"})
_TAKEN = frozenset(
    "add_module apply bfloat16 buffers call_super_init children clear compile cpu cuda double dump_patches eval "
    "extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu items keys "
    "load_state_dict modules mtia parameters pop register_buffer register_module register_parameter requires_grad_ "
    "share_memory state_dict to to_empty train training type update values xpu zero_grad".split()
)
"""Attributes of a ModuleDict: it refuses keys of these names."""


class LayersInPlainList(Rule):
    """
    ## What it does
    Finds `self.layers = [nn.Linear(...), ...]`: a list, tuple or dict of layers as an attribute of an `nn.Module`.

    ## Why is this bad?
    A module only registers submodules that are attributes themselves, or are in an `nn.ModuleList` or `nn.ModuleDict`.
    `parameters()` does not include layers in a plain list, so the optimizer never trains them; `.to(device)`,
    `train()`, `eval()` and `state_dict()` skip them.

    ## Example
    ```python
    class Tower(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(64, 64) for _ in range(4)]
    ```
    Use instead:
    ```python
    class Tower(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(4)])
    ```

    ## Fix safety
    Unsafe: the layers are now trained, moved and saved; older checkpoints lack them.
    """

    code, name, since = "DG741", "layers-in-plain-list", "0.1"
    VALID = [
        Valid(
            """
            class Cross(nn.Module):
                def __init__(self, depth):
                    super().__init__()
                    self.parts = [nn.Linear(4, 4) for _ in range(2 * depth)]
                    self.first, self.second = nn.ModuleList(self.parts[:depth]), nn.ModuleList(self.parts[depth:])
            """
        ),
        Valid(
            """
            class Blur(nn.Module):
                def __init__(self, sigmas):
                    super().__init__()
                    self.sigmas = [nn.Parameter(torch.as_tensor(s)) for s in sigmas]
                    for index, sigma in enumerate(self.sigmas):
                        self.register_parameter(f"sigma_{index}", sigma)
            """
        ),
        Valid(
            """
            class Net(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(n)])
                    self.acts = [nn.ReLU(), nn.Tanh()]  # nothing to learn in them
                    self.fc1, self.fc2 = nn.Linear(8, 8), nn.Linear(8, 8)
                    self.order = [self.fc1, self.fc2]
                    blocks = [nn.Linear(8, 8), nn.ReLU()]
                    self.body = nn.Sequential(*blocks)
            """
        ),
        Valid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.convs = [nn.Conv1d(8, 8, k) for k in (3, 5)]
                    for i, conv in enumerate(self.convs):
                        self.add_module(f"conv{i}", conv)
            """
        ),
        Valid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.parts = [nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)]
                    self.net = nn.Sequential(*self.parts)
                    self.parts = nn.ModuleList(self.parts)
            """
        ),
        Valid(
            """
            class Perceptual(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.hidden = [nn.Conv2d(3, 8, 3)]  # kept out of the parameters on purpose
            """
        ),
        Valid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    layers = []
                    for i in range(3):
                        layers.append(nn.Linear(8, 8))
                    self.layers = layers
                    self.body = nn.Sequential(*layers)
            """
        ),
        Valid(
            """
            class Ensemble:
                def __init__(self):
                    self.models = [nn.Linear(8, 1) for _ in range(5)]
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = [nn.Linear(64, 64) for _ in range(4)]

                def forward(self, x):
                    for layer in self.layers:
                        x = layer(x)
                    return x
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(4)])

                def forward(self, x):
                    for layer in self.layers:
                        x = layer(x)
                    return x
            """,
            at=(4, 8, 4, 19),
        ),
        Invalid(
            """
            class Heads(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.heads = {"age": nn.Linear(8, 1), "sex": nn.Linear(8, 2)}
            """,
            """
            class Heads(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.heads = nn.ModuleDict({"age": nn.Linear(8, 1), "sex": nn.Linear(8, 2)})
            """,
        ),
        Invalid(
            """
            import torch
            from torch import nn

            class Block(nn.Module):
                def __init__(self, channels):
                    super().__init__()
                    self.conv = nn.Conv2d(channels, channels, 3, padding=1)
                    self.norm = nn.BatchNorm2d(channels)

                def forward(self, x):
                    return self.norm(self.conv(x)).relu() + x

            class ResNet(nn.Module):
                def __init__(self, depth: int, classes: int = 10):
                    super().__init__()
                    self.stem = nn.Conv2d(3, 64, 3)
                    self.blocks = []
                    for _ in range(depth):
                        self.blocks.append(Block(64))
                    self.head = nn.Linear(64, classes)

                def forward(self, x):
                    x = self.stem(x)
                    for block in self.blocks:
                        x = block(x)
                    return self.head(x.mean(dim=(2, 3)))
            """,
            """
            import torch
            from torch import nn

            class Block(nn.Module):
                def __init__(self, channels):
                    super().__init__()
                    self.conv = nn.Conv2d(channels, channels, 3, padding=1)
                    self.norm = nn.BatchNorm2d(channels)

                def forward(self, x):
                    return self.norm(self.conv(x)).relu() + x

            class ResNet(nn.Module):
                def __init__(self, depth: int, classes: int = 10):
                    super().__init__()
                    self.stem = nn.Conv2d(3, 64, 3)
                    self.blocks = nn.ModuleList([])
                    for _ in range(depth):
                        self.blocks.append(Block(64))
                    self.head = nn.Linear(64, classes)

                def forward(self, x):
                    x = self.stem(x)
                    for block in self.blocks:
                        x = block(x)
                    return self.head(x.mean(dim=(2, 3)))
            """,
            at=(17, 8, 17, 19),
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self, sizes):
                    super().__init__()
                    layers = [nn.Linear(a, b) for a, b in sizes]
                    self.layers = layers
                    self.by_size = {size: nn.Linear(8, size) for size in (3, 4)}
            """,
            """
            class Net(nn.Module):
                def __init__(self, sizes):
                    super().__init__()
                    layers = [nn.Linear(a, b) for a, b in sizes]
                    self.layers = nn.ModuleList(layers)
                    self.by_size = {size: nn.Linear(8, size) for size in (3, 4)}
            """,
            count=2,
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self, depth):
                    super().__init__()
                    layers = []
                    for _ in range(depth):
                        layers.append(nn.Linear(8, 8))
                        layers.append(nn.ReLU())
                    self.layers = layers
            """,
            """
            class Net(nn.Module):
                def __init__(self, depth):
                    super().__init__()
                    layers = []
                    for _ in range(depth):
                        layers.append(nn.Linear(8, 8))
                        layers.append(nn.ReLU())
                    self.layers = nn.ModuleList(layers)
            """,
        ),
    ]

    def visit_class(self, node: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
        init, cls = method(node, "__init__"), ctx.class_of(node)
        if init is None or cls is None or not ctx.is_module_class(node):
            return
        if any(cls.member(name) is not None for name in _TAKES_CARE) or _registers(node):
            return
        for target, statement in attributes_assigned(init):
            container = _container(statement.value, init)
            if container is None or not _holds_layers(_holder(target, statement), container, init, ctx):
                continue
            if _is_handed_on(target.attr, node):
                continue
            kind = "dict" if isinstance(container, (ast.Dict, ast.DictComp)) else _kind(container)
            yield ctx.finding(
                self,
                target,
                f"`{ctx.source_of(target)}` is a plain {kind}, so its layers are not registered; `parameters()`, "
                "`.to()` and `state_dict()` miss them",
                fixes=[_fix(target, statement.value, container, node, ctx)],
            )


def _kind(container: Container) -> str:
    return "tuple" if isinstance(container, ast.Tuple) else "list"


def _container(value: ast.expr | None, init: ast.FunctionDef) -> Container | None:
    """Return the display that a value is: written there, or given to a local name that has no other use."""
    match value:
        case ast.List() | ast.Tuple() | ast.ListComp() | ast.Dict() | ast.DictComp():
            return value
        case ast.Name(id=name):
            made = _made_locally(name, init)
            return _container(made, init) if made is not None and _is_only_filled(value, init) else None
        case _:
            return None


def _holder(target: ast.Attribute, statement: ast.Assign | ast.AnnAssign) -> ast.expr:
    """Return what the layers are put into: the attribute, or the local name that it is given."""
    return statement.value if isinstance(statement.value, ast.Name) else target


def _made_locally(name: str, init: ast.FunctionDef) -> ast.expr | None:
    """Return what a local name is given, where that happens once."""
    made = [
        s.value
        for s in ast.walk(init)
        if isinstance(s, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in s.targets)
    ]
    return made[0] if len(made) == 1 else None


def _is_only_filled(given: ast.Name, init: ast.FunctionDef) -> bool:
    """Say whether a local list is bound, appended to and then given away, and nothing else."""
    uses = [n for n in ast.walk(init) if isinstance(n, ast.Name) and n.id == given.id]
    appended = [n.value for n in ast.walk(init) if isinstance(n, ast.Attribute) and n.attr == "append"]
    return all(
        use is given or (use.lineno < given.lineno and (isinstance(use.ctx, ast.Store) or use in appended))
        for use in uses
    )


def _holds_layers(holder: ast.expr, container: Container, init: ast.FunctionDef, ctx: Context) -> bool:
    """Say whether a container surely gets newly made layers, several of them."""
    match container:
        case ast.ListComp(elt=element) | ast.DictComp(value=element):
            return _is_new_layer(element, ctx)
        case ast.List(elts=[]) | ast.Dict(values=[]):
            return any(_is_new_layer(item, ctx) for item in _added(holder, init))
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Dict(values=items):
            return len(items) > 1 and any(_is_new_layer(item, ctx) for item in items)


def _is_new_layer(node: ast.expr, ctx: Context) -> bool:
    return isinstance(node, ast.Call) and has_parameters(ctx.value(node), ctx)


def _added(holder: ast.expr, init: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield what ``self.layers.append(...)`` and ``self.layers[key] = ...`` put into an empty container."""
    text = ast.unparse(holder)
    for node in ast.walk(init):
        match node:
            case ast.Call(func=ast.Attribute(value=held, attr="append"), args=[item]):
                added = item
            case ast.Assign(targets=[ast.Subscript(value=held)], value=item):
                added = item
            case _:
                continue
        if ast.unparse(held) == text:
            yield added


# -- what else may register the layers --------------------------------------------------------------------------


def _registers(node: ast.ClassDef) -> bool:
    """Say whether a class registers modules by name somewhere, or collects parameters by hand."""
    return any(isinstance(n, ast.Call) and _called(n) in _REGISTERS for n in walk(node))


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _is_handed_on(attribute: str, node: ast.ClassDef) -> bool:
    """Say whether ``self.layers`` is an argument of anything that may keep it, or is bound anew."""
    stores = 0
    for inner in walk(node):
        match inner:
            case ast.Call(args=args, keywords=keywords) if _called(inner) not in _READERS:
                given = [*args, *(k.value for k in keywords)]
                if any(_is_it(a.value if isinstance(a, ast.Starred) else a, attribute) for a in given):
                    return True
            case ast.Attribute(attr=attr, ctx=ast.Store()) if attr == attribute:
                stores += 1
            case ast.Return(value=ast.Attribute(attr=attr)) if attr == attribute:
                return True
            case _:
                pass
    return stores > 1


def _is_it(node: ast.expr, attribute: str) -> bool:
    """Say whether an expression is ``self.layers``, or some of them: ``self.layers[:2]``."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == attribute


# -- the fix ----------------------------------------------------------------------------------------------------


def _fix(
    target: ast.Attribute, value: ast.expr | None, container: Container, node: ast.ClassDef, ctx: Context
) -> Fix | None:
    init = method(node, "__init__")
    wrapper = "ModuleDict" if isinstance(container, (ast.Dict, ast.DictComp)) else "ModuleList"
    name = written_as(ctx, f"torch.nn.{wrapper}")
    if init is None or value is None or name is None or not is_initialised_before(target, init):
        return None
    if not _can_be_wrapped(container, value if isinstance(value, ast.Name) else target, init, ctx) or not _used_methods(
        target.attr, node
    ) <= (_DICT_METHODS if wrapper == "ModuleDict" else _LIST_METHODS):
        return None
    text = ctx.source_of(value)
    given = f"({text})" if isinstance(value, ast.Tuple) and not text.startswith("(") else text
    return ctx.fix(f"Use `nn.{wrapper}`", ctx.replace(value, f"{name}({given})"))


def _can_be_wrapped(container: Container, holder: ast.expr, init: ast.FunctionDef, ctx: Context) -> bool:
    """Say whether all that a container holds are surely modules, and its keys names that a ModuleDict takes."""
    match container:
        case ast.ListComp():
            return True
        case ast.DictComp(key=key):
            return isinstance(key, ast.JoinedStr)
        case ast.Dict(keys=[]):
            return False
        case ast.Dict(keys=keys, values=items):
            return all(_is_module_name(key) for key in keys) and all(_is_module(item, ctx) for item in items)
        case ast.List(elts=[]):
            return all(_is_module(item, ctx) for item in _added(holder, init))
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return all(_is_module(item, ctx) for item in items)


def _is_module(node: ast.expr, ctx: Context) -> bool:
    value = ctx.value(node)
    return isinstance(value, Object) and value.is_module


def _is_module_name(key: ast.expr | None) -> bool:
    """Say whether a key is a literal that no method of a module is called by."""
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return False
    return key.value != "" and "." not in key.value and key.value not in _TAKEN


def _used_methods(attribute: str, node: ast.ClassDef) -> set[str]:
    """Return the names ``x`` of ``self.layers.x`` in a class."""
    return {n.attr for n in walk(node) if isinstance(n, ast.Attribute) and _is_it(n.value, attribute)}
