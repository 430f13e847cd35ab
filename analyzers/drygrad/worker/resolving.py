"""What is called when a target is run: the function of its name, on its object."""

from __future__ import annotations

import functools
import inspect
from types import CodeType, MethodType
from typing import Any, Callable

import torch

from drygrad.worker.elsewhere import CallFailed

_Called = Callable[..., Any]


def resolve(names: dict[str, Any], target: str, owner: Any) -> _Called:
    """Return what to call: a module's ``forward`` is called through the module, so that its hooks run.

    A property is read, a ``forward`` of autograd's is applied, so that it gets a context and its backward runs.
    """
    parts = target.split(".")
    if owner is not None:
        kind = owner.__class__
        if not hasattr(kind, parts[-1]) and not hasattr(owner, parts[-1]):
            raise CallFailed(f"the call is on a {kind.__name__}, which has no `{parts[-1]}`")
        forward = isinstance(owner, torch.nn.Module) and parts[-1] == "forward"
        return owner if forward else _reading(owner, parts[-1]) or getattr(owner, parts[-1])
    if parts[0] not in names:  # what defines it is behind a condition
        raise CallFailed(f"`{parts[0]}` is not defined in this environment")
    found = holder = names[parts[0]]
    for part in parts[1:]:
        holder, found = found, getattr(found, part)
    is_own = isinstance(holder, type) and issubclass(holder, torch.autograd.Function) and parts[-1] == "forward"
    return _applying(holder) if is_own else found


def resolve_call(names: dict[str, Any], target: str, owner: Any, code: CodeType) -> _Called:
    """Return what to call where a program has called code of the target: a subclass may have a method of its own."""
    found = resolve(names, target, owner)
    if owner is None or target.partition(".")[0] not in names or _runs(found, code):
        return found
    own = resolve(names, target, None)
    return MethodType(own, owner) if _runs(own, code) else found


def _runs(called: _Called, code: CodeType) -> bool:
    inner: Any = called.forward if isinstance(called, torch.nn.Module) else called
    return getattr(inspect.unwrap(inner), "__code__", None) is code


def _reading(owner: Any, name: str) -> _Called | None:
    """Return a function that reads a property; None for any other attribute."""
    described = inspect.getattr_static(owner.__class__, name, None)
    if isinstance(described, functools.cached_property):
        return _standing_for(described.func, lambda: getattr(owner, name), [])
    if not isinstance(described, property) or described.fget is None:
        return None
    return _standing_for(described.fget, lambda: getattr(owner, name), [])


def _applying(function: Any) -> _Called:
    """Return a function that applies one of autograd's; ``apply`` takes its arguments by position only."""
    own = inspect.signature(function.forward)
    if hasattr(function, "setup_context") and function.setup_context is not torch.autograd.Function.setup_context:
        parameters = [*own.parameters.values()]
    else:
        parameters = [*own.parameters.values()][1:]
    signature = own.replace(parameters=parameters)

    def apply(*given: Any, **named: Any) -> Any:
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        return function.apply(*bound.args)

    return _standing_for(function.forward, apply, parameters)


def _standing_for(function: Any, call: _Called, parameters: list[inspect.Parameter]) -> _Called:
    standing: Any = call
    standing.__wrapped__ = function
    standing.__signature__ = inspect.Signature(parameters)
    return standing
