"""Steps forget: a step of training can be taken again and again; no graph of an earlier one is left."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import gc
import re
from collections import deque
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, ClassVar

import torch

from drygrad.worker import errors, graphs, probe
from drygrad.worker.experiments.bench import Bench, Called, Inputs
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.naming import within
from drygrad.worker.reading import quietly
from drygrad.worker.run import Fault, Place

_CALLS = 5
_NEEDED = 4
_SHARE = 0.6
"""After this share of its time it makes no call more than it needs."""
_OF_GRAPHS = frozenset({"DG101", "DG108", "DG113", "DG501", "DG502"})
"""What instruments say of graphs that outlive a step."""
_KEPT, _NOT_CLEARED, _LISTED = "DG108", "DG703", "DG501"
_CLEARS = re.compile(r"zero_grad|\.grad\s*=\s*None|\.grad(\.data)?\.(zero_|fill_)\(|set_to_none")
_RESETTING = re.compile(r"_?(reset(?!_param|_weight)|init_(h|state|mem|leaky)|clear|detach|flush|forget|repackage)")


class StepsForget(Relation):
    """Calls a step of training several times; of a module, its forward with a backward behind it."""

    code: ClassVar[str] = "DG931"
    name: ClassVar[str] = "steps forget"
    rank: ClassVar[int] = 27

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield what a step leaves for the next one."""
        given = bench.inputs()
        is_module = isinstance(given.owner, torch.nn.Module) and given.function is given.owner
        if not is_module and not bench.trains:
            raise NotTried("it takes no training step")
        if any(tensor.grad_fn is not None for tensor in _within(given, but=given.owner if is_module else None)):
            raise NotTried("its input already has a graph, which only its caller renews")
        bench.watch(given)
        yield from (_Passes(bench, given).faults() if is_module else _Steps(bench, given).faults())


def _within(given: Inputs, but: object) -> Iterator[torch.Tensor]:
    for name, value in zip(given.names, given.values):
        if value is not but:
            yield from (held for _, held in within(name, value) if isinstance(held, torch.Tensor))


class _Passes:
    """Forward passes of a module in its mode, with a backward pass behind each."""

    def __init__(self, bench: Bench, given: Inputs) -> None:
        self._bench = bench
        self._given = given

    def faults(self) -> Iterator[Fault]:
        """Yield where a first pass has computed what the backward of the second goes through again."""
        module: torch.nn.Module = self._given.owner
        if self._backward() is not None:
            raise NotTried("a first backward fails")
        last = self._bench.run.lines.last_number()
        returned = self._bench.must_pass(self._given)
        roots = probe.outputs(returned)
        old = [node for node in graphs.nodes(roots) if node._sequence_nr() <= last]
        if not old or self._through(roots) is None:
            return
        if any(_RESETTING.match(name) for part in module.modules() for name in _own_names(type(part))):
            raise NotTried("it keeps state between calls, which a method of its own resets")
        node = max(old, key=lambda node: node._sequence_nr())
        place = self._bench.run.lines.place(self._bench.run.lines.of_node(node))
        if place is None:
            raise NotTried("a graph is kept, but not at a line of the program")
        if self._is_set_elsewhere(place):
            raise NotTried("its state is also set from elsewhere")
        message = "this graph is kept between calls, and the next backward() goes through it a second time"
        yield Fault(_KEPT, message, place, severity="warning")

    def _backward(self) -> BaseException | None:
        return self._through(probe.outputs(self._bench.must_pass(self._given)))

    def _through(self, roots: list[torch.Tensor]) -> BaseException | None:
        """Go backward; return the error of a graph that is freed, or the first error of any kind."""
        if not roots:
            raise NotTried("no result has a graph")
        return probe.failure_of_backward(roots, self._bench.seed)

    def _is_set_elsewhere(self, place: Place) -> bool:
        """Say whether the text sets an attribute, that this line may keep, of another object than ``self``."""
        texts = self._bench.run.lines.texts.values()
        source = self._bench.run.lines.source(place.path) or []
        kept = set(re.findall(r"self\.(\w+)", source[place.line - 1]))
        outside = re.compile(r"(?<![\w.])(?!self\b)\w+(?:\.\w+)*\.(\w+)\s*(?:,[^=]*)?=(?!=)")
        return any(kept.intersection(outside.findall(line)) for text in texts for line in text)


def _own_names(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        if not base.__module__.startswith("torch."):
            yield from vars(base)


class _Steps:
    """Calls of a function that goes backward and takes steps by itself."""

    def __init__(self, bench: Bench, given: Inputs) -> None:
        self._bench = bench
        self._given = given
        self._kept: list[int] = []
        self._newest: list[torch.Tensor] = []

    def faults(self) -> Iterator[Fault]:
        """Yield where a later call fails for a graph of an earlier one, and what keeps the graph of each."""
        progress = self._bench.execution.progress
        gc.collect()
        gc.freeze()
        for number in range(_CALLS):
            called = self._bench.call(self._given)
            if called.error is not None:
                yield self._failed(called, number)
                return
            del called
            if not progress.backwards or not progress.steps:
                raise NotTried("it takes no training step")
            self._count()
            if number + 1 >= _NEEDED and self._bench.spent > _SHARE:
                break
        yield from self._told()

    def _failed(self, called: Called, number: int) -> Fault:
        fault = self._bench.explained(called)
        if not number or fault is None or fault.code not in _OF_GRAPHS:
            assert called.error is not None
            said = f"{type(called.error).__name__}: {errors.first_line(called.error)}"
            raise NotTried(errors.shortened(f"call {number + 1} ends with {said}"))
        fault.message = errors.shortened(f"at call {number + 1}: {fault.message}")
        fault.severity = "warning"
        return fault

    def _count(self) -> None:
        """Count the tensors with a graph that are there after a call; what was there before the first is not seen."""
        self._newest, self._bench.run.op = [], None
        gc.collect()
        with quietly():
            tensors: list[Any] = [o for o in gc.get_objects() if issubclass(type(o), torch.Tensor)]
            self._newest = [tensor for tensor in tensors if tensor.grad_fn is not None]
        self._kept.append(len(self._newest))

    def _told(self) -> Iterator[Fault]:
        """Yield what the instruments say of the calls, and what has grown with each of them."""
        lines = self._bench.run.lines
        for instrument in self._bench.execution.instruments:
            if instrument.name in ("memory", "training"):
                instrument.finish()
        cleared = any(_CLEARS.search(line) for text in lines.texts.values() for line in text)
        told = [f for f in self._bench.run.faults if f.code in _OF_GRAPHS or (f.code == _NOT_CLEARED and not cleared)]
        yield from told
        one, two, three = self._kept[-3:]
        if one < two < three and two - one == three - two and not any(fault.code in _OF_GRAPHS for fault in told):
            yield self._grown(three - two)

    def _grown(self, count: int) -> Fault:
        lines = self._bench.run.lines
        newest = max(self._newest, key=lambda tensor: tensor.grad_fn._sequence_nr() if tensor.grad_fn else 0)
        node: Any = newest.grad_fn
        made = lines.place(lines.of_node(node))
        if made is None:
            raise NotTried("graphs are kept, but not at a line of the program")
        name = self._holder(newest)
        what = f"`{name}` keeps" if name else "there are"
        noun = "tensor" if count == 1 else "tensors"
        message = f"after each call {what} {count} more {noun} with a graph; detach what is kept"
        severity = "info" if graphs.is_freed(node) else "warning"
        stored = self._stored(name, made) if name else None
        related = [("the graph is created here", made)] if stored is not None else []
        return Fault(_LISTED if stored else StepsForget.code, message, stored or made, None, severity, related)

    def _holder(self, tensor: torch.Tensor) -> str | None:
        """Return a name of the target's inputs, or of its module, by which a tensor can be reached."""
        known: dict[str, Any] = getattr(self._given.function, "__globals__", {})
        for name, value in (*zip(self._given.names, self._given.values), *list(known.items())):
            if isinstance(value, (type, ModuleType)):
                continue
            held: dict[str, Any] = getattr(value, "__dict__", {})
            reached: list[tuple[str, Any]] = [(name, value), *((f"{name}.{key}", held[key]) for key in held)]
            for path, item in reached:
                if isinstance(item, (list, dict, tuple, set, deque)) and _has(item, tensor):
                    return path
        return None

    def _stored(self, name: str, made: Place) -> Place | None:
        """Return the line of the file that adds something to what has a name."""
        last = re.escape(name.rpartition(".")[2])
        adds = re.compile(rf"\b{last}\s*(\.(append|appendleft|add|extend|insert)\(|\[[^]]*\]\s*=(?!=)|\+=)")
        for number, text in enumerate(self._bench.run.lines.source(made.path) or [], 1):
            if adds.search(text) and not text.lstrip().startswith("#"):
                return Place(made.path, number, len(text) - len(text.lstrip()), number, len(text.rstrip()))
        return None


def _has(value: Any, tensor: torch.Tensor) -> bool:
    """Say whether a container holds a tensor."""
    return any(held is tensor for held in probe.tensors(value))
