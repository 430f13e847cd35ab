"""Collectives of one rank among several, where nothing is exchanged: outputs have their shapes, and what NCCL adds.

The group is torch's own that stands for one (the ``fake`` backend). Its ranks would write what they have to memory that
is not there, so that what it does is left out as far as nothing is known of the tensors.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import importlib
from typing import Any, Callable, cast

import torch

from drygrad.worker.forecast.results import Shape
from drygrad.worker.forecast.virtual import Virtual

_C10D, _FUNCTIONAL, _FSDP = "c10d::", "_c10d_functional", "fsdp::"
_LISTS = {"c10d::allgather_": 0, "c10d::reduce_scatter_": 1}
"""NCCL exchanges one stretch of memory: what is told as lists is gathered in one, or spread from one, at this place."""
_CUDA: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
_HOST: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


class Collectives:
    """Executes what ranks do together; ``groups`` has the names of the process groups that did so on a GPU."""

    def __init__(self, virtual: Virtual) -> None:
        self.groups: set[str] = set()
        self._virtual = virtual

    def serve(self) -> None:
        """Take the operations of ``torch.distributed``."""
        self._virtual.families.update({_C10D: self._of_c10d, _FUNCTIONAL: self._functional, _FSDP: self._in_parts})

    def _of_c10d(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Leave out what a process group does; where all is known, its ranks are taken to have the same."""
        name: str = func._schema.name
        tensors = [*_tensors(args)]
        self._note(tensors, [_name_of(value) for value in args])
        if not any(map(self._virtual.is_unknown, tensors)):
            return func(*args, **kwargs)
        self._virtual.spoil(tensors)
        listed = _LISTS.get(name)
        if listed is not None and tensors[0].is_cuda:
            parts = [*_tensors(args[listed])]
            flat = (sum(part.numel() for part in parts),)
            self._virtual.made_of(Shape(flat, (1,), parts[0].dtype), parts[0].device)
        returned = [_work() if "Work" in str(result.type) else args[0] for result in func._schema.returns]
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _functional(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Let torch's functions of shapes tell what comes back."""
        importlib.import_module("torch.distributed._functional_collectives")  # registers them
        tensors = [*_tensors(args)]
        places = enumerate(func._schema.arguments)
        self._note(tensors, [args[k] for k, each in places if each.name == "group_name" and k < len(args)])
        name: str = func._schema.name.partition("::")[2]
        if name == "_wrap_tensor_autograd":
            return func(*args, **kwargs)
        return args[0] if name == "wait_tensor" else NotImplemented

    def _in_parts(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Execute what torch has written in Python for a GPU, part by part."""
        on_device = any(tensor.is_cuda for tensor in _tensors((*args, *kwargs.values())))
        with self._virtual:
            return func.redispatch(_CUDA if on_device else _HOST, *args, **kwargs)

    def _note(self, tensors: list[Any], names: list[str | None]) -> None:
        if any(tensor.is_cuda for tensor in tensors):
            self.groups.update(name for name in names if name)


def _tensors(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in cast("list[Any]", value):
            yield from _tensors(item)


def _name_of(value: Any) -> str | None:
    """Return the name of a process group that is handed on in a box; None of anything else."""
    if not isinstance(value, torch.ScriptObject):
        return None
    unbox: Callable[[Any], Any] = cast("Any", torch.distributed).ProcessGroup.unbox
    try:
        return str(unbox(value).group_name)
    except (RuntimeError, TypeError):
        return None  # it is how to reduce


def _work() -> Any:
    """Return work that is done."""
    native: Any = cast("Any", torch._C)._distributed_c10d
    future: Any = cast("Any", torch.futures).Future()
    future.set_result(None)
    return native._create_work_from_future(future).boxed()
