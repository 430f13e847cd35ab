"""Where what is computed from a parameter leaves its graph, and whether it comes back into one from there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

import torch

from drygrad.worker import graphs
from drygrad.worker.lines import Instruction, Lines
from drygrad.worker.run import Place
from drygrad.worker.spelling import whole_text_of
from drygrad.worker.texts import scope_of, tree_of

_SITES = 256
_LEAVES = 4096
_DETACHES = re.compile(r"detach|\bdata\b")
_OFF = frozenset({"no_grad", "inference_mode", "set_grad_enabled"})


class Departure(NamedTuple):
    """The place where a graph ends: of an operation, or of what has switched gradients off around it."""

    place: Place
    switch: bool


class Departures:
    """Follows leaves out of their graphs. Each operation of each instruction is looked at once."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._seen: set[tuple[Instruction, str]] = set()
        self._places: dict[Instruction, Departure | None] = {}
        self._direct: dict[int, list[Departure]] = {}
        self._computed: dict[int, list[Departure]] = {}
        self._joined: set[Departure] = set()
        self._hidden: set[Departure] = set()

    def left(self, at: Instruction | None, op: str, operands: Iterable[Any], *, recording: bool) -> None:
        """Note that an operation took tensors with a graph and returned one without."""
        if at is None or (at, op) in self._seen or len(self._seen) >= _SITES:
            return
        self._seen.add((at, op))
        if at not in self._places:
            self._places[at] = self._departure(at, recording)
        departure = self._places[at]
        if departure is None:
            return
        if op == "aten::detach" and not _DETACHES.search(whole_text_of(self._lines, at)):
            self._hidden.add(departure)  # autograd detaches what it saves of a result, too
        for tensor in operands:
            if tensor.grad_fn is None:
                self._direct.setdefault(id(tensor), []).append(departure)
            for leaf in islice(graphs.leaves([tensor]), _LEAVES):
                self._computed.setdefault(id(leaf), []).append(departure)

    def at(self, instruction: Instruction | None) -> Departure | None:
        """Return what is known of a place where tensors have left their graphs."""
        return self._places.get(instruction) if instruction is not None else None

    def joined(self, at: Instruction | None) -> None:
        """Note that what left its graph there takes part in an operation that is recorded again."""
        departure = self._places.get(at) if at is not None else None
        if departure is not None:
            self._joined.add(departure)

    def of(self, leaf: int) -> Departure | None:
        """Return where the graph of a leaf ended that goes on as a constant, the one of its results first."""
        found = (*self._computed.get(leaf, ()), *self._direct.get(leaf, ()))
        joined = [departure for departure in found if departure in self._joined]
        # A switch is mostly meant.
        return next((departure for departure in joined if not departure.switch), next(iter(joined), None))

    def only(self, leaf: int) -> Departure | None:
        """Return the end of a leaf's graph, if all its ends are on one line, whatever became of the result."""
        found = [*self._computed.get(leaf, ()), *self._direct.get(leaf, ())]
        found = [departure for departure in found if departure not in self._hidden]
        lines = {(departure.place.path, departure.place.line) for departure in found}
        return found[-1] if len(lines) == 1 else None

    def names(self, at: Instruction | None) -> set[str]:
        """Return the names in the text of an instruction that was not looked at before."""
        text = whole_text_of(self._lines, at) if at is not None and at not in self._places else ""
        return set(re.findall(r"\w+", text))

    def _departure(self, at: Instruction, recording: bool) -> Departure | None:
        switch = None if recording else self._switch(self._lines.frame())
        place = switch or self._lines.place(at)
        return Departure(place, switch is not None) if place is not None else None

    def _switch(self, frame: FrameType | None) -> Place | None:
        """Return what has switched gradients off, in the innermost function of the user's that shows it."""
        while frame is not None:
            source = self._lines.source(frame.f_code.co_filename)
            if source is not None and self._lines.is_user(frame.f_code):
                text = "\n".join(source)
                found = _switch_around(text, frame.f_lineno) or _switched_before(text, frame.f_lineno)
                if found is not None:
                    return self._lines.place_of_node(frame.f_code.co_filename, found)
            frame = frame.f_back
        return None


def visible_tensors(variables: Iterable[tuple[str, object]], names: set[str]) -> list[Any]:
    """Return the tensors with a graph that can be written from some names."""
    found = (value for name, value in variables if re.split(r"\W", name, maxsplit=1)[0] in names)
    return [value for value in found if isinstance(value, torch.Tensor) and value.requires_grad]


@lru_cache(maxsize=64)
def _switch_around(text: str, line: int) -> ast.expr | None:
    """Return the innermost context or decorator that switches gradients off for a line."""
    found: ast.expr | None = None
    for node in ast.walk(tree_of(text)):
        if not isinstance(node, (ast.With, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if not node.body[0].lineno <= line <= (node.end_lineno or node.lineno):
            continue
        heads = [item.context_expr for item in node.items] if isinstance(node, ast.With) else node.decorator_list
        found = next(filter(_switches_off, heads), found)
    return found


@lru_cache(maxsize=64)
def _switched_before(text: str, line: int) -> ast.expr | None:
    """Return the call that has switched gradients off for the rest of a function, if none has switched them on."""
    scope = scope_of(tree_of(text), line)
    calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call) and node.lineno < line and node.args]
    switches = [node for node in calls if getattr(node.func, "attr", "") == "set_grad_enabled"]
    last = max(switches, key=lambda node: node.lineno, default=None)
    is_off = last is not None and isinstance(last.args[0], ast.Constant) and last.args[0].value is False
    return last if is_off else None


def _switches_off(head: ast.expr) -> bool:
    named = head.func if isinstance(head, ast.Call) else head
    return (named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")) in _OFF
