"""Attributes of objects: what moves with its owner."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.static.facts.values import NONE, UNKNOWN, Class, Function, Object, Reference, Tensor, Value


def moved_with(owner: Object, held: Value) -> Value:
    """Modules, parameters and buffers follow their owner to its device; plain tensors stay where they were made."""
    if not owner.is_module:
        return _somewhere(held) if _has_foreign_base(owner) else held
    if isinstance(held, Object) and held.is_module:
        return replace(held, device=owner.device, training=owner.training, frozen=held.frozen or owner.frozen)
    if isinstance(held, Tensor) and (held.parameter or held.buffer):
        return replace(held, device=owner.device)
    return held


def given_device(made: Object) -> Value | None:
    """Return the ``device`` that a constructor gets, on which it may make its layers; None where it gets none."""
    init = made.cls.member("__init__") if made.cls is not None else None
    if not isinstance(init, Function):
        return None
    parameters = init.node.args
    positional = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
    defaults = dict(zip(reversed(positional), reversed(parameters.defaults), strict=False))
    defaults |= {p.arg: d for p, d in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True) if d is not None}
    if "device" not in (*positional, *(parameter.arg for parameter in parameters.kwonlyargs)):
        return None
    given = made.arguments.get("device", positional.index("device") - 1 if "device" in positional else None)
    if given is not None:
        return None if given == NONE else given
    default = defaults.get("device")
    return None if default is None or (isinstance(default, ast.Constant) and default.value is None) else UNKNOWN


def has_fields(cls: Class) -> bool:
    """Say whether what a class assigns are mere defaults of what its objects are given: a dataclass, a named tuple."""
    return any(
        "dataclass" in ast.unparse(decorator) for each in cls.lineage() for decorator in each.node.decorator_list
    ) or cls.derives_from("typing.NamedTuple")


def field(owner: Object, name: str) -> Value | None:
    """Return what an object of a dataclass or named tuple was given for a field; None where nothing tells."""
    fields = _fields(owner.cls) if owner.cls is not None and has_fields(owner.cls) else ()
    return owner.arguments.get(name, fields.index(name)) if name in fields else None


def _fields(cls: Class) -> tuple[str, ...]:
    """Return the parameters that a dataclass or named tuple makes of its fields; () where it has its own way."""
    if any(cls.member(name) is not None for name in ("__init__", "__new__", "__post_init__")):
        return ()
    statements = [s for each in reversed([*cls.lineage()]) for s in each.node.body if isinstance(s, ast.AnnAssign)]
    texts = [ast.unparse(statement) for statement in statements]
    if any(word in text for text in texts for word in ("ClassVar", "InitVar", "KW_ONLY", "init=")):
        return ()
    return tuple(dict.fromkeys(s.target.id for s in statements if isinstance(s.target, ast.Name)))


def _somewhere(held: Value) -> Value:
    """Return what an attribute is if its owner may be a module: wherever that is."""
    if isinstance(held, Object) and held.is_module:
        return replace(held, device=None, training=None)
    return replace(held, device=None) if isinstance(held, Tensor) and (held.parameter or held.buffer) else held


def _has_foreign_base(owner: Object) -> bool:
    """Say whether a class derives from one of another file, which may well be a module."""
    lineage = owner.cls.lineage() if owner.cls is not None else ()
    bases = [base for cls in lineage for base in cls.bases if not isinstance(base, Class)]
    return any(not (isinstance(base, Reference) and base.name.startswith("builtins.")) for base in bases)
