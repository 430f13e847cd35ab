"""Inputs matter: of each tensor that a target computes with, and of each feature, the values change some result."""

from __future__ import annotations

import ast
import dis
import inspect
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any, ClassVar, cast

import torch

from drygrad.worker import probe
from drygrad.worker.experiments.batches import mapped
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.held import Held, require_tensors
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.trace import Trace, partings
from drygrad.worker.reading import is_readable, quietly
from drygrad.worker.run import Fault, Place
from drygrad.worker.texts import function_at

_SHARE = 0.7
_LARGEST = 1 << 22
_MOST = 8


class InputsMatter(Relation):
    """Changes one input after the other, then the features of which no gradient comes back."""

    code: ClassVar[str] = "DG928"
    name: ClassVar[str] = "inputs matter"
    rank: ClassVar[int] = 34

    def glance(self, given: Inputs) -> None:
        """Take what is given tensors."""
        require_tensors([*_inputs(given)])

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield the inputs, and the features of inputs, that change no result."""
        given = bench.inputs()
        if isinstance(given.owner, torch.nn.Module):
            _enliven(given.owner.eval())
        inputs = [*_inputs(given)]
        require_tensors(inputs)
        calls = _Calls(bench, given)
        if not calls.results:
            raise NotTried("it returns no tensors")
        start = _start(bench, given)
        bound = {*_bound_before_read(bench, given)} if start is not None else set[str]()
        silent = {held.name for held in inputs} & bound
        for name in sorted(silent):
            message = f"`{name}` is reassigned before it is read, so the argument has no effect"
            yield Fault(self.code, message, start, severity="info")
        for held in (held for held in inputs[:_MOST] if held.name not in silent):
            if bench.spent > _SHARE:
                return
            step = calls.last_step(held)
            if step is not None:
                silent.add(held.name)
                place = bench.run.lines.place(calls.trace.steps[step].instruction)
                if place is not None:
                    message = f"`{held.name}` has no effect on the result; its influence ends here"
                    yield Fault(self.code, message, place, severity="info")
        if isinstance(given.owner, torch.nn.Module) and not silent:
            yield from self._features(bench, calls, inputs)

    def _features(self, bench: Bench, calls: _Calls, inputs: list[Held]) -> Iterator[Fault]:
        gradients = calls.gradients(inputs)
        for held in inputs:
            dead = _dead_features(gradients.get(held.name))
            if bench.spent > _SHARE or dead is None or not calls.ignores(held, dead):
                continue
            place = _start(bench, calls.given)
            if place is not None:
                part = f"`{held.name}[:, {dead.start}:{dead.stop}]`"
                yield Fault(
                    self.code,
                    f"{part} has no effect on the result, although the rest of it does",
                    place,
                    severity="info",
                )


def _enliven(module: torch.nn.Module) -> None:
    """Give parameters that are 0 throughout other values: a gate that is closed at first opens while it trains."""
    generator = torch.Generator().manual_seed(0)
    with quietly():
        for parameter in torch.nn.Module.parameters(module):
            if is_readable(parameter) and parameter.is_floating_point() and not bool(parameter.any()):
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)


def _inputs(given: Inputs) -> Iterator[Held]:
    """Yield the tensors among the arguments that the target's text reads, but for those that it calls unused."""
    code = _code(given)
    loaded = [i.argval for i in dis.get_instructions(code)] if code is not None else []
    read = {
        name for one in loaded for name in (cast("tuple[Any, ...]", one) if isinstance(one, tuple) else (one,))
    }  # two loads in one
    for name, value in zip(given.names, given.values):
        known = isinstance(value, torch.Tensor) and is_readable(value) and 1 < value.numel() <= _LARGEST
        unused = name.startswith("_") or (code is not None and name in code.co_varnames and name not in read)
        if isinstance(value, torch.Tensor) and known and not unused:
            yield Held(name, value)


def _start(bench: Bench, given: Inputs) -> Place | None:
    """Return the line at which the user's text of the target begins."""
    code = _code(given)
    known = code is not None and bench.run.lines.is_user(code)
    return Place(code.co_filename, code.co_firstlineno) if code is not None and known else None


def _bound_before_read(bench: Bench, given: Inputs) -> Iterator[str]:
    """Yield the parameters to whose names the first statement that has them binds something else, whatever happens."""
    code = _code(given)
    source = bench.run.lines.source(code.co_filename) if code is not None else None
    function = function_at("\n".join(source), code.co_firstlineno) if code is not None and source is not None else None
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code is not None else ():
        for statement in function.body if function is not None else ():
            uses = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id == name]
            if uses and isinstance(statement, ast.Assign) and all(isinstance(node.ctx, ast.Store) for node in uses):
                yield name
            if uses:
                break


def _code(given: Inputs) -> CodeType | None:
    function: Any = given.function
    return getattr(inspect.unwrap(getattr(function, "forward", function)), "__code__", None)


class _Calls:
    """Calls of one target, with the inputs as they are and with some values changed."""

    def __init__(self, bench: Bench, given: Inputs) -> None:
        self._bench = bench
        self.given = given
        self.results, self.trace = self._traced({})

    def last_step(self, held: Held) -> int | None:
        """Return where the influence of an input ends; None where it changes a result, or what is kept, or nothing."""
        changed: set[int] = set()
        for value in _others(held.tensor):
            try:
                results, trace = self._traced({id(held.tensor): value})
            except NotTried:
                return None  # it is not to have such values, which is to matter
            if not _are_equal(self.results, results):
                return None
            changed.update(partings(self.trace, trace))
        if not changed or any(self.trace.steps[number].written for number in changed):
            return None
        return max(self._readers(changed), default=max(changed))

    def _readers(self, changed: set[int]) -> Iterator[int]:
        """Yield the steps on the way to a result that read what changes, and come to the same."""
        memory = {made for number in changed for made in self.trace.steps[number].made}
        for number in self.trace.behind(self.results):
            if number not in changed and not memory.isdisjoint(self.trace.steps[number].read):
                yield number

    def ignores(self, held: Held, dead: slice) -> bool:
        """Say whether some features change nothing, whatever they are."""
        for scale in (0.5, 3.0, -1.0):
            value = held.tensor.detach().clone()
            value[:, dead] = value[:, dead] * scale + scale
            try:
                results, _ = self._traced({id(held.tensor): value})
            except NotTried:
                return False
            if not _are_equal(self.results, results):
                return False
        return True

    def gradients(self, inputs: list[Held]) -> dict[str, torch.Tensor]:
        """Return what comes back to floating inputs from all results."""
        leaves = {id(one.tensor): one.tensor.detach().clone() for one in inputs}
        for leaf in leaves.values():
            leaf.requires_grad_(leaf.is_floating_point())
        self._bench.listen()
        with torch.enable_grad():
            returned = self._bench.must_pass(mapped(self.given, lambda t: leaves.get(id(t), t.detach().clone())))
        roots = probe.outputs(returned)
        if not roots or any(not r.requires_grad for r in probe.tensors(returned)):
            return {}
        if probe.failure_of_backward(roots, self._bench.seed) is not None:
            return {}
        found = ((one.name, leaves[id(one.tensor)].grad) for one in inputs)
        return {name: gradient for name, gradient in found if gradient is not None}

    def _traced(self, values: dict[int, torch.Tensor]) -> tuple[list[torch.Tensor], Trace]:
        trace = Trace(self._bench.run)
        with quietly():
            given = mapped(self.given, lambda tensor: values.get(id(tensor), tensor).detach().clone())
        self._bench.listen(trace)
        with torch.no_grad():
            returned = self._bench.must_pass(given)
        if trace.full:
            raise NotTried("too large to compare")
        return [tensor for tensor in probe.tensors(returned) if is_readable(tensor)], trace


def _others(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return other values of the kind that a tensor has."""
    with quietly():
        value = tensor.detach()
        if value.is_floating_point():
            noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(1)).to(value)
            spread = value.std().nan_to_num(1.0).clamp(min=0.1)
            others = [value * 0.5, value + spread * noise, value + 4 * spread * noise]
        elif bool(((value == 0) | (value == 1)).all()):
            others = [_inverted(value, slice(-1, None)), _inverted(value, slice(0, 1)), 1 - value.int()]
        else:
            others = _exchanged(value)
        others = [other.to(value.dtype) for other in others]
        return [other for other in others if not bool((other == value).all())]


def _exchanged(value: torch.Tensor) -> list[torch.Tensor]:
    """Return whole numbers of the same range: in another order, which may mean the same, and others."""
    flat, generator = value.flatten(), torch.Generator().manual_seed(1)
    order = torch.randperm(flat.numel(), generator=generator).to(flat.device)
    drawn = flat[torch.randint(flat.numel(), (flat.numel(),), generator=generator).to(flat.device)]
    merged = torch.where(flat == flat[-1], flat[0], flat)
    return [one.view(value.shape) for one in (flat.roll(1), flat[order], drawn, merged)]


def _inverted(mask: torch.Tensor, where: slice) -> torch.Tensor:
    other = mask.int().clone()
    other[..., where] = 1 - other[..., where]
    return other


def _are_equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    same: Callable[[torch.Tensor, torch.Tensor], bool] = torch.equal
    return len(one) == len(other) and all(a.shape == b.shape and same(a, b) for a, b in zip(one, other))


def _dead_features(gradient: torch.Tensor | None) -> slice | None:
    """Return the features to which nothing comes back, where they are some of several, in one row."""
    if gradient is None or gradient.dim() not in (2, 4) or gradient.shape[1] < 2:
        return None
    with quietly():
        alive = (gradient != 0).transpose(0, 1).flatten(1).any(1)
        count = alive.numel()
        dead = [number for number in range(count) if not bool(alive[number])]
    if not dead or len(dead) == count or dead[-1] - dead[0] + 1 != len(dead):
        return None
    return slice(dead[0], dead[-1] + 1)
