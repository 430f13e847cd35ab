"""The ends of graphs behind which layers lie that an optimizer holds and that no loss of the file reaches."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from drygrad.model import Finding, Rule
from drygrad.static.context import Context
from drygrad.static.rules.autograd.cutting import cut_of, idle_leaf, roots_of
from drygrad.static.rules.autograd.graph import switch_of
from drygrad.static.rules.autograd.holding import held_by_optimizers, parts_of
from drygrad.static.rules.autograd.reaching import Cut, reach_of
from drygrad.static.syntax import called

_MOST = 3
_BECAUSE = {
    "mode": "gradients are disabled here",
    "detach": "{what} cuts the graph",
    "choice": "{what} has no derivative",
    "number": "{what} leaves the graph",
    "copy": "{what} copies the values but not the graph",
    "flat": "the derivative of {what} is zero everywhere",
    "leaf": "{what} starts a graph of its own",
}


@dataclass(frozen=True)
class End:
    """An end of a graph, and the layers that get no gradient because of it.

    ``nothing`` says that the losses reach no layer at all.
    """

    cut: Cut
    layers: tuple[ast.expr, ...]
    backward: ast.Call
    nothing: bool

    @property
    def code(self) -> str:
        """The code of the rule that explains the end."""
        if self.cut.kind == "flat":
            return "DG114"
        return "DG105" if self.nothing else "DG112"

    def finding(self, rule: Rule, ctx: Context) -> Finding:
        """Tell of the end."""
        because = _BECAUSE[self.cut.kind].format(what=_what(self.cut.at, ctx))
        names = [ctx.source_of(n) for n in sorted(self.layers, key=lambda n: (n.lineno, n.col_offset))]
        listed = ", ".join(f"`{name}`" for name in names[:_MOST]) + (" ..." if len(names) > _MOST else "")
        outcome = f"no gradient reaches {listed}"
        if self.nothing:
            outcome = f"backward() on line {self.backward.lineno} reaches no parameter"
        return ctx.finding(
            rule,
            switch_of(ctx, self.cut.at) if self.cut.kind == "mode" else self.cut.at,
            f"{because}; {outcome}",
            severity="warning" if self.nothing or not self.cut.on_purpose else "info",
            related=[("the loss is differentiated here", self.backward)],
        )


def ends_of_training(ctx: Context) -> tuple[End, ...]:
    """Return the ends of graphs that keep layers of an optimizer from being trained."""
    calls = [call for call in ctx.nodes(ast.Call) if called(call) in ("backward", "grad")]
    roots = [(ctx.value(root), root) for call in calls for root in roots_of(call, ctx)]
    if not roots or ctx.facts.freezes or any(called(call) == "grad" for call in calls):
        return ()
    if any(cut_of(root, ctx) or idle_leaf(root, ctx) for _, root in roots):
        return ()
    found = reach_of(ctx, roots)
    if not (found.complete and found.named and found.beyond):
        return ()
    lost = held_by_optimizers(ctx) & found.beyond.keys() - found.live - parts_of(ctx, found.whole)
    by_cut: dict[ast.expr, list[ast.expr]] = {}
    for layer in lost:
        by_cut.setdefault(found.beyond[layer].at, []).append(layer)
    return tuple(End(found.beyond[layers[0]], tuple(layers), calls[0], not found.trains) for layers in by_cut.values())


def _what(at: ast.expr, ctx: Context) -> str:
    match at:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Attribute(attr=name):
            return f"`{name}`"
        case ast.Compare():
            return "a comparison"
        case _:
            return f"`{ctx.source_of(at)}`"
