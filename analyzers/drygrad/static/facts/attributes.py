"""Attributes of objects: which of them change after construction, and what moves with its owner."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from drygrad.static.facts.values import Class, Object, Reference, Tensor, Value


def moved_with(owner: Object, held: Value) -> Value:
    """Modules, parameters and buffers follow their owner to its device; plain tensors stay where they were made."""
    if not owner.is_module:
        return _somewhere(held) if _has_foreign_base(owner) else held
    if isinstance(held, Object) and held.is_module:
        return replace(held, device=owner.device, training=owner.training, frozen=held.frozen or owner.frozen)
    if isinstance(held, Tensor) and (held.parameter or held.buffer):
        return replace(held, device=owner.device)
    return held


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


def reassigned_attributes(body: list[ast.stmt], in_init: bool) -> Iterator[str]:
    """Yield the attributes that are bound, or whose items are changed, anywhere outside an ``__init__``."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from reassigned_attributes(statement.body, statement.name == "__init__")
            continue
        if not in_init:
            yield from _assigned_attributes(statement)
        for name in ("body", "orelse", "finalbody"):
            yield from reassigned_attributes(getattr(statement, name, []), in_init)
        for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from reassigned_attributes(handler.body, in_init)


def _assigned_attributes(statement: ast.stmt) -> Iterator[str]:
    """Yield the names of attributes that a statement binds, and ``name[]`` of those whose items it changes."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute(attr=attr), attr="append" | "extend"))):
            yield f"{attr}[]"
        case _:
            pass
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    for target in targets:
        for element in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            if isinstance(element, ast.Attribute):
                yield element.attr
            if isinstance(element, ast.Subscript) and isinstance(element.value, ast.Attribute):
                yield f"{element.value.attr}[]"
