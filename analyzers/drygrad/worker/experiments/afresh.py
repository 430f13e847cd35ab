"""Another module of the same kind, made as the program has made the one that there is."""

from __future__ import annotations

import copy

import torch

from drygrad.worker.execute import seed_all
from drygrad.worker.experiments.bench import Bench
from drygrad.worker.experiments.relation import NotTried


def made_afresh(bench: Bench, module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Return what the module's constructor makes of copies of its arguments, at the device of it. Raises NotTried."""
    given = bench.run.built_with(module) if bench.run.built_with is not None else None
    if given is None:
        raise NotTried("it is unknown how its module was created")
    try:
        positional, named = copy.deepcopy((given.positional, given.named))
        seed_all(seed)
        fresh = type(module)(*positional, **named)
    except Exception as error:
        raise NotTried(f"its module cannot be created a second time: {type(error).__name__}") from error
    held = next(iter((*module.parameters(), *module.buffers())), None)
    return fresh.to(held.device) if held is not None else fresh
