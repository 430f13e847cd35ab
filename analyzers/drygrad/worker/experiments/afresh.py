"""Another module of the same kind, made as the program has made the one that there is."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from drygrad.worker.copying import whole_copy
from drygrad.worker.execute import seed_all
from drygrad.worker.experiments.bench import Bench
from drygrad.worker.experiments.relation import NotTried


def made_afresh(bench: Bench, module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Return what the module's constructor makes of copies of its arguments, at the device of it. Raises NotTried."""
    fresh = made_otherwise(bench, module, seed, {})
    held = next(iter((*torch.nn.Module.parameters(module), *module.buffers())), None)
    return fresh.to(held.device) if held is not None else fresh


def made_otherwise(bench: Bench, module: torch.nn.Module, seed: int, changed: Mapping[str, Any]) -> torch.nn.Module:
    """Return the same where some of the arguments are others, wherever its constructor puts it. Raises NotTried."""
    given = bench.run.built_with(module) if bench.run.built_with is not None else None
    if given is None:
        raise NotTried("how its module was created is not known")
    try:
        positional, named = whole_copy((given.positional, given.named))
        bound = inspect.signature(type(module)).bind(*positional, **named)
        bound.arguments.update(changed)
        seed_all(seed)
        return type(module)(*bound.args, **bound.kwargs)
    except Exception as error:
        raise NotTried(f"its module cannot be created a second time: {type(error).__name__}") from error


def switches(bench: Bench, module: torch.nn.Module) -> dict[str, bool]:
    """Return the parameters of a module's constructor that are True or False, each with what it was not given."""
    given = bench.run.built_with(module) if bench.run.built_with is not None else None
    if given is None:
        return {}
    try:
        bound = inspect.signature(type(module)).bind(*given.positional, **given.named)
    except (TypeError, ValueError):
        return {}
    bound.apply_defaults()
    return {name: not value for name, value in bound.arguments.items() if isinstance(value, bool)}
