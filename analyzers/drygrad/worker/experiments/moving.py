"""Moves inputs to the GPU as a user would: modules by ``.to``, tensors, and what plain containers hold of them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, cast

import torch

from drygrad.worker.experiments import placed
from drygrad.worker.experiments.bench import Inputs
from drygrad.worker.experiments.relation import NotTried

_DEPTH = 6
_CLOSURE = "closure"
"""What the method ``step`` of optimizers calls the function that computes the loss and its gradients again."""


class Moving:
    """One move of everything that a user would move; what is met twice is moved once."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.modules: list[torch.nn.Module] = []
        self.count = 0
        """How many tensors and modules were moved."""
        self.told = False
        """Whether an object was told the device that had kept the CPU as its own."""
        self.left: list[Any] = []
        """The objects that are not told a device, and have none."""
        self._keeping = False
        """Whether tensors stay where they are."""
        self._ours: set[torch.Tensor] = set()
        """What moving a module has put there: other modules and objects may hold it, too."""
        self._moved: dict[int, tuple[Any, Any]] = {}

    def inputs(self, given: Inputs) -> Inputs:
        """Return the inputs with everything moved. Raises NotTried where the program places them itself."""
        owner = self.value(given.owner)
        function = given.function
        if owner is not given.owner:
            function = getattr(owner, getattr(function, "__name__", ""), owner)
        given = _without_closure(given) if isinstance(owner, torch.optim.Optimizer) else given
        positional = [self.value(value) for value in given.positional]
        named = {name: self.value(value) for name, value in given.named.items()}
        return dataclasses.replace(
            given, function=self.value(function), owner=owner, positional=positional, named=named
        )

    def value(self, value: Any, depth: int = _DEPTH) -> Any:
        """Return a value, on the device; one that holds nothing to move is the same object."""
        if depth == 0 or value is None or isinstance(value, (str, bytes, int, float)):
            return self.device.type if value == "cpu" else value
        known = self._moved.get(id(value))
        if known is None:
            known = self._moved[id(value)] = (value, self._other(value, depth))
        return known[1]

    def _other(self, value: Any, depth: int) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.nn.Module):
            return self._module(value)
        if isinstance(value, torch.device):
            return self.device if value.type == "cpu" else value
        if isinstance(value, torch.autograd.function.FunctionCtx):
            raise NotTried("it gets the ctx of a forward, whose tensors were saved on their own device")
        if _yields(value):
            if self.told:
                return value
            raise NotTried("it gets a batch iterator, which decides on its own device")
        if isinstance(value, (list, tuple, dict, set)) or dataclasses.is_dataclass(value):
            return self._container(value, depth)
        if _moves_itself(value):
            self.count += 1
            return value.to(self.device)
        return self._object(value, depth)

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor in self._ours or self._keeping:
            return tensor
        self._require_host(tensor)
        self.count += 1
        moved = tensor.detach().to(self.device) if tensor.is_leaf else tensor.to(self.device)
        if not tensor.is_leaf:
            return moved
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(moved, tensor.requires_grad)
        return moved.requires_grad_(tensor.requires_grad)

    def _module(self, module: torch.nn.Module) -> torch.nn.Module:
        held = [*torch.nn.Module.parameters(module), *module.buffers()]
        self._require_host(*held)
        self.count += bool(held)
        self.modules.append(module)
        for part in module.modules():
            vars(part).update({name: self.value(vars(part)[name]) for name in placed.devices(part)})
        module.to(self.device)
        self._ours.update([*torch.nn.Module.parameters(module), *module.buffers()])
        return module

    def _moved_there(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of an optimizer's own on the device: one that is there came with its module."""
        if tensor in self._ours:
            return tensor
        self._require_host(tensor)
        self.count += 1
        return tensor.detach().to(self.device)

    def _require_host(self, *tensors: torch.Tensor) -> None:
        if any(tensor.device.type != "cpu" and tensor not in self._ours for tensor in tensors):
            raise NotTried("its inputs were already on the GPU")

    def _object(self, value: Any, depth: int) -> Any:
        """Move what an object holds that keeps its device itself, in place, as if it had been told this one."""
        if isinstance(value, torch.optim.Optimizer):
            before, self._keeping = self._keeping, False
            self._ours.update(placed.place_parameters(value, self._moved_there))
            placed.place_state(value, self.value)
            self._keeping = before
        elif placed.is_object(value) and (self.told or placed.keeps_device(value)):
            self.told = True
            self.count += 1
            self._moved[id(value)] = value, value
            own = bool(placed.devices(value))
            placed.place(value, lambda held: self._attribute(held, depth - 1, own=own))
        elif placed.is_object(value):
            self.left.append(value)
        return value

    def _attribute(self, held: Any, depth: int, *, own: bool) -> Any:
        """Move what an object keeps that has a device of its ``own``, or not; tensors are data where it has none.

        So are those in a list, whoever keeps it: what was given has to be moved by who works on it.
        """
        before, self._keeping = self._keeping, not own or isinstance(held, (list, tuple, dict))
        try:
            return self.value(held, depth)
        finally:
            self._keeping = before

    def _container(self, value: Any, depth: int) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
            changed = {name: self.value(held, depth - 1) for name, held in fields.items()}
            if all(changed[name] is held for name, held in fields.items()):
                return value
            return dataclasses.replace(value, **changed)
        if isinstance(value, Mapping):
            held = cast("Mapping[Any, Any]", value)
            entries = {name: self.value(item, depth - 1) for name, item in held.items()}
            same = all(entries[name] is item for name, item in held.items())
            return held if same or type(held) is not dict else entries
        items = [self.value(item, depth - 1) for item in cast("list[Any]", value)]
        if all(new is old for new, old in zip(items, cast("list[Any]", value))):
            return value
        make = cast("Any", type(value))
        return make(*items) if hasattr(make, "_fields") else make(items)


def _without_closure(given: Inputs) -> Inputs:
    """Leave out what computes the gradients again, of a batch that only its own code can move, where there are some."""
    groups = given.owner.param_groups
    names = given.names[1 : 1 + len(given.positional)]
    if _CLOSURE not in given.names or all(one.grad is None for group in groups for one in group["params"]):
        return given
    positional = [None if name == _CLOSURE else value for name, value in zip(names, given.positional)]
    named = {name: None if name == _CLOSURE else value for name, value in given.named.items()}
    return dataclasses.replace(given, positional=positional, named=named)


def _yields(value: Any) -> bool:
    """Say whether a value is one that batches come from: they are made while the target runs."""
    data = torch.utils.data
    return isinstance(value, (data.DataLoader, data.Dataset)) or inspect.isgenerator(value)


def _moves_itself(value: Any) -> bool:
    """Say whether an object is moved by a method ``to`` of its own, as modules and batches of graphs are."""
    kind = cast("Any", type(value))
    to = getattr(kind, "to", None)
    if not callable(to) or isinstance(value, (torch.optim.Optimizer, torch.dtype)):
        return False
    try:
        parameters = [*inspect.signature(to).parameters]
    except (TypeError, ValueError):
        return False
    return len(parameters) >= 2
