"""Rule DG766: layers whose weights all begin with the same number."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.iteration import contained_modules
from drygrad.static.facts.values import Object
from drygrad.static.syntax import argument, class_around

_CONSTANT = frozenset({f"torch.nn.init.{name}_" for name in ("constant", "zeros", "ones")})
_LAYERS = frozenset(
    {f"torch.nn.{name}" for name in "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d".split()}
)

_REPEATS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp)


class WeightsAllEqual(Rule):
    """
    ## What it does
    Finds `init.constant_`, `init.zeros_` and `init.ones_` on the weights of every `nn.Linear` or convolution of a
    model: under `isinstance(m, nn.Linear)`.

    ## Why is this bad?
    All units of a layer compute the same value, get the same gradient and stay equal: the layer has a single feature,
    however wide it is. With zeros, the layers before the last one get no gradient at all. Biases may start at zero, and
    so may the weights of the last layer; hidden weights must differ.

    ## Example
    ```python
    for m in model.modules():
        if isinstance(m, nn.Linear):
            nn.init.zeros_(m.weight)
    ```
    Use instead:
    ```python
    for m in model.modules():
        if isinstance(m, nn.Linear):
            nn.init.xavier_uniform_(m.weight)
    ```

    ## Fix safety
    Unsafe: it changes the initial values.
    """

    code, name, since = "DG766", "weights-all-equal", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def init(m):
                if isinstance(m, nn.Linear):
                    nn.init.xavier_uniform_(m.weight)
                    nn.init.zeros_(m.bias)
                elif isinstance(m, nn.BatchNorm2d):
                    nn.init.ones_(m.weight)
            """
        ),
        Valid("head = nn.Linear(8, 2)\nnn.init.zeros_(head.weight)"),
        Valid(
            """
            class Forecast(nn.Module):
                def __init__(self, context, horizon):
                    super().__init__()
                    self.linear = nn.Linear(context, horizon)
                    self.apply(self.start)

                def start(self, m):
                    if isinstance(m, nn.Linear):
                        nn.init.zeros_(m.weight)

            other = nn.Linear(8, 8)
            """
        ),
        Valid(
            """
            class Attention(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.embed = nn.Linear(n, n)
                    self.weigh = nn.Sequential(nn.Linear(n, 1), nn.Softmax(dim=1))
                    for m in self.weigh.modules():
                        if isinstance(m, nn.Linear):
                            nn.init.zeros_(m.weight)
            """
        ),
        Valid(
            """
            def average(m):
                if isinstance(m, nn.Linear):
                    nn.init.constant_(m.weight, 1 / m.in_features)
            """
        ),
        Valid(
            """
            def zero_last(blocks):
                for m in blocks:
                    if isinstance(m, nn.Linear) and m.out_features == 1:
                        nn.init.zeros_(m.weight)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def init_weights(m):
                if isinstance(m, (nn.Linear, nn.Conv2d)):
                    nn.init.constant_(m.weight, 0.1)
                    nn.init.zeros_(m.bias)
            """,
            """
            def init_weights(m):
                if isinstance(m, (nn.Linear, nn.Conv2d)):
                    nn.init.xavier_uniform_(m.weight)
                    nn.init.zeros_(m.bias)
            """,
            at=(3, 8, 3, 40),
        ),
        Invalid(
            "for m in model.modules():\n    if type(m) == nn.Linear:\n        nn.init.ones_(m.weight.data)",
            "for m in model.modules():\n    if type(m) == nn.Linear:\n        nn.init.xavier_uniform_(m.weight.data)",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if ctx.name(node.func) not in _CONSTANT or not node.args:
            return
        match node.args[0]:
            case ast.Attribute(value=ast.Name(id=module), attr="weight"):
                pass
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id=module), attr="weight"), attr="data"):
                pass
            case _:
                return
        statement = ctx.parent(node)
        condition = ctx.parent(statement) if statement is not None else None
        if (
            not isinstance(condition, ast.If)
            or statement not in condition.body
            or not _asks(condition.test, module, ctx)
            or _is_deliberate(node, ctx)
            or _is_for_one_layer(node, ctx)
            or _goes_through_one_layer(node, module, ctx)
        ):
            return
        text = f"{ctx.source_of(node.func).rpartition('.')[0]}.xavier_uniform_({ctx.source_of(node.args[0])})"
        fix = ctx.fix("Initialize the weights randomly", ctx.replace(node, text))
        yield ctx.finding(
            self, node, "all weights start equal, so the units of a hidden layer never become different", fixes=[fix]
        )


def _is_deliberate(node: ast.Call, ctx: Context) -> bool:
    """Say whether the constant is computed, as the 1/n of a layer that begins as an average is."""
    value = argument(node, "val", 1)
    return value is not None and not isinstance(value, (ast.Constant, ast.UnaryOp))


def _is_for_one_layer(node: ast.Call, ctx: Context) -> bool:
    """Say whether the class, or the file, makes one such layer, which then is the last: its units differ in targets."""
    layers = [call for call in ctx.nodes(ast.Call) if ctx.name(call.func) in _LAYERS]
    own = class_around(node, ctx)
    made = [call for call in layers if own is not None and own in ctx.ancestors(call)] or layers
    return len(made) == 1 and not any(isinstance(a, _REPEATS) for a in ctx.ancestors(made[0]))


def _goes_through_one_layer(node: ast.Call, module: str, ctx: Context) -> bool:
    """Say whether the loop around goes through the modules of an ``nn.Sequential`` with one such layer."""
    for loop in ctx.loops(node):
        match loop:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute(value=owner, attr="modules"))):
                held = ctx.value(owner)
                parts = contained_modules(held) if isinstance(held, Object) else None
                if name == module and parts is not None and parts.items is not None:
                    return sum(isinstance(part, Object) and part.type in _LAYERS for part in parts.items) == 1
            case _:
                pass
    return False


def _asks(test: ast.expr, module: str, ctx: Context) -> bool:
    """Say whether a condition is that a module is a linear layer or a convolution, and nothing more."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kinds]):
            pass
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="type"), args=[ast.Name(id=name)]),
            ops=[ast.Eq() | ast.Is()],
            comparators=[kinds],
        ):
            pass
        case _:
            return False
    listed = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    return name == module and any(ctx.name(kind) in _LAYERS for kind in listed)
