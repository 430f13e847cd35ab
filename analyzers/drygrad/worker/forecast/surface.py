"""What reaches for the values of tensors beneath torch's operations: numpy, lists, copies of storages, files."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, cast

import torch

from drygrad.worker.forecast.owners import tensors_in
from drygrad.worker.forecast.unknown import Unknown
from drygrad.worker.forecast.virtual import Virtual

_ZEROS = "values read outside of torch were taken to be 0"


@contextmanager
def patched(virtual: Virtual, unknown: Unknown) -> Generator[None]:
    """Let these answer for tensors without memory, inside the block."""
    tensor: Any = torch.Tensor
    storage: Any = torch.UntypedStorage
    numpy, tolist, clone, save = tensor.numpy, tensor.tolist, storage.clone, torch.save

    def in_numpy(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _has(virtual, self):
            return numpy(self, *args, **kwargs)
        np: Any = importlib.import_module("numpy")

        unknown.assume(_ZEROS)
        small = torch.empty(0, dtype=self.dtype, device="cpu")
        return np.zeros(tuple(self.shape), numpy(small).dtype)

    def in_lists(self: Any) -> Any:
        if _has(virtual, self):
            unknown.assume(_ZEROS)
        return tolist(self)

    def cloned(self: Any) -> Any:
        if not virtual.space.low <= self.data_ptr() < virtual.space.high:
            return clone(self)
        return torch.empty(0, dtype=torch.uint8, device=self.device).set_(self).clone().untyped_storage()

    def saved(obj: Any, *args: Any, **kwargs: Any) -> None:
        if not any(_has(virtual, one) for one in tensors_in(obj)):
            save(obj, *args, **kwargs)

    with ExitStack() as left:
        for owner, name, own in (
            (tensor, "numpy", in_numpy),
            (tensor, "tolist", in_lists),
            (storage, "clone", cloned),
            (torch, "save", saved),
        ):
            left.enter_context(_replaced(owner, name, own))
        yield


@contextmanager
def _replaced(owner: Any, name: str, answer: Callable[..., Any]) -> Generator[None]:
    before = cast("dict[str, Any]", vars(owner)).get(name)
    setattr(owner, name, answer)
    try:
        yield
    finally:
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def _has(virtual: Virtual, tensor: Any) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and virtual.space.has(tensor)
