"""Devices that the text chooses at run time, such as ``self.device``: each is a root of its own, as a parameter is.

What is put on one is on the GPU wherever the program is to use it, and what is made without a device is not.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from drygrad.static.facts.places.lattice import MOVED, Alternative, At, Place, flat
from drygrad.static.facts.values import Device

if TYPE_CHECKING:
    from drygrad.static.facts.places.evaluation import Scope

_DEVICE = re.compile(r"_?((torch|target|execution|model|map)_)?device$")
_OF_CPU = re.compile(r"cpu|host|storage|storing|offload|buffer|cache", re.IGNORECASE)
_NAMED = re.compile(r"<(.*)>")


def chosen(scope: Scope, device: ast.expr) -> Place:
    """Return the place of what is put on a device: a root where it is chosen at run time, else merely that it moves."""
    match device:
        case ast.Name(id=name) | ast.Attribute(attr=name) if _DEVICE.match(name):
            text = ast.unparse(device)
        case _:
            return MOVED
    known = scope.value(device)
    named = isinstance(known, Device) and known.name != "auto" and not known.name.startswith("$")
    if named or _OF_CPU.search(text) or "(" in text:
        return MOVED
    return frozenset({At(f"<{text}>", tensor=True, moved=True)})


def chosen_device(root: str) -> str | None:
    """Return the text of the device that a root stands for; None of another root."""
    found = _NAMED.match(root)
    return found[1] if found else None


def name_of(a: Alternative) -> str | None:
    """Return the text of the device that something has been put on, or was computed on; None of another place."""
    return chosen_device(a.root) if isinstance(a, At) else None


def only_chosen(place: Place) -> bool:
    """Say whether a device that is chosen at run time alone decides where a value is."""
    alternatives = flat(place)
    return bool(alternatives) and all(name_of(a) is not None for a in alternatives)


def of_object(root: str, receiver: str | None) -> bool:
    """Say whether a device is an attribute of the object of a method."""
    text = chosen_device(root)
    return text is not None and receiver is not None and text.startswith(f"{receiver}.")
