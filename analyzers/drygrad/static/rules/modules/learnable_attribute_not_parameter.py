"""Rule DG744: a learnable tensor of a module that is no parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Span, Valid
from drygrad.static.context import Context
from drygrad.static.editing import written_as
from drygrad.static.facts.values import Tensor
from drygrad.static.rules.modules.methods import (
    attribute_of,
    attributes_assigned,
    is_initialised_before,
    method,
    self_name,
)

_CONVERSIONS = frozenset({"to", "cuda", "half", "double", "bfloat16", "type", "type_as"})
_TAKES_CARE = frozenset({"parameters", "named_parameters", "__setattr__", "_apply"})


class LearnableAttributeNotParameter(Rule):
    """
    ## What it does
    Finds `self.weight = torch.randn(..., requires_grad=True)` in the `__init__` of an `nn.Module`, and
    `self.weight = nn.Parameter(...).to(device)`.

    ## Why is this bad?
    Autograd computes a gradient for the tensor, but it is not registered: `parameters()` does not include it, so the
    optimizer never updates it; `.to(device)` does not move it, and `state_dict()` does not save it.
    `nn.Parameter(...).cuda()` has the same problem: it is a plain tensor computed from a parameter that nothing keeps.

    ## Example
    ```python
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.ones(64, requires_grad=True)
    ```
    Use instead:
    ```python
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(64))
    ```

    ## Fix safety
    Unsafe: the tensor is now trained, moved and saved; older checkpoints lack it.
    """

    code, name, since = "DG744", "learnable-attribute-not-parameter", "0.1"
    VALID = [
        Valid(
            """
            class Scale(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(3))
                    self.offset = torch.zeros(3)
                    self.frozen = torch.randn(3, requires_grad=False)
                    self.register_parameter("bias", nn.Parameter(torch.zeros(3)))
            """
        ),
        Valid(
            """
            class Scale(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = torch.ones(3, requires_grad=True)
                    self.all = nn.ParameterList([self.scale])
            """
        ),
        Valid(
            """
            class Prompt(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.latent = torch.zeros(3, requires_grad=True)

            prompt = Prompt()
            optimizer = torch.optim.Adam([prompt.latent])
            """
        ),
        Valid(
            """
            class Linear:
                def __init__(self):
                    self.weight = torch.randn(3, 3, requires_grad=True)

                def parameters(self):
                    return [self.weight]
            """
        ),
        Valid(
            """
            class Scale(nn.Module):
                def __init__(self, body):
                    super().__init__()
                    self.body = body
                    self.product = body.weight * torch.ones(3, requires_grad=True)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Gate(nn.Module):
                def __init__(self, dim, device):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(dim)).to(device)

                def forward(self, x):
                    return x * self.scale
            """,
            """
            class Gate(nn.Module):
                def __init__(self, dim, device):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(dim).to(device))

                def forward(self, x):
                    return x * self.scale
            """,
            at=(4, 8, 4, 18),
        ),
        Invalid(
            """
            class Gate(nn.Module):
                def __init__(self, start):
                    super().__init__()
                    self.scale = nn.Parameter(start + torch.ones(3), requires_grad=True).half()
            """,
            """
            class Gate(nn.Module):
                def __init__(self, start):
                    super().__init__()
                    self.scale = nn.Parameter((start + torch.ones(3)).half(), requires_grad=True)
            """,
        ),
        Invalid(
            """
            class Scale(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = torch.ones(3, requires_grad=True)
            """,
            """
            class Scale(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(3))
            """,
            at=(4, 8, 4, 18),
        ),
        Invalid(
            """
            class Attention(nn.Module):
                def __init__(self, dim: int):
                    super().__init__()
                    self.proj = nn.Linear(dim, dim)
                    self.query = torch.randn(
                        1, dim,  # one for all
                    ).requires_grad_()

                def forward(self, x):
                    scores = self.proj(x) @ self.query.t()
                    return (scores.softmax(dim=1) * x).sum(dim=1)

            def train(loader):
                model = Attention(64)
                optimizer = torch.optim.Adam(model.parameters())
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.mse_loss(model(x), y)
                    loss.backward()
                    optimizer.step()
            """,
            """
            class Attention(nn.Module):
                def __init__(self, dim: int):
                    super().__init__()
                    self.proj = nn.Linear(dim, dim)
                    self.query = nn.Parameter(torch.randn(
                        1, dim,  # one for all
                    ))

                def forward(self, x):
                    scores = self.proj(x) @ self.query.t()
                    return (scores.softmax(dim=1) * x).sum(dim=1)

            def train(loader):
                model = Attention(64)
                optimizer = torch.optim.Adam(model.parameters())
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.mse_loss(model(x), y)
                    loss.backward()
                    optimizer.step()
            """,
        ),
        Invalid(
            """
            class Gate(nn.Module):
                def __init__(self, size):
                    super().__init__()
                    gate = torch.zeros(size)
                    gate.requires_grad_()
                    self.gate = gate
            """,
            """
            class Gate(nn.Module):
                def __init__(self, size):
                    super().__init__()
                    gate = torch.zeros(size)
                    gate.requires_grad_()
                    self.gate = nn.Parameter(gate)
            """,
        ),
    ]

    def visit_class(self, node: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
        init, cls = method(node, "__init__"), ctx.class_of(node)
        if init is None or cls is None or not ctx.is_module_class(node):
            return
        for target, statement in attributes_assigned(init):
            moved = _moved_parameter(statement.value, ctx)
            if moved is not None:
                text = ctx.source_of(target)
                message = (
                    f"`{text}` is the result of `{moved.attr}` and may not be an `nn.Parameter`; `parameters()` then "
                    "misses it and the optimizer never updates it"
                )
                yield ctx.finding(self, target, message, fixes=[_fix_moved(moved, statement.value, ctx)])
        if any(cls.member(name) is not None for name in _TAKES_CARE):
            return
        for target, statement in attributes_assigned(init):
            tensor = ctx.tensor(statement.value)
            if tensor is None or not _is_learnable(tensor) or _is_taken_elsewhere(target, node, init, ctx):
                continue
            yield ctx.finding(
                self,
                target,
                f"`{ctx.source_of(target)}` requires grad but is not an `nn.Parameter`; `parameters()` misses it, so "
                "the optimizer never updates it",
                fixes=[_fix(target, statement.value, init, ctx)],
            )


def _moved_parameter(value: ast.expr | None, ctx: Context) -> ast.Attribute | None:
    """Return the method that converts an ``nn.Parameter(...)`` as soon as it is made."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr=name) as method) if name in _CONVERSIONS:
            tensor = ctx.tensor(made)
            return method if tensor is not None and tensor.parameter else None
        case _:
            return None


def _fix_moved(moved: ast.Attribute, value: ast.expr | None, ctx: Context) -> Fix | None:
    """Convert the tensor before it becomes the parameter: the rest of the module may be moved part by part, too."""
    if value is None or not isinstance(moved.value, ast.Call) or not moved.value.args:
        return None
    tensor = moved.value.args[0]
    span = Span(ctx.source.end(moved.value), ctx.source.end(value))
    text = ctx.source.slice(span)
    if "#" in text or isinstance(tensor, ast.Starred):
        return None
    atom = isinstance(tensor, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    opened = [] if atom else [ctx.insert_before(tensor, "(")]
    inside = ctx.insert_after(tensor, text if atom else f"){text}")
    return ctx.fix(f"Call `{moved.attr}` inside `nn.Parameter`", *opened, inside, Edit(span, ""))


def _is_learnable(tensor: Tensor) -> bool:
    learns = tensor.requires_grad is True and tensor.leaf is True
    return learns and not tensor.parameter and not tensor.buffer and not tensor.made_by("parameter")


def _is_taken_elsewhere(target: ast.Attribute, cls: ast.ClassDef, init: ast.FunctionDef, ctx: Context) -> bool:
    """Say whether the tensor is listed in the class, or reached through something else than ``self``."""
    own = set(ast.walk(cls))
    for node in ast.walk(ctx.tree):
        if not isinstance(node, ast.Attribute) or node.attr != target.attr or node is target:
            continue
        inside = node in own and attribute_of(node, self_name(init)) is not None
        if not inside or isinstance(node.ctx, ast.Store) or _is_listed(node, ctx):
            return True
    return False


def _is_listed(node: ast.Attribute, ctx: Context) -> bool:
    match ctx.parent(node):
        case ast.List() | ast.Tuple() | ast.Dict() | ast.Set() | ast.Return() | ast.Yield() | ast.Assign():
            return True
        case ast.Call() as call:
            return node is not call.func and (ctx.name(call.func) or "torch.nn.Parameter").startswith("torch.nn.Par")
        case _:
            return False


def _fix(target: ast.Attribute, value: ast.expr | None, init: ast.FunctionDef, ctx: Context) -> Fix | None:
    name = written_as(ctx, "torch.nn.Parameter")
    if name is None or value is None or not is_initialised_before(target, init):
        return None
    return ctx.fix(
        "Make it an `nn.Parameter`", ctx.insert_before(value, f"{name}("), *_without_requires_grad(value, ctx)
    )


def _without_requires_grad(value: ast.expr, ctx: Context) -> list[Edit | None]:
    """Return the edits that end the ``nn.Parameter(...)`` and leave out what it says already."""
    match value:
        case ast.Call(func=ast.Attribute(value=made, attr="requires_grad_"), args=[], keywords=[]):
            text = ctx.source.slice(Span(ctx.source.end(made), ctx.source.end(value)))
            return [Edit(Span(ctx.source.end(made), ctx.source.end(value)), ")") if "#" not in text else None]
        case ast.Call(keywords=keywords) if any(k.arg == "requires_grad" for k in keywords):
            return [ctx.remove_keyword(value, "requires_grad"), ctx.insert_after(value, ")")]
        case _:
            return [ctx.insert_after(value, ")")]
