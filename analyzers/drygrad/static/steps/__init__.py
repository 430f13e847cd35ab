"""The steps of training in a body of code, in the order in which they run.

Forward, loss, backward, clipping, optimizer and scheduler steps, what a GradScaler does, train() and eval(): each with
the loops, branches and with blocks around it. Calls into functions of the same file are followed, so that the body of a
``main`` shows the whole run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from drygrad.static.context import Context, FunctionNode
from drygrad.static.roles import roles_by_call
from drygrad.static.steps.events import Block, Body, Branch, Event, Kind, Training
from drygrad.static.steps.reader import Reader
from drygrad.static.tree import remembered, walk
from drygrad.static.uses import uses_by_class

__all__ = ["Block", "Branch", "Event", "Kind", "Training", "plain_trainings", "trainings"]

_RELEVANT = re.compile(r"\b(backward|zero_grad|load_state_dict)\b|\.(step|train|eval)\(")
_TELLING = re.compile(r"backward|step|train|eval|scale|update|load_state_dict|grad|zero")
"""Names without which no step is taken."""
_FRAMEWORKS = frozenset(
    "accelerate deepspeed lightning lightning_fabric pytorch_lightning ignite fastai colossalai apex mmengine mmcv "
    "composer horovod fairscale fairseq catalyst skorch poutyne torchbearer higher learn2learn".split()
)


def trainings(ctx: Context) -> tuple[Training, ...]:
    """Return the bodies of the file that take any step: its functions in the order of the text, then its script."""
    return ctx.derived(_read_file)


def plain_trainings(ctx: Context) -> list[Training]:
    """Return the bodies whose steps are all torch's own: no framework takes part."""
    return [training for training in trainings(ctx) if training.framework is None]


def _read_file(ctx: Context) -> tuple[Training, ...]:
    if not ctx.mentions(_RELEVANT):
        return ()
    framework = _imported_framework(ctx)
    functions = _that_may_step([*ctx.nodes(ast.FunctionDef, ast.AsyncFunctionDef)])
    found: list[Training] = []
    for body in (*sorted(functions, key=lambda node: node.lineno), ctx.tree):
        events = _events_of(body, ctx)
        if any(event.kind not in ("unseen", "forward", "loss") for event in events):
            found.append(Training(body, events, framework or _engine_of(events)))
    return tuple(found)


def _that_may_step(functions: list[FunctionNode]) -> list[FunctionNode]:
    """Return the functions that name a step, or a function that may take one: the others need not be read."""
    named = {function: frozenset(_names_in(function)) for function in functions}
    telling = {function.name for function, names in named.items() if any(map(_TELLING.search, names))}
    found = len(telling) + 1
    while len(telling) != found:
        found = len(telling)
        telling |= {function.name for function, names in named.items() if not telling.isdisjoint(names)}
    return [function for function in functions if function.name in telling]


@remembered
def _names_in(function: ast.AST) -> Iterator[str]:
    for node in walk(function):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield "__call__"


def _events_of(body: Body, ctx: Context) -> tuple[Event, ...]:
    """Return the events of a body: as they were in the version before where neither it nor any class has changed."""
    ground = None if isinstance(body, ast.Module) else ctx.facts.ground_of(body)
    whole = None if ground is None else (*ground, uses_by_class(ctx), roles_by_call(ctx))
    return ctx.facts.derivations.get((_events_of, body), whole, lambda: _numbered(ctx.derived(Reader).events_of(body)))


def _numbered(events: tuple[Event, ...]) -> tuple[Event, ...]:
    return tuple(replace(event, index=i) for i, event in enumerate(events))


def _imported_framework(ctx: Context) -> str | None:
    for node in ctx.nodes(ast.Import, ast.ImportFrom):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
            if node.module.startswith("transformers") and any(a.name.endswith("Trainer") for a in node.names):
                return "transformers"
        for name in names:
            if name.partition(".")[0] in _FRAMEWORKS:
                return name.partition(".")[0]
    return None


def _engine_of(events: tuple[Event, ...]) -> str | None:
    return next((e.receiver for e in events if e.kind == "backward" and "engine" in e.roles), None)
