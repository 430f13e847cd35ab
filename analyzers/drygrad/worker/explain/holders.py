"""Which of the user's names holds tensors of every step: a list that is appended to, or a running total."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple, cast

import torch

from drygrad.worker.explain.chains import Chains
from drygrad.worker.explain.storing import stored_by_function, stored_here, stored_in_method
from drygrad.worker.lines import Instruction, Lines
from drygrad.worker.naming import locals_of, parts, tensors_in
from drygrad.worker.run import Place

_LIST, _TOTAL, _GROWS, _STATE = "DG501", "DG502", "DG508", "DG108"
_STEPS = 2  # what comes after a step is there for all but the last of three
_LAST = 64
_DEPTH = 2
_OBJECTS = 200
_MANY = 256
_NO_OWNERS = (list, dict, tuple, deque, torch.Tensor, type, ModuleType)

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


def find_holders(lines: Lines, step_of: StepOf, chains: Chains) -> list[Holder]:
    """Look through the user's frames for what holds something of each step.

    ``step_of`` tells in which step a tensor or a node of the graph was made; ``chains`` what was computed of what
    it was a step before.
    """
    found: dict[Place | None, Holder] = {}
    judged: set[int] = set()
    for frame in _frames(lines):
        for name, value in _reachable(frame):
            holder = _judge(lines, frame, name, value, step_of, chains) if id(value) not in judged else None
            if holder:
                judged.add(id(value))  # an outer function knows it by another name
                found.setdefault(holder.place, holder)
    return list(found.values())


def recorded(lines: Lines) -> Iterator[tuple[CodeType, str, torch.Tensor]]:
    """Yield the tensors with a graph that the user's frames have names for: the frame's code, and how to write them."""
    for frame in _frames(lines):
        for name, value in _reachable(frame):
            for part, tensor in _named(name, value):
                if tensor.grad_fn is not None:
                    yield frame.f_code, part, tensor


def _frames(lines: Lines) -> Iterator[FrameType]:
    frame = lines.frame(1)
    while frame is not None:
        if lines.is_user(frame.f_code):
            yield frame
        frame = frame.f_back


def _reachable(frame: FrameType) -> Iterator[tuple[str, object]]:
    """Yield what a frame has names for, down to the attributes of its objects' objects."""
    seen: set[int] = set()
    for name, value in locals_of(frame).items():
        yield from _below(name, value, _DEPTH, seen)


def _below(name: str, value: object, depth: int, seen: set[int]) -> Iterator[tuple[str, object]]:
    yield name, value
    if depth == 0 or id(value) in seen or len(seen) > _OBJECTS or isinstance(value, _NO_OWNERS):
        return
    if type(value).__module__ == "builtins" or type(value).__module__.startswith("torch.optim"):
        return
    seen.add(id(value))
    for part, item in parts(value):
        if not isinstance(item, torch.nn.Parameter):
            yield from _below(name + part, item, depth - 1, seen)


def _judge(lines: Lines, frame: FrameType, name: str, value: object, step_of: StepOf, chains: Chains) -> Holder | None:
    for part, tensor in _named(name, value):
        if chains.is_chain(frame.f_code, part) or (part == name and _adds_up_steps(tensor, step_of)):
            place = _stored(lines, frame, name, lines.of_node(tensor.grad_fn))
            code = _STATE if _is_handed_back(lines, place, name) else _TOTAL
            return Holder(code, name, f"`{name}` links the graphs of all steps", place)
    tensors = _contained(value)
    if len({step_of(tensor) for tensor in tensors} - {None}) < _STEPS:
        return None
    if any(tensor.grad_fn is not None for tensor in tensors):
        return Holder(_LIST, name, f"`{name}` keeps the graph of every step", _stored(lines, frame, name))
    if isinstance(value, deque) and value.maxlen is not None:
        return None
    return Holder(_GROWS, name, f"`{name}` keeps a tensor of every step", _stored(lines, frame, name))


def _named(name: str, value: object) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a tensor, or those that a dict or a short list holds, with how to write them."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (dict, list)) and len(cast("list[object]", value)) <= _LAST:
        for part, item in parts(cast("object", value)):
            if isinstance(item, torch.Tensor):
                yield name + part, item


def _contained(value: object) -> list[torch.Tensor]:
    """Return the tensors in the last entries of something that may grow without an end, or nearly so."""
    if isinstance(value, dict):
        value = list(cast("dict[object, object]", value).values())
    if not isinstance(value, (list, tuple, deque)):
        return []
    if isinstance(value, deque) and value.maxlen is not None and value.maxlen < _MANY:
        return []
    items = list(cast("list[object]", value))[-_LAST:]
    entries = [entry for item in items for entry in _entries(item)]
    return [tensor for entry in entries for _, tensor in tensors_in("", entry)]


def _entries(item: object) -> list[object]:
    return list(cast("dict[object, object]", item).values()) if isinstance(item, dict) else [item]


def _adds_up_steps(tensor: torch.Tensor, step_of: StepOf) -> bool:
    """Say whether a tensor is a sum of sums, of different steps."""
    steps: set[int | None] = set()
    node: Any = tensor.grad_fn
    while node is not None and node.name().startswith("AddBackward") and len(steps) < _STEPS:
        steps.add(step_of(node))
        node = node.next_functions[0][0]
    return len(steps - {None}) >= _STEPS


def _stored(lines: Lines, frame: FrameType, name: str, made: Instruction | None = None) -> Place | None:
    """Return where the text stores what a name holds; where that is not clear, where it was made or the step stands."""
    place = stored_here(lines, frame, name) or stored_by_function(lines, frame, name)
    if place is None and "." in name:
        method = made.code.co_name if made is not None and made.code is not frame.f_code else None
        place = stored_in_method(lines, frame, name, method)
    return place or lines.place(made) or lines.place(Instruction(frame.f_code, frame.f_lasti))


def _is_handed_back(lines: Lines, place: Place | None, name: str) -> bool:
    """Say whether a statement hands a name to a function that gives it back, as a recurrent layer does its state."""
    source = lines.source(place.path) if place is not None else None
    text = source[place.line - 1] if source is not None and place is not None else ""
    given = re.match(r"[\w.,\[\]() ]+=\s*(self|[a-z_]\w*)(\.\w+)*\(", text.strip())
    return (
        given is not None
        and not re.match(r"[^=]*=\s*torch\.", text)
        and re.search(rf"\(.*\b{re.escape(name)}\b", text) is not None
    )
