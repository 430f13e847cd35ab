"""``torch.autograd``'s functions: gradients are where what they are of is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from drygrad.static.facts.places.lattice import NOWHERE, UNKNOWN, Parts, Place, as_tensor, flat

if TYPE_CHECKING:
    from drygrad.static.facts.places.evaluation import Scope

_SIGNATURES = {
    "torch.autograd.grad": ("outputs", "inputs", "grad_outputs"),
    "torch.autograd.backward": ("tensors", "grad_tensors"),
}
NAMES = frozenset(_SIGNATURES)


def of_autograd(scope: Scope, name: str, node: ast.Call) -> Place:
    """Return where the gradients are that a call gives, noting where what it starts from is apart."""
    places = dict(zip(_SIGNATURES[name], node.args, strict=False))
    places |= {k.arg: k.value for k in node.keywords if k.arg is not None}
    at = {parameter: scope.at(value) for parameter, value in places.items()}
    started = "grad_outputs" if name.endswith(".grad") else "grad_tensors"
    computed = "outputs" if name.endswith(".grad") else "tensors"
    if started in at and computed in at:
        both = [(places[computed], at[computed]), (places[started], at[started])]
        scope.operation(node, [(expression, flat(place)) for expression, place in both])
    if name == "torch.autograd.backward":
        return NOWHERE
    inputs = at.get("inputs", UNKNOWN)
    return as_tensor(inputs if isinstance(inputs, Parts) else Parts((inputs,)))
