# pyright: basic
"""The keywords that torch's functions and constructors take, where they take no others."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

_PACKAGES = """
    torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils
    torch.optim torch.optim.lr_scheduler torch.utils.data
""".split()
_STUBS = ("_VariableFunctions", "_nn")
"""What torch says itself of its functions that are not written in Python."""
_OF_NUMPY = {"dim": ["axis"], "keepdim": ["keepdims"], "input": ["x", "a", "x1"], "other": ["x2"]}
"""What the parser of these takes besides."""


def keywords() -> dict[str, list[str]]:
    """Return them by the public name of each function and class."""
    builtin = _of_stubs()
    found: dict[str, list[str]] = {}
    for package in _PACKAGES:
        for name, value in vars(importlib.import_module(package)).items():
            if not name.startswith("_") and callable(value):
                taken = _taken(value, builtin)
                if taken is not None:
                    found[f"{package}.{name}"] = sorted(taken)
    return found


def _taken(value: Any, builtin: dict[str, set[str]]) -> set[str] | None:
    if inspect.isbuiltin(value):
        return builtin.get(value.__name__)
    if not (inspect.isfunction(value) or inspect.isclass(value)) or not value.__module__.startswith("torch"):
        return None
    try:
        parameters = inspect.signature(value).parameters.values()
    except ValueError:
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def _of_stubs() -> dict[str, set[str]]:
    """Return the keywords of all overloads by the name of the function, unless one takes any."""
    found: dict[str, set[str]] = defaultdict(set)
    for stub in _STUBS:
        text = (Path(torch.__file__).parent / "_C" / f"{stub}.pyi").read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                takes = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
                found[node.name].update(takes, *(_OF_NUMPY.get(name, ()) for name in takes))
                found[node.name] |= {"*"} if node.args.kwarg else set()
    return {name: taken for name, taken in found.items() if "*" not in taken}
