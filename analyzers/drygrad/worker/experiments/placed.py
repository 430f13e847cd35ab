"""Objects that keep a device to work on, as trainers and agents do: what they would hold had they been told another."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator, Mapping
from typing import Any, Callable, cast

import torch

from drygrad.worker.reading import share_storage

_DEPTH = 3
_WORDS = ("device", "cuda", "gpu")
_MOVERS = ("to", "cuda", "_apply")
_LEFT = (
    torch.Tensor,
    torch.nn.Module,
    torch.utils.data.DataLoader,
    torch.utils.data.Dataset,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.GeneratorType,
    type,
)
"""What is moved by other means, is nobody's state, or yields what its user moves."""


def is_object(value: Any) -> bool:
    """Say whether a value is an object with attributes of its own, and none that others know how to move."""
    return isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, _LEFT)


def keeps_device(value: Any) -> bool:
    """Say whether an object keeps the CPU as the device to work on, and nothing else that may tell it where.

    A switch such as ``use_cuda`` decides in a way that only its own code knows.
    """
    told = [one for one in _told(value, _DEPTH, set()) if one is not None]
    return bool(told) and all(is_cpu(one) for one in told)


def devices(value: Any) -> list[str]:
    """Return the attributes that say where an object, or a module itself, works."""
    told = (name for name, held in _named(value) if isinstance(held, torch.device) or is_cpu(held))
    return [name for name in told if _WORDS[0] in name.lower()]


def is_cpu(value: Any) -> bool:
    """Say whether a value names the CPU."""
    return (isinstance(value, torch.device) and value.type == "cpu") or (isinstance(value, str) and value == "cpu")


def _told(value: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    """Yield what an object, and what it holds, keeps under a name that speaks of devices."""
    if depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    for name, held in _named(value):
        if any(word in name.lower() for word in _WORDS) and not callable(held):
            yield held
        elif is_object(held) or isinstance(held, dict):
            yield from _told(held, depth - 1, seen)


def _named(value: Any) -> list[tuple[str, Any]]:
    held = cast("Mapping[Any, Any]", value) if isinstance(value, dict) else _attributes(value)
    return [(name, one) for name, one in held.items() if isinstance(name, str)]


def _attributes(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", vars(value))


def makes_itself(value: Any, tensor: torch.Tensor) -> bool:
    """Say whether an object's constructor has made a tensor of numbers alone, and nobody can tell the object where.

    What depends on an argument that is neither kept as a number or a text, nor one by default, may be the caller's.
    """
    kept = _attributes(value)
    names = [name for name, held in kept.items() if isinstance(held, torch.Tensor) and share_storage(held, tensor)]
    kind = cast("type[Any]", type(value))
    if not names or any(hasattr(kind, mover) for mover in _MOVERS):
        return False
    try:
        text = textwrap.dedent(inspect.getsource(kind.__init__))
        parameters = inspect.signature(kind.__init__).parameters
    except (OSError, TypeError, ValueError):
        return False
    if any(word in name for name in parameters for word in _WORDS):
        return False
    receiver, *others = parameters
    plain = bool, int, float, str
    given = {n for n in others if not isinstance(kept.get(n), plain) and not isinstance(parameters[n].default, plain)}
    return not _depends(ast.parse(text), receiver, names[0], given)


def _depends(tree: ast.Module, receiver: str, attribute: str, given: set[str]) -> bool:
    """Say whether a constructor binds an attribute to what depends on something that it is given, or not at all."""
    answer, wanted = True, f"{receiver}.{attribute}"
    for node in sorted((n for n in ast.walk(tree) if isinstance(n, ast.Assign)), key=lambda n: n.lineno):
        depends = bool(_read(node.value) & given)
        bound = {name for target in node.targets for name in _read(target)} - {receiver}
        answer = depends if wanted in bound else answer
        given = given | bound if depends else given
    return answer


def _read(node: ast.AST) -> set[str]:
    """Return the names, and the attributes of names, that are spoken of."""
    return {ast.unparse(n) for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))}


def place(value: Any, moved: Callable[[Any], Any]) -> None:
    """Put what ``moved`` makes of each attribute in its place; what an object does not let go stays."""
    held = _attributes(value)
    for name, one in [*held.items()]:
        other = moved(one)
        if other is not one:
            held[name] = other


def place_parameters(
    optimizer: torch.optim.Optimizer, moved: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[torch.Tensor]:
    """Move what an optimizer updates, in place, as a module moves its parameters; yield what has moved."""
    for parameter in (one for group in optimizer.param_groups for one in group["params"]):
        there = moved(parameter)
        if there is not parameter:
            gradient, parameter.grad = parameter.grad, None
            parameter.data = there
            parameter.grad = gradient.to(there.device) if gradient is not None else None
            yield parameter


def place_state(optimizer: torch.optim.Optimizer, moved: Callable[[Any], Any]) -> None:
    """Move what an optimizer keeps for its parameters, as it does itself when it loads a state; counts stay."""
    for kept in optimizer.state.values():
        for name, one in [*cast("dict[str, Any]", kept).items()]:
            if isinstance(one, torch.Tensor) and one.dim():
                kept[name] = moved(one)
