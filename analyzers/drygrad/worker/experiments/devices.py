"""Devices are equal: what passed on the CPU runs on the GPU, too, where all is moved there that a user would move."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import torch

from drygrad.worker import errors, probe
from drygrad.worker.experiments import placed
from drygrad.worker.experiments.afresh import made_otherwise, switches
from drygrad.worker.experiments.bench import Bench, Called, Inputs
from drygrad.worker.experiments.moving import Moving
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.explain.blame import is_loop
from drygrad.worker.explain.scene import Scene
from drygrad.worker.forgiving import Forgiving
from drygrad.worker.ledger import Held, Origin
from drygrad.worker.naming import Call, calls_of_error, parts
from drygrad.worker.reading import device_text, share_storage
from drygrad.worker.run import Fault, Place
from drygrad.worker.spelling import text_of

_GPU = "cuda"
_CAUSES = frozenset(("DG201", "DG203", "DG204", "DG205", "DG207"))
"""The rules that recognise what mixes devices."""
_COPY = "aten::_to_copy"
_DEPTH = 4
_REPEATED, _MOST_REPEATED = 12, 0.3
"""So often a method is called again, within this share of the time."""
_MOST_OTHERWISE = 0.6
_THERE = "its inputs were already on the GPU"


class DevicesAreEqual(Relation):
    """Calls the target once more with its inputs on the GPU; where they are there already, looks at what it returns."""

    code: ClassVar[str] = "DG921"
    name: ClassVar[str] = "devices are equal"
    rank: ClassVar[int] = 10

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield what mixes devices of its own accord, or what stays on the CPU."""
        if not torch.cuda.is_available():
            raise NotTried("there is no GPU, real or simulated")
        if bench.plan.get("program") and torch.cuda.max_memory_allocated():
            raise NotTried("the calling program uses the GPU and passes CPU inputs on purpose")
        given = bench.inputs()
        others = switches(bench, given.owner) if isinstance(given.owner, torch.nn.Module) else {}
        if _is_there(given):
            faults = [*_returned(bench, given)] if _is_wholly_there(given) else []
            yield from faults
            if not (faults or others):
                raise NotTried(_THERE)
        else:
            moving = Moving(_GPU)
            given = moving.inputs(given)
            faults = [*_faults(bench, given, moving)]
            yield from faults
            others = {} if faults else others
        yield from _otherwise(bench, given, others)


def _is_there(given: Inputs) -> bool:
    """Say whether inputs are on the GPU already."""
    return any(tensor.is_cuda for tensor in _given(given))


def _is_wholly_there(given: Inputs) -> bool:
    """Say whether all inputs are on the GPU."""
    return all(tensor.is_cuda for tensor in _given(given))


def _given(given: Inputs) -> Iterator[torch.Tensor]:
    """Yield the tensors among inputs, and those that modules have."""
    yield from probe.tensors((given.positional, given.named))
    for value in given.values:
        yield from torch.nn.Module.parameters(value) if isinstance(value, torch.nn.Module) else ()


def _returned(bench: Bench, given: Inputs) -> Iterator[Fault]:
    """Yield what a call with inputs on the GPU returns from the CPU."""
    bench.run.tell("begins", {}, dict(zip(given.names, given.values)))
    yield from _left_behind(bench, bench.must_pass(given))


def _faults(bench: Bench, given: Inputs, moving: Moving) -> Iterator[Fault]:
    """Yield what a call with inputs that were moved has to say."""
    if not moving.count and not _told(given):
        raise NotTried("nothing among its inputs has a device")
    bench.run.tell("begins", {}, dict(zip(given.names, given.values)))
    met = _Met(bench, moving)
    called = _called(bench, given, met)
    if called.error is None and not met.any:
        yield from _left_behind(bench, called.returned)
        called = _backward(bench, called.returned)
        if called.error is None:
            _repeat(bench, given, met)
    if called.error is not None and not met.any:
        yield _mixed(bench, called, moving)
    yield from met.faults()


def _otherwise(bench: Bench, given: Inputs, others: Mapping[str, bool]) -> Iterator[Fault]:
    """Yield what mixes devices where the constructor of the module is given the other of True and False."""
    for name, value in others.items():
        if bench.spent > _MOST_OTHERWISE:
            return
        moving = Moving(_GPU)
        try:
            fresh = made_otherwise(bench, given.owner, bench.seed, {name: value}).train(given.owner.training)
            owner = moving.value(fresh)
            function = owner if given.function is given.owner else getattr(owner, given.function.__name__)
            other = replace(given, owner=owner, function=function)
            bench.run.tell("begins", {}, dict(zip(other.names, other.values)))
            met = _Met(bench, moving)
            _called(bench, other, met)
            faults = met.faults()
        except (NotTried, AttributeError):
            continue
        for fault in faults:
            fault.message += f", made with {name}={value}"
            fault.severity = "info"
            yield fault
        if faults:
            return


def _called(bench: Bench, given: Inputs, met: _Met) -> Called:
    """Call the target; where it mixes devices, that is told, and it goes on."""
    bench.run.forgive = Forgiving(bench.run, met.tell)
    called = bench.call(given)
    bench.run.forgive = None
    return called


def _repeat(bench: Bench, given: Inputs, met: _Met) -> None:
    """Call a method again: what an object keeps of its calls may take it to lines that the first has not come to.

    A module, which seldom counts them, is called a second time. Raises NotTried where a later call fails otherwise.
    """
    most = 0 if given.owner is None else 1 if isinstance(given.owner, torch.nn.Module) else _REPEATED
    for _ in range(most):
        if met.any or bench.spent > _MOST_REPEATED:
            return
        called = _called(bench, given, met)
        if called.error is not None and not met.any:
            raise NotTried(f"a later call ends with {type(called.error).__name__}")


class _Met:
    """What has mixed devices in a call that goes on behind that."""

    def __init__(self, bench: Bench, moving: Moving) -> None:
        self._bench = bench
        self._moving = moving
        self._faults: list[Fault] = []
        self._why_not: NotTried | None = None

    @property
    def any(self) -> bool:
        """Whether there was something."""
        return bool(self._faults) or self._why_not is not None

    def tell(self, error: RuntimeError) -> None:
        """Hear of an operation that mixes devices; behind one that is not the target's own nothing is known to be."""
        if self._why_not is not None:
            return
        called = Called(error=error, place=self._bench.run.lines.place_of_error(error))
        try:
            self._faults.append(_mixed(self._bench, called, self._moving))
        except NotTried as why:
            self._why_not = why

    def faults(self) -> list[Fault]:
        """Return the faults. Raises NotTried where the first was none of the target's own."""
        if self._why_not is not None and not self._faults:
            raise self._why_not
        return self._faults


def _backward(bench: Bench, returned: Any) -> Called:
    """Go backward from what the target returned; only a mixture of devices there is of interest."""
    roots = probe.outputs(returned)
    if not roots:
        return Called()
    error = probe.failure_of_backward(roots, bench.seed)
    if error is None:
        return Called()
    called = Called(error=error, place=bench.run.lines.place_of_error(error))
    return called if _strays(bench, called) else Called()


def _mixed(bench: Bench, called: Called, moving: Moving) -> Fault:
    """Return the fault of a call that mixed devices by itself. Raises NotTried where it is not known to be its own."""
    assert called.error is not None
    fault = bench.explained(called)
    strays = _strays(bench, called)
    said = f"{type(called.error).__name__}: {errors.first_line(called.error)}"
    if fault is None or fault.code not in _CAUSES:
        outcome = errors.outcome_of(called.error, bench.run)
        raise NotTried(f"on the GPU it {'ends with' if outcome == 'failed' else 'cannot run:'} {said}")
    calls = calls_of_error(bench.run, called.error)
    own = all(_is_own(bench, stray, moving) or _is_constant(calls, stray) for stray in strays)
    if fault.code != "DG207" and not (strays and own):
        raise NotTried("the operand that stays on the CPU came with the inputs")
    if fault.code == "DG205" and all(_is_made_of_nothing(bench, stray, fault.at) for stray in strays):
        fault.code = "DG203"
    if moving.told:
        _blame_own(bench, fault, strays)
    fault.message += " (when it works on the GPU)" if moving.told else " (with its inputs on the GPU)"
    fault.severity = "info" if moving.told or _is_of_the_host(bench) else "warning"
    return fault


def _source(bench: Bench, held: Held) -> Origin:
    """Return what has put a tensor on the CPU: the fetching of a batch, whatever its samples were made of before."""
    fetched = held.origin.instruction
    if fetched is not None and (is_loop(fetched) or (text_of(bench.run.lines, fetched) or "").startswith("next(")):
        return held.origin
    return held.roots.device


def _blame_own(bench: Bench, fault: Fault, strays: list[torch.Tensor]) -> None:
    """Tell of what the target's file has fetched or made where it did, rather than where another file meets it."""
    held = (bench.run.held_of(stray) for stray in strays)
    sources = [_source(bench, one) for one in held if one is not None]
    places = (bench.run.lines.place(line) for source in sources for line in (source.instruction, *source.lines))
    own = next((place for place in places if place is not None and place.path == bench.plan["path"]), None)
    if own is not None and fault.at is not None and fault.at.path != own.path:
        fault.related.append(("they meet here", fault.at))
        fault.at = own


def _told(given: Inputs) -> bool:
    """Tell a target the device that has a parameter for it; say whether it has."""
    try:
        parameters = inspect.signature(given.function).parameters
    except (TypeError, ValueError):
        return False
    free = "device" in parameters and "device" not in given.names
    if free and parameters["device"].kind is not inspect.Parameter.POSITIONAL_ONLY:
        given.named["device"] = torch.device(_GPU)
        return True
    return False


def _is_of_the_host(bench: Bench) -> bool:
    """Say whether the program itself calls the target with tensors of the CPU, though there is a GPU."""
    specs = [*(bench.plan.get("arguments") or ()), *([bench.plan["receiver"]] if bench.plan.get("receiver") else ())]
    called = bool(specs) and all(spec.get("source") in ("call", "constructor") for spec in specs)
    return called and bench.plan.get("elsewhere") is None


def _strays(bench: Bench, called: Called) -> list[torch.Tensor]:
    """Return the tensors that have met others on the GPU and are on the CPU themselves."""
    assert called.error is not None
    calls = calls_of_error(bench.run, called.error)
    if not calls:
        return []
    tensors = [operand.tensor for operand in Scene(bench.run, called.error, called.place, calls).operands()]
    if not any(tensor.is_cuda for tensor in tensors):
        return []
    on_host = [tensor for tensor in tensors if tensor.device.type == "cpu"]
    return [tensor for tensor in on_host if tensor.dim()] or on_host


def _is_own(bench: Bench, tensor: torch.Tensor, moving: Moving) -> bool:
    """Say whether the target has made a tensor itself, or a module holds it that moving the module does not reach.

    Batches that it fetches are its own to move where an object among its inputs knows where to.
    """
    held = bench.run.held_of(tensor)
    if held is not None and moving.told and _source(bench, held).within:
        return True
    if held is not None and held.roots.device.within:
        return not _is_fetched(held.roots.device)
    if any(_holds(module, tensor) for module in moving.modules if not _takes_device(module)):
        return True
    return any(placed.makes_itself(value, tensor) for value in moving.left)


def _is_made_of_nothing(bench: Bench, tensor: torch.Tensor, at: Place | None) -> bool:
    """Say whether a factory has made a tensor at a place, and was told no device."""
    made = _factory(bench, tensor)
    place = bench.run.lines.place(made.instruction) if made is not None else None
    return place is not None and at is not None and place[:2] == at[:2]


def _factory(bench: Bench, tensor: torch.Tensor) -> Origin | None:
    """Return what has put a tensor on the CPU, if it is the target's making of nothing, and names no device."""
    held = bench.run.held_of(tensor)
    made = held.roots.device if held is not None else None
    if made is None or not (made.within and made.from_nothing) or made.op == _COPY or _is_fetched(made):
        return None
    return None if "device" in (text_of(bench.run.lines, made.instruction) or "") else made


def _is_constant(calls: list[Call], tensor: torch.Tensor) -> bool:
    """Say whether a function of the program's reads a tensor from the top of its file, where no caller can move it."""
    read = (value for call in calls for value in call.read_of_file())
    return any(isinstance(value, torch.Tensor) and share_storage(value, tensor) for value in read)


def _is_fetched(origin: Origin) -> bool:
    """Say whether a loop has fetched what was made: data, whose device is their own code's matter."""
    return any(is_loop(line) for line in origin.lines)


def _holds(module: torch.nn.Module, tensor: torch.Tensor) -> bool:
    whole = (part for part in module.modules() if not _takes_device(part))
    return any(_keeps(vars(part), tensor, _DEPTH) for part in whole)


def _keeps(value: Any, tensor: torch.Tensor, depth: int) -> bool:
    if isinstance(value, torch.Tensor):
        return share_storage(value, tensor)
    if depth == 0:
        return False
    if isinstance(value, (dict, list, tuple)):
        return any(_keeps(item, tensor, depth - 1) for _, item in parts(cast("object", value)))
    return isinstance(value, torch.nn.Module) and any(
        share_storage(p, tensor) for p in torch.nn.Module.parameters(value)
    )


def _takes_device(module: torch.nn.Module) -> bool:
    """Say whether a module is told its device when it is made, or keeps one."""
    try:
        return "device" in inspect.signature(type(module)).parameters or bool(placed.devices(module))
    except (TypeError, ValueError):
        return False


def _left_behind(bench: Bench, returned: Any) -> Iterator[Fault]:
    """Yield what a call has made of nothing, on no device that is named, and returned from among its inputs."""
    for tensor in probe.tensors(returned):
        made = _factory(bench, tensor) if tensor.device.type == "cpu" and tensor.dim() else None
        place = bench.run.lines.place(made.instruction) if made is not None else None
        if place is not None and tensor.is_floating_point():
            where = device_text(torch.device(_GPU, 0))
            message = f"created on the CPU and returned, although the inputs are on {where}"
            yield Fault(DevicesAreEqual.code, message, place, severity="info")
