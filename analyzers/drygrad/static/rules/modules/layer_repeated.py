"""Rule DG753: one layer, several times in a list of layers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant
from drygrad.static.parameters import has_parameters
from drygrad.static.syntax import bound_names

_SAID = re.compile(r"share|tied|tie_|common", re.I)
_CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.Sequential"})


class LayerRepeated(Rule):
    """
    ## What it does
    Finds `nn.ModuleList([layer] * n)` and `nn.Sequential(*[layer] * n)` (also as a comprehension over a layer created
    outside it), if the layer has parameters.

    ## Why is this bad?
    `[layer] * n` contains the same layer n times: the network applies a single set of weights n times. It trains
    without an error, but has fewer parameters than intended and the capacity of a smaller network.

    ## Example
    ```python
    self.layers = nn.ModuleList([nn.Linear(dim, dim)] * depth)
    ```
    Use instead:
    ```python
    self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(depth)])
    ```

    ## Fix safety
    Unsafe: the network gets more parameters, and saved weights no longer fit.
    """

    code, name, since = "DG753", "layer-repeated", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            class Encoder(nn.Module):
                def __init__(self, config):
                    super().__init__()
                    layer = nn.Linear(8, 8)
                    if config.share_layer:
                        self.layers = nn.ModuleList([layer for _ in range(config.depth)])
            """
        ),
        Valid("layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(6)])"),
        Valid("layers = nn.Sequential(*[nn.ReLU()] * 2)"),
        Valid("layers = nn.ModuleList([nn.Linear(4, 4)] * 1)"),
        Valid(
            """
            import copy

            layer = nn.TransformerEncoderLayer(16, 2)
            layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(6)])
            """
        ),
        Valid("shared_head = nn.Linear(4, 2)\nheads = nn.ModuleList([shared_head] * 3)"),
        Valid("blocks = [nn.Linear(4, 4), nn.Linear(4, 4)]\nlayers = nn.ModuleList([block for block in blocks])"),
    ]
    INVALID = [
        Invalid(
            "layers = nn.ModuleList([nn.Linear(4, 4)] * 6)",
            "layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(6)])",
            at=(1, 23, 1, 44),
        ),
        Invalid(
            """
            class Deep(nn.Module):
                def __init__(self, dim, depth):
                    super().__init__()
                    block = nn.Sequential(nn.Linear(dim, dim), nn.ReLU())
                    self.blocks = nn.Sequential(*[block for _ in range(depth)])
            """
        ),
        Invalid(
            """
            import copy

            layer = nn.TransformerEncoderLayer(16, 2)
            layers = nn.ModuleList([layer] * 6)
            """,
            """
            import copy

            layer = nn.TransformerEncoderLayer(16, 2)
            layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(6)])
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if ctx.name(node.func) not in _CONTAINERS:
            return
        for argument in node.args:
            repeated = argument.value if isinstance(argument, ast.Starred) else argument
            layer = _repeated_layer(repeated, ctx)
            if layer is None or (isinstance(layer, ast.Name) and _SAID.search(layer.id)) or _is_chosen(node, ctx):
                continue
            if has_parameters(ctx.value(layer), ctx):
                message = "this list holds the same layer several times; its weights are shared, not copied"
                yield ctx.finding(self, repeated, message, fixes=[_copied(repeated, layer, ctx)])


def _is_chosen(node: ast.Call, ctx: Context) -> bool:
    """Say whether a setting that speaks of sharing decides that the layers are shared."""
    tests = (a.test for a in ctx.ancestors(node) if isinstance(a, (ast.If, ast.IfExp)))
    return any(_SAID.search(ast.unparse(test)) for test in tests)


def _repeated_layer(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the layer that an expression holds several times; None for other expressions."""
    match node:
        case ast.BinOp(left=ast.List(elts=[layer]), op=ast.Mult(), right=count):
            return layer if ctx.value(count) != Constant(1) else None
        case ast.ListComp(elt=ast.Name(id=name) as layer) | ast.GeneratorExp(elt=ast.Name(id=name) as layer):
            own = {bound for generator in node.generators for bound in bound_names(generator.target)}
            return layer if name not in own else None
        case _:
            return None


def _copied(node: ast.expr, layer: ast.expr, ctx: Context) -> Fix | None:
    """Make each element a layer of its own: made anew where it is made here, else a deep copy."""
    if not isinstance(node, ast.BinOp):
        return None
    each = ctx.source_of(layer)
    if not isinstance(layer, ast.Call):
        copy = ctx.imported_as("copy")
        if copy is None:
            return None
        each = f"{copy}.deepcopy({each})"
    text = f"[{each} for _ in range({ctx.source_of(node.right)})]"
    return ctx.fix("Create one layer per entry", ctx.replace(node, text))
