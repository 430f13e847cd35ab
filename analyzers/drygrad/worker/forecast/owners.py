"""What memory is for: parameters, buffers, gradients, states by their names; what backward keeps, by its lines."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from drygrad.worker import graphs
from drygrad.worker.forecast.events import BUFFERS, GRADIENTS, PARAMETERS, STATES
from drygrad.worker.lines import Instruction, Lines

Owned = tuple[str, Any, str]
"""A kind, a tensor of that kind, and its name."""
NumberOf = Callable[[Any], "int | None"]
"""Returns the allocation that a tensor lies in."""
_LEAF = (1 << 64) - 1
"""The sequence number of all nodes that add to the gradient of a leaf."""


class Keeper(NamedTuple):
    """An operation that keeps memory for its backward."""

    order: int
    instruction: Instruction | None
    operation: str


class Owners:
    """The modules and optimizers of a program."""

    def __init__(self, lines: Lines) -> None:
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.names: dict[int, str] = {}
        """What allocations are called."""
        self.keepers: dict[int, Keeper] = {}
        """The first operation that keeps an allocation for backward, which is the last to let go of it."""
        self.kept: set[int] = set()
        """What was there when a backward pass began: a checkpoint, or a variable, may keep it where no node does."""
        self._changed: weakref.WeakSet[Any] = weakref.WeakSet()
        """The modules that were made or moved since they were last asked what is theirs."""
        self._named: dict[int, str] = {}
        """The names of parameters, by their identities."""
        self._modules: weakref.WeakSet[Any] = weakref.WeakSet()
        self._parents: weakref.WeakKeyDictionary[Any, tuple[Any, str]] = weakref.WeakKeyDictionary()
        self._lines = lines
        self._ordered: set[int] = set()
        """The sequence numbers of the nodes that modules have returned so far."""
        self._roles: dict[str, list[str]] = {}

    @contextmanager
    def watching(
        self, settle: Callable[[Iterable[Owned]], None], number_of: NumberOf, always: Callable[[], bool]
    ) -> Generator[None]:
        """Hear of modules that are made or called inside the block; ``settle`` is told what has changed before a call.

        While ``always()`` it is told after each call: where parameters are in shards, others stand for them meanwhile.
        What a call keeps for backward is learned at its end, since no backward may ever follow.
        """
        kind: Any = torch.nn.Module
        apply = kind._apply

        def has(module: Any, name: str, value: Any) -> None:
            self._modules.add(module)
            self._changed.add(module)

        def applied(module: Any, *args: Any, **kwargs: Any) -> Any:
            self._changed.add(module)
            return apply(module, *args, **kwargs)

        def begins(module: Any, args: Any) -> None:
            if self._changed:
                changed = list(self._changed)
                self._changed.clear()
                settle(self._of_modules(changed))

        def ends(module: Any, args: Any, output: Any) -> None:
            if always():
                settle(self._of_modules([module]))
            self._keep_new(tensors_in(output), number_of)

        def contains(module: Any, name: str, child: Any) -> None:
            # A slice of a list, and what wraps a module to shard it, hold what already has its place in the model.
            if child is not None and (child not in self._parents or self._parents[child][0]() is None):
                self._parents[child] = weakref.ref(module), name

        with ExitStack() as left:
            for register in (register_module_parameter_registration_hook, register_module_buffer_registration_hook):
                left.callback(register(has).remove)
            left.callback(register_module_module_registration_hook(contains).remove)
            left.callback(register_module_forward_pre_hook(begins).remove)
            left.callback(register_module_forward_hook(ends).remove)
            left.callback(setattr, kind, "_apply", apply)
            kind._apply = applied
            yield

    def all(self) -> Iterator[Owned]:
        """Yield what is owned by now."""
        self._named.clear()
        yield from self._of_modules(list(self._modules))
        for optimizer in list(self.optimizers):
            yield from self.of_optimizer(optimizer)

    def _of_modules(self, modules: list[Any]) -> Iterator[Owned]:
        for module in modules:
            path = self._path(module)
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    yield BUFFERS, buffer, path + name
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    self._named[id(parameter)] = path + name
                    yield from _of_parameter(parameter, path + name)

    def of_optimizer(self, optimizer: Any) -> Iterator[Owned]:
        """Yield what an optimizer is in charge of: parameters with their gradients, and its states."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                yield from _of_parameter(parameter, self._named.get(id(parameter), ""))
        for parameter, state in list(optimizer.state.items()):
            for key, tensor in named_tensors(state, "state"):
                yield STATES, tensor, f"{key} of {self._named.get(id(parameter)) or type(optimizer).__name__}"

    def _path(self, module: Any) -> str:
        names: list[str] = []
        while module in self._parents and len(names) < 64:
            parent, name = self._parents[module]
            module = parent()
            names.append(name)
        return "".join(f"{name}." for name in reversed(names))

    def keep(self, roots: Iterable[Any], number_of: NumberOf) -> None:
        """Learn which allocations are kept for a backward pass from the tensors ``roots``."""
        for node in graphs.nodes(roots):
            self._keep_of(node, number_of)

    def _keep_new(self, roots: Iterable[Any], number_of: NumberOf) -> None:
        """Learn that of the nodes that are new."""
        plain = (root for root in roots if type(root) is torch.Tensor)  # others may compute themselves when asked
        waiting = [root.grad_fn for root in plain if root.grad_fn is not None]
        while waiting:
            node = waiting.pop()
            order = node._sequence_nr()
            if order in self._ordered or order == _LEAF:
                continue
            self._ordered.add(order)
            self._keep_of(node, number_of)
            waiting += [following for following, _ in node.next_functions if following is not None]

    def _keep_of(self, node: Any, number_of: NumberOf) -> None:
        for tensor in (part for saved in self._saved(node) for part in parts_of(saved)):
            number = number_of(tensor)
            if number is not None:
                self._kept(number, node)

    def _kept(self, number: int, node: Any) -> None:
        order, known = node._sequence_nr(), self.keepers.get(number)
        if known is None or order < known.order:
            self.keepers[number] = Keeper(order, self._lines.of_node(node), graphs.operation(node))

    def _saved(self, node: Any) -> Iterator[Any]:
        """Yield what a node keeps; not what a hook of the user's keeps in its place, which only it can unpack."""
        kind: str = node.name()
        roles = self._roles.get(kind)
        if roles is None:
            roles = self._roles[kind] = [name for name in dir(node) if name.startswith("_raw_saved_")]
        for role in roles:
            try:
                raw: Any = getattr(node, role)
                yield from (one.data for one in cast("tuple[Any, ...]", raw if isinstance(raw, tuple) else (raw,)))
            except (RuntimeError, AttributeError):
                continue  # freed, or kept in another way


def _of_parameter(parameter: Any, name: str) -> Iterator[Owned]:
    yield PARAMETERS, parameter, name
    if parameter.grad is not None:
        yield GRADIENTS, parameter.grad, name


def parts_of(tensor: Any) -> Iterator[Any]:
    """Yield the tensors with memory of their own that a tensor consists of: a rank's part of a ``DTensor``."""
    if isinstance(tensor, torch.Tensor) and is_traceable_wrapper_subclass(tensor):
        names: list[str] = cast("Any", tensor).__tensor_flatten__()[0]
        for name in names:
            yield from parts_of(getattr(tensor, name))
    else:
        yield tensor


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that a value is, or holds in containers of plain kinds."""
    return (tensor for _, tensor in named_tensors(value, ""))


def named_tensors(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that a value holds, with the keys that they stand under."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[Any, Any]", value).items():
            yield from named_tensors(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in cast("list[Any]", value):
            yield from named_tensors(item, name)
