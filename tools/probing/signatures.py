"""The parameters of torch's functions, by the schemas of its dispatcher and by Python."""

# pyright: basic

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import get_testing_overrides

OTHER_NAMES = {"self": "input", "axis": "dim", "keepdims": "keepdim", "x2": "other"}
_PREFIXES = {"linalg": "linalg_", "special": "special_", "fft": "fft_"}


def public_name(name: str) -> str:
    """Return the name that users know a parameter by."""
    return OTHER_NAMES.get(name) or name


@dataclass(frozen=True)
class Signature:
    """The overloads of a function: the names that each takes by position, and those that it takes by name only."""

    overloads: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    defaults: Mapping[str, object] = field(default_factory=dict[str, object])
    """Switches and modes that are not given: their values."""

    @property
    def positional(self) -> tuple[str, ...]:
        """The names of the positions: those of the overload that takes most."""
        return max((names for names, _ in self.overloads), key=len, default=("input",))

    @property
    def keywords(self) -> tuple[str, ...]:
        """The names that no position has, each once."""
        placed = {name for names, _ in self.overloads for name in names}
        return tuple(dict.fromkeys(n for _, names in self.overloads for n in names if n not in placed and n != "out"))

    def at(self, index: int) -> str:
        """Return the name of a position; positions beyond all names are told apart by their number."""
        names = self.positional
        return names[index] if index < len(names) else f"*{index}"

    def canonical(self, name: str) -> str:
        """Return the name that the position of an argument goes by, whatever overload names it."""
        name = public_name(name)
        if name in self.positional:
            return name
        place = next((names.index(name) for names, _ in self.overloads if name in names), None)
        return name if place is None else self.at(place)


def signature_of(key: str, function: Callable[..., Any]) -> Signature:
    """Return the overloads of a function: of Python's, or of what the dispatcher knows under its name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return _of_schemas(key)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        stated = get_testing_overrides().get(function)
        if stated is None:
            return _of_schemas(key)
        parameters = inspect.signature(stated).parameters.values()
    overload = (_names(parameters, keyword=False), _names(parameters, keyword=True))
    return Signature((overload,), _modes((p.name, p.default) for p in parameters))


def _modes(defaults: Iterable[tuple[str, object]]) -> dict[str, object]:
    return {public_name(name): value for name, value in defaults if isinstance(value, (bool, str))}


def _names(parameters: Any, *, keyword: bool) -> tuple[str, ...]:
    kinds = [p.name for p in parameters if (p.kind is p.KEYWORD_ONLY) == keyword and p.kind is not p.VAR_KEYWORD]
    return tuple(public_name(name) for name in kinds)


def returns_of(key: str) -> frozenset[int]:
    """Return how many results the dispatcher knows a function to have; none of those that give a list."""
    schemas = torch._C._jit_get_schemas_for_operator(_aten(key))
    return frozenset(len(schema.returns) for schema in schemas if "[]" not in str(schema).rpartition("->")[2])


def _aten(key: str) -> str:
    package, _, name = key.rpartition(".")
    return f"aten::{_PREFIXES.get(package, '')}{name}"


def _of_schemas(key: str) -> Signature:
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], None] = {}
    defaults: dict[str, object] = {}
    for schema in torch._C._jit_get_schemas_for_operator(_aten(key)):
        arguments = [a for a in schema.arguments if not a.is_out]
        kinds = [str(a.type) for a in arguments]
        takes_tensors = any("Tensor" in kind for kind in kinds) and not any("Dimname" in kind for kind in kinds)
        of_lists = {a.name for a in arguments} <= {"a", "b", "l", "n"}  # TorchScript's own operators on lists
        if takes_tensors and not of_lists and len(arguments) == len(schema.arguments):
            found[_split(arguments)] = None
            defaults |= _modes((a.name, a.default_value) for a in arguments if a.has_default_value())
    return Signature(tuple(found), defaults)


def _split(arguments: list[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    named = [(public_name(a.name), a.kwarg_only) for a in arguments]
    return tuple(n for n, keyword in named if not keyword), tuple(n for n, keyword in named if keyword)
