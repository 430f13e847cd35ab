"""Which of the user's names holds tensors of every step: a list that is appended to, or a running total."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple, cast

import torch

from drygrad.worker.lines import Instruction, Lines
from drygrad.worker.naming import locals_of, parts, tensors_in
from drygrad.worker.run import Place

_LIST, _TOTAL, _GROWS = "DG501", "DG502", "DG508"
_STEPS = 2  # what comes after a step is there for all but the last of three
_LAST = 64

StepOf = Callable[[Any], "int | None"]


class Holder(NamedTuple):
    """A name that keeps something of each step: under which code, where, and why."""

    code: str
    name: str
    reason: str
    place: Place | None

    @property
    def is_graph(self) -> bool:
        """Whether it keeps graphs, not just values."""
        return self.code != _GROWS


def find_holders(lines: Lines, step_of: StepOf) -> list[Holder]:
    """Look through the user's frames for what holds something of each step.

    ``step_of`` tells in which step a tensor or a node of the graph was made.
    """
    found: dict[Place | None, Holder] = {}
    frame = lines.frame(1)
    while frame is not None:
        if lines.is_user(frame.f_code):
            for name, value in _reachable(frame):
                holder = _judge(lines, frame, name, value, step_of)
                if holder:
                    found.setdefault(holder.place, holder)
        frame = frame.f_back
    return list(found.values())


def _reachable(frame: FrameType) -> Iterator[tuple[str, object]]:
    for name, value in locals_of(frame).items():
        yield name, value
        if not isinstance(value, (list, dict, tuple, torch.Tensor, type)) and type(value).__module__ != "builtins":
            for part, item in parts(value):
                yield name + part, item


def _judge(lines: Lines, frame: FrameType, name: str, value: object, step_of: StepOf) -> Holder | None:
    if isinstance(value, torch.Tensor):
        if not _adds_up_steps(value, step_of):
            return None
        return Holder(_TOTAL, name, f"`{name}` links the graphs of all steps", _mention(lines, frame, name))
    tensors = _contained(value)
    if len({step_of(tensor) for tensor in tensors} - {None}) < _STEPS:
        return None
    place = _mention(lines, frame, name)
    if any(tensor.grad_fn is not None for tensor in tensors):
        return Holder(_LIST, name, f"`{name}` keeps the graph of each step", place)
    return Holder(_GROWS, name, f"`{name}` keeps a tensor of each step", place)


def _contained(value: object) -> list[torch.Tensor]:
    if isinstance(value, dict):
        value = list(cast("dict[object, object]", value).values())
    if not isinstance(value, (list, tuple)) and not (isinstance(value, deque) and value.maxlen is None):
        return []
    items = list(cast("list[object]", value))[-_LAST:]
    return [tensor for item in items for _, tensor in tensors_in("", item)]


def _adds_up_steps(tensor: torch.Tensor, step_of: StepOf) -> bool:
    """Say whether a tensor is a sum of sums, of different steps."""
    steps: set[int | None] = set()
    node: Any = tensor.grad_fn
    while node is not None and node.name().startswith("AddBackward") and len(steps) < _STEPS:
        steps.add(step_of(node))
        node = node.next_functions[0][0]
    return len(steps - {None}) >= _STEPS


def _mention(lines: Lines, frame: FrameType, name: str) -> Place | None:
    """Return where the text changes a name: the last line before the current one that appends to it or adds to it."""
    here = lines.place(Instruction(frame.f_code, frame.f_lasti))
    source = lines.source(here.path) if here else None
    if here is None or source is None:
        return here
    first = frame.f_code.co_firstlineno if frame.f_code.co_name != "<module>" else 1
    for line in (*range(here.line, len(source) + 1), *range(here.line - 1, first - 1, -1)):
        text = source[line - 1]
        bare = text.strip()
        if re.match(rf"{re.escape(name)}\s*(\.append|\.add|\.extend|\+=|\[|=.*\b{re.escape(name)}\b)", bare):
            return Place(here.path, line, text.index(bare), line, len(text.rstrip()))
    return here
