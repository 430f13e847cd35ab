"""The arguments of the target: evaluated, described, and passed."""

from __future__ import annotations

import inspect
import traceback
from types import CodeType
from typing import Any, Callable

import torch

from drygrad.worker import errors
from drygrad.worker.namespace import Namespace

_MAX_TEXT = 80
_CALL = "call"

Given = tuple[dict[str, Any], Any]
"""How an input was asked for, and its value."""


class InputError(Exception):
    """An input cannot be made; the cause says why."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def evaluate(namespace: Namespace, specs: list[dict[str, Any]], known: dict[str, Any] | None = None) -> list[Given]:
    """Evaluate inputs from left to right, those ``known`` and earlier names visible to later ones.

    The arguments of a call see the names of the caller alone.
    """
    earlier: dict[str, Any] = {**(known or {})}
    values: list[Given] = []
    for spec in specs:
        visible = {} if spec.get("source") == _CALL else earlier
        values.append((spec, evaluate_one(namespace, spec, visible)))
        if spec.get("name"):
            earlier[spec["name"]] = values[-1][1]
    return values


def evaluate_one(namespace: Namespace, spec: dict[str, Any], earlier: dict[str, Any]) -> Any:
    """Evaluate one input. Raises InputError from whatever was raised, also where it would end the program."""
    try:
        return namespace.evaluate(spec, earlier)
    except (Exception, SystemExit) as error:
        raise InputError(str(spec.get("name") or spec.get("text", ""))[:_MAX_TEXT]) from error


def arguments(values: list[Given]) -> tuple[list[Any], dict[str, Any]]:
    """Return what to pass by position and by name."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for spec, value in values:
        star = spec.get("star") or ""
        if star == "*":
            positional += value
        elif star == "**":
            named.update(value)
        elif spec.get("name"):
            named[spec["name"]] = value
        else:
            positional.append(value)
    return positional, named


def code_of(target: Callable[..., Any]) -> CodeType | None:
    """Return the code of a target, beneath its decorators: that of a module is its ``forward``."""
    called: Any = target.forward if isinstance(target, torch.nn.Module) else target
    return getattr(inspect.unwrap(called), "__code__", None)


def fit(target: Callable[..., Any], positional: list[Any], named: dict[str, Any]) -> bool:
    """Say whether a target takes these arguments, as far as its signature tells."""
    called: Any = target.forward if isinstance(target, torch.nn.Module) else target
    try:
        inspect.signature(called).bind(*positional, **named)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def has_begun(target: Callable[..., Any], error: BaseException) -> bool:
    """Say whether an error comes from within a target, not from the call of it."""
    code = code_of(target)
    return code is None or any(frame.f_code is code for frame, _ in traceback.walk_tb(error.__traceback__))


def described(target: Callable[..., Any] | None, values: list[Given]) -> list[dict[str, str]]:
    """Return name, value and source of each input."""
    names = _positional_names(target)
    told: list[dict[str, str]] = []
    position = 0
    for spec, value in values:
        name = (spec.get("star") or "") + (spec.get("name") or "")
        if not name:
            name = names[position] if position < len(names) else f"argument {position + 1}"
            position += 1
        told.append({"name": name, "value": describe(value), "source": str(spec.get("source") or "")})
    return told


def _positional_names(target: Callable[..., Any] | None) -> list[str]:
    if isinstance(target, torch.nn.Module):
        target = target.forward
    try:
        return list(inspect.signature(target).parameters) if target is not None else []
    except (TypeError, ValueError):
        return []


def describe(value: Any) -> str:
    """Return a value in a few words: ``float32 [8, 10] on cuda:0``; no code of the user's is run for it."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).replace('torch.', '')} {list(value.shape)} on {value.device}"
    if isinstance(value, torch.nn.Module):
        begun = "_parameters" in value.__dict__  # else its constructor has not run yet
        parameters = list(torch.nn.Module.parameters(value)) if begun else []
        count = sum(p.numel() for p in parameters if not isinstance(p, torch.nn.parameter.UninitializedParameter))
        return f"{type(value).__name__} with {count:,} parameters"
    if value is None or type(value) in (bool, int, float, complex, str, bytes, torch.device, torch.dtype):
        return errors.shortened(repr(value), _MAX_TEXT)
    if type(value) in (list, tuple, set, dict):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__
