"""Whether a module surely has parameters of its own."""

from __future__ import annotations

from drygrad.static.context import Context
from drygrad.static.facts.iteration import contained_modules
from drygrad.static.facts.operations import CONSTRUCTORS, MODULE_OPERATIONS, PARAMETERLESS
from drygrad.static.facts.values import Constant, Object, Tensor, Value

_DEPTH = 4
"""How far down modules within modules are looked into: a class may hold itself."""
_ON = Constant(True)


def has_parameters(value: Value, ctx: Context, depth: int = _DEPTH) -> bool:
    """Say whether a value is surely a module with parameters that may learn."""
    if isinstance(value, Tensor):
        return value.parameter
    if not isinstance(value, Object) or not value.is_module or value.frozen or depth == 0:
        return False
    if value.cls is not None:
        return any(has_parameters(held, ctx, depth - 1) for held in ctx.facts.attributes(value).values())
    held = contained_modules(value)
    if held is not None:
        return any(has_parameters(item, ctx, depth - 1) for item in held.items or (held.element,))
    package, _, name = value.type.rpartition(".")
    return package == "torch.nn" and name in MODULE_OPERATIONS and name not in PARAMETERLESS and _is_affine(value, name)


def _is_affine(module: Object, name: str) -> bool:
    """Say whether a normalisation learns a scale (which ``affine=False`` turns off); others always learn."""
    if name.startswith("InstanceNorm"):
        return module.arguments.get("affine", 3) == _ON
    names = CONSTRUCTORS.get(name, ())
    switch = next((n for n in ("affine", "elementwise_affine") if n in names), None)
    return switch is None or module.arguments.get(switch, names.index(switch)) in (None, _ON)
