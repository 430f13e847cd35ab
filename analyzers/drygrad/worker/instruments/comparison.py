"""What two runs are compared by, before and after a repair: values, what the target has changed, and gradients.

At work only in runs that are made to try a fix. Tensors are compared at some of their elements, evenly spread.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any, ClassVar, Optional, cast

import torch

from drygrad.worker.reading import at_hand, is_readable, quietly, storage_of
from drygrad.worker.run import Instrument, Place, Run
from drygrad.worker.watch import Op

_ELEMENTS = 32
_VALUES = 600
_TIMES = 4
_TENSORS = 300
_ITEMS = 16
_DEPTH = 3
_HUGE = 1e300
_STEPS = 2
_LONGEST = 1000
"""A longer name, of a key such as a text, is of no use to a reader, and not sent."""
_OPAQUE = (str, bytes, type, ModuleType, FunctionType)

Sample = dict[str, Any]


class Comparison(Instrument):
    """Samples what names were bound to, and what the target was given and the module holds, before and after it."""

    name: ClassVar[str] = "comparison"
    only_to_compare: ClassVar[bool] = True

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._values: list[dict[str, Any]] = []
        self._times: Counter[tuple[int, str]] = Counter()
        self._names: Mapping[str, Any] = {}
        self._inputs: Mapping[str, Any] = {}
        self._before: dict[str, Sample] = {}
        self._homes: dict[int, str] = {}
        self._written: set[str] = set()
        self._steps: list[dict[str, Any]] = []
        self._stepped = 0

    def begins(self, names: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        """Take note of the state that the target finds."""
        self._names, self._inputs = names, inputs
        for path, value in self._state():
            sample = _sampled(value)
            if sample is not None:
                self._before[path] = sample
            storage = storage_of(value) if isinstance(value, torch.Tensor) else None
            if storage is not None:
                self._homes.setdefault(storage._cdata, path)

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for the operations that write."""
        return phase == "forward" and func._schema.is_mutable

    def before_op(self, op: Op) -> None:
        """Take note of what is to be written, whether the write then succeeds or not."""
        for argument, value in zip(op.func._schema.arguments, op.args):
            info = argument.alias_info
            if info is None or not info.is_write or not isinstance(value, torch.Tensor) or value.grad_fn is not None:
                continue
            storage = storage_of(value)
            path = self._homes.get(storage._cdata) if storage is not None else None
            if path is not None:
                self._written.add(path)

    def assigned(self, line: int, name: str, value: Any) -> None:
        """Sample the tensors that a name was bound to, the first times."""
        self._times[line, name] += 1
        number = self._times[line, name]
        if number > _TIMES:
            return
        tensors = ((path, part) for path, part in _parts(name, value, 1) if isinstance(part, torch.Tensor))
        for path, part in (each for each in tensors if len(each[0]) <= _LONGEST):
            sample = _sampled(part) if len(self._values) < _VALUES else None
            if sample is not None:
                self._values.append({"line": line, "name": path, "number": number, **sample})

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Sample the gradients that the first steps of an optimizer begin with."""
        self._stepped += 1
        if self._stepped > _STEPS:
            return
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for number, parameter in enumerate(parameters[:_TENSORS]):
            sample = _sampled(parameter.grad)
            if sample is not None:
                self._steps.append({"name": f"{self._stepped}:{number}", **sample})

    def finish(self) -> None:
        """Add the samples, with those of the state that the target leaves, and of the gradients there."""
        state: list[dict[str, Any]] = []
        gradients: list[dict[str, Any]] = []
        for path, value in self._state():
            sample, before = _sampled(value), self._before.get(path)
            if sample is not None:
                held = not isinstance(value, torch.Tensor) or value.is_leaf
                changed = held and before is not None and not _alike(before, sample)
                state.append({"name": path, "changed": changed, **sample})
            gradient = _sampled(value.grad) if isinstance(value, torch.Tensor) and value.is_leaf else None
            if gradient is not None:
                gradients.append({"name": path, **gradient})
        written = sorted(self._written)
        self.run.result["comparison"] = {
            "values": self._values,
            "state": state,
            "written": written,
            "gradients": gradients,
            "steps": self._steps,
        }

    def _state(self) -> Iterator[tuple[str, Any]]:
        """Yield the tensors and numbers of the inputs and of the module, each once, by their paths."""
        seen: set[int] = set()
        count = 0
        for roots in (self._inputs, self._names):
            for name, root in list(roots.items()):
                if name.startswith("__") or isinstance(root, _OPAQUE):
                    continue
                for path, value in _parts(name, root, _DEPTH):
                    if len(path) > _LONGEST:
                        continue
                    if isinstance(value, torch.Tensor) and id(value) in seen:
                        continue
                    seen.add(id(value))
                    count += 1
                    if count > _TENSORS:
                        return
                    yield path, value


def _parts(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the tensors and numbers that a value is or holds; nothing of the user's own is called."""
    if isinstance(value, torch.Tensor) or type(value) in (bool, int, float):
        yield path, value
    elif isinstance(value, torch.nn.Module) and "_parameters" in vars(value):
        yield from ((f"{path}.{name}", part) for name, part in _of_module(value))
        for name, part in list(vars(value).items()):
            if not name.startswith("_") and depth:
                yield from _parts(f"{path}.{name}", part, depth - 1)
    elif depth and type(value) in (list, tuple):
        for number, part in enumerate(cast("list[Any]", value)[:_ITEMS]):
            yield from _parts(f"{path}[{number}]", part, depth - 1)
    elif depth and type(value) is dict:
        for key, part in list(cast("dict[Any, Any]", value).items())[:_ITEMS]:
            if type(key) in (str, int):
                yield from _parts(f"{path}[{key!r}]", part, depth - 1)
    elif depth and not isinstance(value, _OPAQUE):
        for name, part in list(getattr(value, "__dict__", {}).items()):
            if not name.startswith("_"):
                yield from _parts(f"{path}.{name}", part, depth - 1)


def _of_module(module: torch.nn.Module, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parameters and buffers of a module and its children."""
    for held in (module._parameters, module._buffers):
        yield from ((prefix + name, value) for name, value in held.items() if value is not None)
    for name, child in module._modules.items():
        if child is not None:
            yield from _of_module(child, f"{prefix}{name}.")


def _sampled(value: Any) -> Optional[Sample]:  # noqa: UP045 - evaluated in Python 3.9
    """Return the sizes of a tensor or number, and some elements; None in the place of one that is not finite."""
    if type(value) in (bool, int, float):
        return {"shape": [], "elements": [_finite(float(value))]} if abs(value) < _HUGE else None
    if not isinstance(value, torch.Tensor) or not is_readable(value) or value.is_complex() or not value.numel():
        return None
    with quietly():
        values = at_hand(value.detach())
        count = values.numel()
        places = torch.arange(min(count, _ELEMENTS)) * count // min(count, _ELEMENTS)
        taken: Any = torch.take(values, places).double()
        elements: list[float] = taken.tolist()
    return {"shape": list(value.shape), "elements": [_finite(element) for element in elements]}


def _finite(number: float) -> float | None:
    return number if abs(number) < _HUGE else None


def _alike(one: Sample, other: Sample) -> bool:
    return one["shape"] == other["shape"] and one["elements"] == other["elements"]
