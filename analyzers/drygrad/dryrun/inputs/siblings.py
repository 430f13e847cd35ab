"""Inputs that are made from others: an optimizer over a model's parameters, a scheduler of an optimizer's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from drygrad.dryrun.inputs import conventions
from drygrad.dryrun.inputs.nodes import Node, texts
from drygrad.dryrun.inputs.recognising import is_optimizer, is_scheduler
from drygrad.dryrun.inputs.usage import Usage
from drygrad.dryrun.slicing import free_of_text

_SCHEDULERS = re.compile(r"(.*_)?(lr_)?(scheduler|sched)")


def with_optimizers(found: Mapping[str, Node], used: Mapping[str, Usage]) -> dict[str, Node]:
    """Return the proposals, those for optimizers and schedulers made from the other ones."""
    models = [name for name in found if _has_parameters(name, found[name], used[name])]
    optimizers: list[str] = []
    changed = dict(found)
    for name, usage in used.items():
        if name not in found or found[name].get("keeps"):
            continue
        if is_optimizer_like(usage) and not _is_scheduler_like(usage):
            changed[name] = conventions.optimizer(name, models)
            optimizers.append(name)
    for name, usage in used.items():
        if name in found and _is_scheduler_like(usage) and not found[name].get("keeps"):
            changed[name] = conventions.scheduler(optimizers)
    return changed


def is_optimizer_like(usage: Usage) -> bool:
    """Say whether a value is an optimizer or a scheduler, by its use or its names."""
    if is_optimizer(usage) or is_scheduler(usage):
        return True
    called = [name for name in usage.names if conventions.is_optimizer_name(name)]
    return bool(called) and not usage.keys and usage.used <= conventions.OF_OPTIMIZERS


def _is_scheduler_like(usage: Usage) -> bool:
    return is_scheduler(usage) or (
        any(_SCHEDULERS.fullmatch(name.lower()) for name in usage.names) and not is_optimizer(usage)
    )


def _has_parameters(name: str, node: Node, usage: Usage) -> bool:
    if is_optimizer_like(usage):
        return False
    return bool(node.get("is_module")) or "parameters" in usage.methods


def shared_names(parts: Mapping[str, Node]) -> list[str]:
    """Return the names of the parts that other parts read."""
    read = {name for node in parts.values() for written in texts(node) for name in free_of_text(written)}
    return [name for name in parts if name in read]
