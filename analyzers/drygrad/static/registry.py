"""Which rules there are, and which visitor hears of which node or event.

A visitor subscribes by the annotation of its first parameter: an ``ast`` class, an event class of
``drygrad.static.facts.events``, or a union of these. A rule that names torch operations in ``calls`` hears only of
calls to those, so that a file's calls are not offered to a hundred rules each.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from drygrad.model import Finding, Rule
from drygrad.static import rules
from drygrad.static.facts import events

Visitor: TypeAlias = Callable[[Any, Any], Iterable[Finding] | None]
SEEN_IN_RUNS = frozenset(
    "DG101 DG102 DG103 DG105 DG106 DG107 DG108 DG110 DG112 DG114 DG116 DG117 DG118 DG201 DG203 DG204 DG205 DG206 DG207 "
    "DG211 DG301 DG302 DG303 DG304 DG305 DG307 DG308 DG309 DG310 DG311 DG313 DG314 DG315 DG317 DG324 DG325 DG326 DG327 "
    "DG328 DG334 DG401 DG402 DG403 DG404 DG405 DG406 DG407 DG409 DG413 DG419 DG501 DG502 DG506 DG510 DG602 DG604 DG609 "
    "DG620 DG701 DG703 DG704 DG707 DG708 DG709 DG715 DG722 DG724 DG727 DG738 DG741 DG743 DG744 DG754 DG769 "
    "DG805".split()
)
"""The rules whose fault a run may see where the text alone does not show it."""


class Subscriptions:
    """The visitors of a set of rules, by what they wait for."""

    def __init__(self, classes: Iterable[type[Rule]]) -> None:
        self.by_type: dict[type, list[Visitor]] = defaultdict(list)
        self.by_operation: dict[str, list[Visitor]] = defaultdict(list)
        for rule_class in classes:
            rule = rule_class()
            operations: Iterable[str] = getattr(rule_class, "calls", ())
            for kind, visitor in _visitors(rule):
                if kind is ast.Call and operations:
                    for operation in operations:
                        self.by_operation[operation].append(visitor)
                else:
                    self.by_type[kind].append(visitor)


def _visitors(rule: Rule) -> Iterator[tuple[type, Visitor]]:
    for name, method in inspect.getmembers(rule, inspect.ismethod):
        if name.startswith("visit_"):
            for kind in _subscribed(method):
                yield kind, method


def _subscribed(method: Callable[..., Any]) -> Iterator[type]:
    """Yield the types in the annotation of a visitor's first parameter; rule files use postponed annotations."""
    parameters = list(inspect.signature(method).parameters.values())
    for part in str(parameters[0].annotation).split("|"):
        name = part.strip()
        found = getattr(ast, name.removeprefix("ast."), None) or getattr(events, name.removeprefix("events."), None)
        if found is None:
            raise TypeError(f"{method.__qualname__}: cannot subscribe to {name!r}")
        yield found


@cache
def all_rules() -> tuple[type[Rule], ...]:
    """Return every rule under ``drygrad.static.rules``, in the order of the codes."""
    found: dict[str, type[Rule]] = {}
    for info in pkgutil.walk_packages(rules.__path__, rules.__name__ + "."):
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            if (
                inspect.isclass(value)
                and issubclass(value, Rule)
                and value.__module__ == info.name
                and "code" in vars(value)
            ):
                found[value.code] = value
    return tuple(found[code] for code in sorted(found))


def rule_by_code(code: str) -> type[Rule] | None:
    """Return the rule of a code or a name, in any case; None if there is none."""
    wanted = code.strip().lower()
    return next((rule for rule in all_rules() if wanted in (rule.code.lower(), rule.name)), None)


@cache
def relations() -> Mapping[str, str]:
    """Return what experiments try: what must hold, in words, by the code of its rule."""
    return {rule.code: rule.relation for rule in all_rules() if rule.relation}
