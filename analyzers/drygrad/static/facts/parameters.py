"""Whether a module of torch's has parameters."""

from __future__ import annotations

from drygrad.static.facts.operations import CONSTRUCTORS, PARAMETERLESS
from drygrad.static.facts.values import Constant, Object

_SWITCHES = frozenset({"affine", "elementwise_affine"})


def has_parameters(module: Object) -> bool | None:
    """Say whether a module has parameters; None where its constructor decides by what is not known."""
    name = module.type.rpartition(".")[2]
    if name in PARAMETERLESS:
        return False
    names = CONSTRUCTORS.get(name, ())
    switch = next((parameter for parameter in names if parameter in _SWITCHES), None)
    if switch is None:
        return True
    given = module.arguments.get(switch, names.index(switch))
    if given is None:
        return not name.startswith("InstanceNorm")  # the only norms that are not affine by default
    return given.value if isinstance(given, Constant) and isinstance(given.value, bool) else None
