"""What is told of graphs that a step keeps: how grave it is, and why."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Rule, Severity
from drygrad.static.context import Context
from drygrad.static.facts.values import Sequence, Tensor, element_of
from drygrad.static.loops import is_guarded
from drygrad.static.rules.memory.graphs import (
    Graph,
    Step,
    detached,
    graph_of,
    is_needed_by_none,
    renewals,
    repeated_around,
)
from drygrad.static.rules.memory.handing import handed_over
from drygrad.static.rules.memory.keeping import Keeping
from drygrad.static.rules.memory.reading import is_differentiated, is_read
from drygrad.static.tree import walk

_KEPT = {
    "freed": "backward() has freed the saved tensors, but every step leaves its graph's nodes in memory",
    "own": "what is computed after backward() saves new tensors on every step",
    "whole": "no backward frees it, so everything saved for backward accumulates in memory",
}


def told(rule: Rule, keeping: Keeping, step: Step, ctx: Context, what: str) -> Iterator[Finding]:
    """Yield the finding on what a step keeps, where it has a graph that nothing needs."""
    name, kept = keeping.name, keeping.kept
    statement = ctx.statement(kept)
    begun = [*renewals(name, statement, step, ctx)]
    if not all(is_guarded(place, step, ctx) for place in begun):
        return
    graph = graph_of(kept, step, ctx)
    if graph is None or is_differentiated(name, kept, ctx) or _walks_held_graphs(step, ctx):
        return
    if graph.state == "whole" and not is_needed_by_none(kept, name, step, ctx):
        return
    if graph.state == "whole" and keeping.linked and not is_read(name, kept, ctx):
        return
    severity = _severity(graph, bounded=bool(begun) or _ends_with_test(name, kept, ctx))
    yield ctx.finding(rule, kept, f"{what}; {_KEPT[graph.state]}", severity=severity, fixes=[detached(kept, ctx)])


def _walks_held_graphs(step: Step, ctx: Context) -> bool:
    """Say whether the passes are over a list that holds a graph for each anyway."""
    heads = [step] if isinstance(step, (ast.For, ast.AsyncFor)) else getattr(step, "generators", [])
    lists = (ctx.value(node) for head in heads for node in walk(head.iter) if isinstance(node, ast.expr))
    items = (element_of(value) for value in lists if isinstance(value, Sequence) and value.kind == "list")
    return any(isinstance(item, Tensor) and item.requires_grad is True and not item.leaf for item in items)


def _ends_with_test(name: str, kept: ast.expr, ctx: Context) -> bool:
    """Say whether what is kept is local to a test, which does not run for long."""
    function = ctx.function(kept)
    return "." not in name and getattr(function, "name", "").startswith("test_")


def _severity(graph: Graph, *, bounded: bool) -> Severity | None:
    """Saved tensors are activations; a freed graph's nodes are some kilobytes of host memory for each step."""
    if bounded:
        return "hint"
    return "info" if graph.state == "freed" or not graph.certain else None


def told_of_handed(rule: Rule, ctx: Context, *, listed: bool) -> Iterator[Finding]:
    """Yield the findings on what is given to functions of the file that keep it: ``meter.update(loss)``."""
    for node, handed in handed_over(ctx):
        step = repeated_around(node, handed.owner, ctx)
        if handed.listed is not listed or step is None or is_guarded(node, step, ctx):
            continue
        graph = graph_of(handed.argument, step, ctx)
        if graph is None or is_differentiated(handed.owner, handed.statement, ctx):
            continue
        if not listed and ctx.grad_enabled(handed.statement) is False:
            continue
        if graph.state == "whole" and not is_needed_by_none(handed.argument, handed.owner, step, ctx):
            continue
        text = ctx.source_of(handed.argument)
        what = f"{text} still carries its graph" if listed else f"{handed.owner} links the graph of every {text}"
        yield ctx.finding(
            rule,
            handed.argument,
            f"{what}; {_KEPT[graph.state]}",
            severity=_severity(graph, bounded=False),
            related=[("kept here", handed.statement)],
            fixes=[detached(handed.argument, ctx)],
        )
