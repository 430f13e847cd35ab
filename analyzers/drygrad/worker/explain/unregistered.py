"""Layers that a module keeps in a plain list or dict: nothing that moves the module moves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import torch

from drygrad.worker.explain.scene import Operand, Scene
from drygrad.worker.naming import binding_in
from drygrad.worker.run import Place

_FEWEST, _MOST = 2, 64


class Unregistered(NamedTuple):
    """The attribute that hides layers from its module, what it is and should be, and where a constructor binds it."""

    name: str
    kind: str
    remedy: str
    place: Place


def unregistered(scene: Scene, wrong: Operand, right: Operand) -> Unregistered | None:
    """Return the attribute that keeps the layer of a parameter, of a module that is on the right device without it."""
    for call in scene.calls:
        module = call.receiver()
        if not isinstance(module, torch.nn.Module):
            continue
        if any(p is wrong.tensor or p.device != right.tensor.device for p in module.parameters()):
            continue
        found = next(_hiding(scene, module, wrong.tensor), None)
        if found is not None:
            return found
    return None


def _hiding(scene: Scene, module: torch.nn.Module, parameter: torch.Tensor) -> Iterator[Unregistered]:
    for name, value in vars(module).items():
        layers = _layers(value)
        # A list of one is how programs hide a module that is not to be registered.
        if name.startswith("_") or len(layers) < _FEWEST:
            continue
        if any(p is parameter for layer in layers for p in layer.parameters()):
            for text, place in _bound(scene, module, name):
                yield Unregistered(text, type(value).__name__, _remedy(value), place)


def _layers(value: object) -> list[torch.nn.Module]:
    if isinstance(value, dict):
        value = list(cast("dict[object, object]", value).values())
    items = cast("list[object]", value)[:_MOST] if isinstance(value, (list, tuple)) else []
    return [item for item in items if isinstance(item, torch.nn.Module)]


def _remedy(value: object) -> str:
    return "nn.ModuleDict" if isinstance(value, dict) else "nn.ModuleList"


def _bound(scene: Scene, module: torch.nn.Module, name: str) -> Iterator[tuple[str, Place]]:
    inits = (getattr(vars(kind).get("__init__"), "__code__", None) for kind in type(module).__mro__)
    for code in inits:
        if code is not None and scene.run.lines.is_user(code):
            text = f"{code.co_varnames[0]}.{name}"
            place = binding_in(code, text, scene.run.lines)
            if place is not None:
                yield text, place
