"""Experiments: what must hold between two runs of a target; one file a relation, each is switched off by its code."""

from __future__ import annotations

import importlib
import pkgutil

from drygrad.worker.experiments.relation import Relation


def all_relations() -> list[type[Relation]]:
    """Return every relation, the cheapest and most telling first."""
    found: list[type[Relation]] = []
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, type) and issubclass(value, Relation) and value.__module__ == info.name:
                found += [value] if "code" in vars(value) else []
    return sorted(found, key=lambda relation: (relation.rank, relation.code))
