"""Rule DG742: a layer with weights made inside forward."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import inserted
from drygrad.static.parameters import has_parameters
from drygrad.static.rules.modules.made_in_forward import is_only_called, local_name, made_module, moved
from drygrad.static.rules.modules.methods import attribute_of, method, module_around, self_name
from drygrad.static.tree import walk

_METHODS = frozenset({"forward", "training_step", "validation_step", "test_step"})
_BEGIN_NEUTRAL = frozenset("LayerNorm GroupNorm RMSNorm PReLU InstanceNorm1d InstanceNorm2d InstanceNorm3d".split())
"""Layers whose first parameters are no random numbers: unlearnt, they are plain functions."""


class LayerConstructedInForward(Rule):
    """
    ## What it does
    Finds a layer with weights, such as `nn.Linear(...)`, that is created and called inside `forward`.

    ## Why is this bad?
    Every call creates the layer with new random weights. No optimizer sees them, so the layer never learns, and the
    same input gives a different output each time.

    ## Example
    ```python
    class Net(nn.Module):
        def forward(self, x):
            return nn.Linear(64, 10)(x)
    ```
    Use instead:
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(64, 10)

        def forward(self, x):
            return self.head(x)
    ```

    ## Fix safety
    Unsafe: the layer is now trained and saved.
    """

    code, name, since = "DG742", "layer-constructed-in-forward", "0.1"
    VALID = [
        Valid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 8)

                def forward(self, x):
                    return nn.Softmax(dim=-1)(nn.MaxPool1d(2)(self.fc(x)))
            """
        ),
        Valid(
            """
            class Lazy(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = None

                def forward(self, x):
                    if self.fc is None:
                        self.fc = nn.Linear(x.shape[-1], 8).to(x.device)
                    return self.fc(x)
            """
        ),
        Valid(
            """
            class Blur(nn.Module):
                def __init__(self, kernel):
                    super().__init__()
                    self.register_buffer("kernel", kernel)

                def forward(self, x):
                    conv = nn.Conv2d(1, 1, 3, bias=False)
                    conv.weight = nn.Parameter(self.kernel, requires_grad=False)
                    return nn.LayerNorm(x.shape[1:])(conv(x))
            """
        ),
        Valid(
            """
            class Builder(nn.Module):
                def build(self, size):
                    head = nn.Linear(size, size)
                    return head

                def forward(self, x):
                    return x
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Net(nn.Module):
                def forward(self, x):
                    fc = nn.Linear(x.shape[1], 10)
                    return fc(x)
            """,
            at=(3, 13, 3, 38),
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Conv2d(3, 64, 3)

                def forward(self, x):
                    x = self.body(x).relu().mean(dim=(2, 3))
                    head = nn.Linear(64, 10).to(x.device)
                    return head(x)
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Conv2d(3, 64, 3)
                    self.head = nn.Linear(64, 10)

                def forward(self, x):
                    x = self.body(x).relu().mean(dim=(2, 3))
                    head = self.head
                    return head(x)
            """,
        ),
        Invalid(
            """
            class Classifier(nn.Module):
                def __init__(self, body: nn.Module):
                    super().__init__()
                    self.body = body

                def forward(self, images):
                    features = self.body(images)
                    features = nn.BatchNorm1d(256)(features)
                    return nn.Linear(256, 10)(features)
            """,
            """
            class Classifier(nn.Module):
                def __init__(self, body: nn.Module):
                    super().__init__()
                    self.body = body
                    self.batchnorm1d = nn.BatchNorm1d(256)

                def forward(self, images):
                    features = self.body(images)
                    features = self.batchnorm1d(features)
                    return nn.Linear(256, 10)(features)
            """,
            count=2,
        ),
        Invalid(
            """
            class Net(nn.Module):
                def forward(self, x):
                    self.fc = nn.Linear(8, 8)
                    return self.fc(x)
            """,
            at=(3, 18, 3, 33),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        made = made_module(node, ctx)
        if made is None or not has_parameters(made, ctx) or made.type.rpartition(".")[2] in _BEGIN_NEUTRAL:
            return
        around = module_around(node, ctx)
        if around is None or around[1].name not in _METHODS:
            return
        whole = moved(node, ctx)
        if not is_only_called(whole, ctx) and not _replaces_attribute(whole, around[1], ctx):
            return
        yield ctx.finding(
            self,
            node,
            f"every call of `{around[1].name}` creates this layer with new weights that are never trained",
            fixes=[_fix(node, whole, around[0], ctx)],
        )


def _replaces_attribute(node: ast.expr, function: ast.FunctionDef, ctx: Context) -> bool:
    """Say whether a module is assigned to an attribute of ``self``, whatever stood there."""
    match ctx.parent(node):
        case ast.Assign(targets=[target]) as statement if attribute_of(target, self_name(function)):
            return ctx.parent(statement) is function
        case _:
            return False


def _fix(node: ast.Call, whole: ast.expr, cls: ast.ClassDef, ctx: Context) -> Fix | None:
    """Make the layer in ``__init__``, where what it is made of does not come from the input."""
    init = method(cls, "__init__")
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    if init is None or not all(isinstance(argument, ast.Constant) for argument in given) or "\n" in ctx.source_of(node):
        return None
    name = local_name(whole, ctx) or ast.unparse(node.func).rpartition(".")[2].lower()
    taken = any(isinstance(n, ast.Attribute) and n.attr == name for n in walk(cls))
    if taken or method(cls, name) is not None or isinstance(init.body[-1], ast.Return):
        return None
    held = f"{self_name(init)}.{name} = {ctx.source_of(node)}"
    function = ctx.function(node)
    assert isinstance(function, ast.FunctionDef), "the layer is created in a method"
    return ctx.fix(
        "Create the layer in `__init__`",
        inserted(ctx, init.body[-1], held, after=True),
        ctx.replace(whole, f"{self_name(function)}.{name}"),
    )
