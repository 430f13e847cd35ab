"""Rule DG740: Module.__init__ not called before modules are assigned."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import inserted
from drygrad.static.facts.values import Class, Function, Object, Reference, Tensor
from drygrad.static.rules.modules.methods import attribute_of, method, self_name
from drygrad.static.syntax import nodes_within

_REGISTERING = frozenset({"add_module", "register_module", "register_buffer", "register_parameter"})
_WITHOUT_ARGUMENTS = frozenset({"torch.nn.Module", "torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"})


class MissingSuperInit(Rule):
    """
    ## What it does
    Finds an `__init__` of an `nn.Module` that assigns a layer, parameter or buffer before `super().__init__()`, or
    without it.

    ## Why is this bad?
    `Module.__init__` creates the tables in which layers and parameters are registered. Without them, the first
    assignment raises "AttributeError: cannot assign module before Module.__init__() call".

    ## Example
    ```python
    class Net(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(784, 10)
    ```
    Use instead:
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(784, 10)
    ```

    ## Fix safety
    Safe: before, creating an instance raised.
    """

    code, name, since = "DG740", "missing-super-init", "0.1"
    severity = "error"
    VALID = [
        Valid(
            """
            class A(nn.Module):
                def __init__(self, size):
                    self.size = size  # plain values may come first
                    super().__init__()
                    self.fc = nn.Linear(size, size)

            class B(nn.Module):
                def __init__(self):
                    nn.Module.__init__(self)
                    self.fc = nn.Linear(2, 2)

            class C(A):
                def __init__(self):
                    super(C, self).__init__(4)
                    self.scale = nn.Parameter(torch.ones(1))
            """
        ),
        Valid(
            """
            class Mixin:
                def setup(self):
                    super().__init__()

            class Net(Mixin, nn.Module):
                def __init__(self):
                    self.setup()
                    self.fc = nn.Linear(2, 2)
            """
        ),
        Valid(
            """
            class Trainer:
                def __init__(self):
                    self.model = nn.Linear(2, 2)
            """
        ),
        Valid(
            """
            class Net(nn.Module):
                def __new__(cls):
                    net = super().__new__(cls)
                    nn.Module.__init__(net)
                    return net

                def __init__(self):
                    self.fc = nn.Linear(2, 2)
            """
        ),
        Valid(
            """
            def init(module):
                nn.Module.__init__(module)

            class Net(nn.Module):
                def __init__(self):
                    init(self)
                    self.fc = nn.Linear(2, 2)
            """
        ),
        Valid(
            """
            class Wrapper(nn.Module):
                def __init__(self):
                    self.inner: nn.Linear
                    super().__init__()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    self.fc = nn.Linear(784, 10)

                def forward(self, x):
                    return self.fc(x)
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(784, 10)

                def forward(self, x):
                    return self.fc(x)
            """,
            at=(3, 8, 3, 15),
        ),
        Invalid(
            '''
            import torch
            from torch import nn

            class Encoder(nn.Module):
                def __init__(self, vocabulary: int, hidden: int = 256):
                    """Embed, then run a GRU."""
                    self.hidden = hidden
                    self.embedding = nn.Embedding(vocabulary, hidden)
                    self.gru = nn.GRU(hidden, hidden)
                    super(Encoder, self).__init__()

                def forward(self, x):
                    return self.gru(self.embedding(x))
            ''',
            '''
            import torch
            from torch import nn

            class Encoder(nn.Module):
                def __init__(self, vocabulary: int, hidden: int = 256):
                    """Embed, then run a GRU."""
                    super(Encoder, self).__init__()
                    self.hidden = hidden
                    self.embedding = nn.Embedding(vocabulary, hidden)
                    self.gru = nn.GRU(hidden, hidden)

                def forward(self, x):
                    return self.gru(self.embedding(x))
            ''',
            at=(8, 8, 8, 22),
        ),
        Invalid(
            """
            class Base(nn.Module):
                def __init__(self, size):
                    super().__init__()
                    self.size = size

            class Scale(Base):
                def __init__(self, size):
                    self.scale = nn.Parameter(torch.ones(size))
            """
        ),
        Invalid(
            """
            class Mask(nn.Module):
                def __init__(self):
                    self.register_buffer("mask", torch.ones(3))
            """,
            """
            class Mask(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("mask", torch.ones(3))
            """,
            at=(3, 8, 3, 28),
        ),
    ]

    def visit_class(self, node: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
        init, cls = method(node, "__init__"), ctx.class_of(node)
        if init is None or cls is None or not self_name(init) or not ctx.is_module_class(node):
            return
        if cls.member("__new__") is not None or cls.member("__setattr__") is not None or not cls.known_bases:
            return
        culprit = _registered_too_soon(init, ctx)
        if culprit is None:
            return
        yield ctx.finding(
            self,
            culprit,
            f"`Module.__init__` has not run when `{ctx.source_of(culprit)}` is registered; creating a `{node.name}` "
            "raises AttributeError",
            fixes=[_fix(init, cls, ctx)],
        )


def _registered_too_soon(init: ast.FunctionDef, ctx: Context) -> ast.Attribute | None:
    """Return what registers first, where surely nothing has run ``Module.__init__`` by then."""
    owner = self_name(init)
    for node in nodes_within(init):
        match node:
            case ast.Name(id="super") | ast.Attribute(attr="__init__"):
                return None
            case ast.Name(id=name) if name == owner and not isinstance(ctx.parent(node), ast.Attribute):
                return None
            case ast.Call(func=ast.Attribute(attr=called) as function) if attribute_of(function, owner):
                return function if called in _REGISTERING else None
            case ast.Attribute(ctx=ast.Store()) if attribute_of(node, owner) and _is_registered(node, ctx):
                return node
            case _:
                pass
    return None


def _is_registered(target: ast.Attribute, ctx: Context) -> bool:
    parent = ctx.parent(target)
    if isinstance(parent, ast.AnnAssign) and parent.value is None:
        return False
    value = ctx.value(target)
    if isinstance(value, Tensor):
        return value.parameter
    return isinstance(value, Object) and value.is_module


def _fix(init: ast.FunctionDef, cls: Class, ctx: Context) -> Fix | None:
    if not _takes_no_arguments(cls):
        return None
    late = [s for s in init.body if _is_plain_call(s)]
    if not late and any(isinstance(n, ast.Attribute) and n.attr == "__init__" for n in nodes_within(init)):
        return None
    text = ctx.source_of(late[0]) if late else "super().__init__()"
    removed = [ctx.delete_statement(late[0])] if late else []
    return ctx.fix("Call `super().__init__()` first", *removed, _inserted_first(init, text, ctx), safety="safe")


def _is_plain_call(statement: ast.stmt) -> bool:
    """Say whether a statement is ``super().__init__()`` without arguments, in any spelling."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Call(), attr="__init__"), args=[], keywords=[])):
            return True
        case _:
            return False


def _inserted_first(init: ast.FunctionDef, text: str, ctx: Context) -> Edit | None:
    documented = ast.get_docstring(init) is not None
    return inserted(ctx, init.body[0], text, after=documented)


def _takes_no_arguments(cls: Class) -> bool:
    """Say whether the base whose ``__init__`` is to be called needs nothing but ``self``."""
    for base in cls.bases:
        if isinstance(base, Class):
            inherited = base.member("__init__")
            if isinstance(inherited, Function):
                arguments = inherited.node.args
                return len(arguments.args) <= 1 + len(arguments.defaults) and not arguments.kwonlyargs
            return _takes_no_arguments(base)
        if isinstance(base, Reference):
            return base.name in _WITHOUT_ARGUMENTS or base.name.endswith("LightningModule")
    return False
