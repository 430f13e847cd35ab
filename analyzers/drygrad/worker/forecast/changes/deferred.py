"""Products that are not computed before it is known what becomes of them: attention, and a loss over a vocabulary.

A ``Deferred`` tensor has a shape and no values. What it is asked for that its chain does not know makes it be computed
as the program says it; only a chain that is followed to its end is computed in the other way.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import importlib
import math
from contextlib import ExitStack
from typing import Any, Callable, ClassVar, cast

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from drygrad.worker.forecast.changes.change import Call, Change

_tensor: Any = torch.Tensor
_functional: Any = functional
_torch: Any = torch
_PRODUCTS = frozenset({_torch.matmul, _tensor.matmul, _tensor.__matmul__, _torch.bmm, _tensor.bmm})
_SCALED = {
    **dict.fromkeys((_torch.mul, _tensor.mul, _tensor.__mul__, _tensor.__rmul__, _tensor.mul_, _tensor.__imul__), 1),
    **dict.fromkeys((_torch.div, _tensor.div, _tensor.__truediv__, _tensor.div_, _tensor.__itruediv__), -1),
}
_ADDED = frozenset({_torch.add, _tensor.add, _tensor.__add__, _tensor.__radd__, _tensor.add_, _tensor.__iadd__})
_FILLED = frozenset({_torch.masked_fill, _tensor.masked_fill, _tensor.masked_fill_})
_SOFTMAX = frozenset({_torch.softmax, _tensor.softmax, _functional.softmax})
_DROPOUT = frozenset({_functional.dropout, _torch.dropout})
_LINEAR = frozenset({_functional.linear})
_LAID = frozenset({_tensor.view, _tensor.reshape, _tensor.flatten, _tensor.contiguous, _torch.reshape, _torch.flatten})
_LOSS = frozenset({_functional.cross_entropy})
_CHEAP = frozenset({_tensor.size, _tensor.dim, _tensor.numel, _tensor.stride, _tensor.__len__, _tensor.ndimension})
_WIDE, _CHUNK = 8192, 1024
"""A vocabulary of that many words is worth it; so many positions are computed at a time."""


class Deferred(torch.Tensor):
    """A tensor to come: ``compute`` makes it as the program says, ``parts`` are what another way would make it of."""

    compute: Callable[[], Any]
    parts: dict[str, Any]
    place: Any

    @staticmethod
    def of(like: Any, compute: Callable[[], Any], parts: dict[str, Any], place: Any) -> Any:
        """Return one with the shape of a tensor on ``meta``."""
        made: Any = torch.Tensor._make_subclass(Deferred, like)
        made.compute, made.parts, made.place = compute, parts, place
        return made


class _Following(TorchFunctionMode):
    """Follows deferred tensors from operation to operation."""

    def __init__(self, step: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self._step = step

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Let the chain go on, or be computed where it breaks."""
        named: dict[str, Any] = kwargs or {}
        made = self._step(func, args, named)
        if made is not NotImplemented:
            return made
        return func(*[_computed(value) for value in args], **{name: _computed(v) for name, v in named.items()})


def _computed(value: Any) -> Any:
    if type(value) is Deferred:
        made = value.parts.get("made")
        if made is None:
            made = value.parts["made"] = value.compute()
        return made
    if type(value) in (list, tuple):
        return type(value)(_computed(item) for item in value)
    return value


def _about(func: Any, tensor: Any) -> Any:
    """Return what is asked about a deferred tensor that needs no values; NotImplemented of anything else."""
    name = getattr(func, "__name__", "")
    owner = getattr(func, "__self__", None)
    if name == "__get__" and owner is _tensor.device:
        return tensor.place
    known = (_tensor.shape, _tensor.dtype, _tensor.ndim, _tensor.is_cuda, _tensor.requires_grad)
    if name == "__get__" and owner is _tensor.is_cuda:
        return tensor.place.type == "cuda"
    return NotImplemented if func not in _CHEAP and not (name == "__get__" and owner in known[:3]) else ...


class _Chain(Change):
    """What both have in common: a first operation, those that follow it, and the last."""

    def enter(self, left: ExitStack) -> None:
        """Follow every operation of the program."""
        left.enter_context(_Following(self._step))

    def begins(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return a deferred tensor where a chain begins."""
        raise NotImplementedError

    def follows(self, func: Any, first: Any, args: Any, kwargs: Any) -> Any:
        """Return what a chain comes to; NotImplemented where it breaks."""
        raise NotImplementedError

    def _step(self, func: Any, args: Any, kwargs: Any) -> Any:
        first = args[0] if args else kwargs.get("input")
        if type(first) is not Deferred:
            return self.begins(func, args, kwargs)
        about = _about(func, first)
        if about is ...:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if about is not NotImplemented:
            return about
        if any(type(value) is Deferred for value in args[1:]) or "made" in first.parts:
            return NotImplemented
        return self.follows(func, first, args, kwargs)


def _then(first: Any, func: Any, args: Any, kwargs: Any, *, like: Any = None, **more: Any) -> Any:
    """Return the chain with an operation more."""
    meta = first.as_subclass(torch.Tensor) if like is None else like

    def compute() -> Any:
        return func(_computed(first), *args[1:], **kwargs)

    return Deferred.of(meta, compute, {**first.parts, **more}, first.place)


class Attention(_Chain):
    """``softmax(q @ k.T * scale + mask) @ v`` in one kernel, which keeps no weights."""

    word: ClassVar[str] = "sdpa"

    def begins(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Begin with a product of queries and keys: of as many as there are positions, in the width of a head."""
        if func not in _PRODUCTS or len(args) != 2 or kwargs:
            return NotImplemented
        query, key = args
        if not all(type(each) is torch.Tensor and each.dim() == 4 and each.is_floating_point() for each in args):
            return NotImplemented
        turned = key.stride(-1) > key.stride(-2)
        if not turned or query.shape[:2] != key.shape[:2] or query.shape[-1] > 256:
            return NotImplemented
        like = torch.empty(*query.shape[:-1], key.shape[-1], dtype=query.dtype, device="meta")
        parts = {"query": query, "key": key, "scale": 1.0, "mask": None, "weights": False, "rate": 0.0}
        return Deferred.of(like, lambda: func(query, key), parts, query.device)

    def follows(self, func: Any, first: Any, args: Any, kwargs: Any) -> Any:
        """Follow scaling, masks, softmax and dropout to the product with the values."""
        parts = first.parts
        if func in _PRODUCTS and parts["weights"] and len(args) == 2:
            self.touched += 1
            return functional.scaled_dot_product_attention(
                parts["query"],
                parts["key"].transpose(-1, -2),
                args[1],
                attn_mask=parts["mask"],
                dropout_p=parts["rate"],
                scale=parts["scale"],
            )
        if parts["weights"]:
            rate = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
            training = kwargs.get("training", args[2] if len(args) > 2 else True)
            known = func in _DROPOUT
            return _then(first, func, args, kwargs, rate=rate if training else 0.0) if known else NotImplemented
        if func in _SOFTMAX:
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            known = dim in (-1, first.parts["query"].dim() - 1) and kwargs.get("dtype") is None
            return _then(first, func, args, kwargs, weights=True) if known else NotImplemented
        return self._scored(func, first, args, kwargs)

    def _scored(self, func: Any, first: Any, args: Any, kwargs: Any) -> Any:
        parts = first.parts
        other: Any = args[1] if len(args) > 1 else None
        if func in _SCALED and type(other) in (int, float) and parts["mask"] is None and not kwargs:
            return _then(first, func, args, kwargs, scale=parts["scale"] * float(other) ** _SCALED[func])
        if func in _ADDED and type(other) is torch.Tensor and parts["mask"] is None and not kwargs:
            return _then(first, func, args, kwargs, mask=other)
        if func in _FILLED and len(args) == 3 and parts["mask"] is None and args[2] in (-math.inf, -1e9, -1e4):
            return _then(first, func, args, kwargs, mask=~other)
        return NotImplemented


class ChunkedLoss(_Chain):
    """The loss over a large vocabulary is computed for some positions at a time, and once more in backward."""

    word: ClassVar[str] = "chunked-loss"

    def begins(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Begin with a layer that gives each position a number for each word."""
        if func not in _LINEAR:
            return NotImplemented
        given: Any
        weight: Any
        given, weight, bias = (*args, *kwargs.values(), None)[:3]
        plain = type(given) is torch.Tensor and isinstance(weight, torch.Tensor)
        if not plain or weight.shape[0] < _WIDE or weight.shape[0] < 4 * weight.shape[1]:
            return NotImplemented
        like = torch.empty(*given.shape[:-1], weight.shape[0], dtype=given.dtype, device="meta")
        parts = {"given": given, "weight": weight, "bias": bias, "float": False}
        return Deferred.of(like, lambda: func(*args, **kwargs), parts, given.device)

    def follows(self, func: Any, first: Any, args: Any, kwargs: Any) -> Any:
        """Follow changes of the shape that leave the words alone, to the loss."""
        parts = first.parts
        if func in _LOSS:
            return self._loss(first, args, kwargs)
        if func in (_tensor.float,):
            like = first.as_subclass(torch.Tensor).float()
            return _then(first, func, args, kwargs, like=like, float=True)
        if func in _LAID:
            with torch._C.DisableTorchFunctionSubclass():
                like = func(first.as_subclass(torch.Tensor), *args[1:], **kwargs)
            words = parts["weight"].shape[0]
            return _then(first, func, args, kwargs, like=like) if like.shape[-1:] == (words,) else NotImplemented
        if func is _tensor.__getitem__ and _leaves_words(args[1], first.dim()):
            with torch._C.DisableTorchFunctionSubclass():
                like = first.as_subclass(torch.Tensor)[args[1]]
            return _then(first, func, args, kwargs, like=like, given=parts["given"][args[1]])
        return NotImplemented

    def _loss(self, first: Any, args: Any, kwargs: Any) -> Any:
        parts = first.parts
        target: Any = kwargs.get("target", args[1] if len(args) > 1 else None)
        options = {name: value for name, value in kwargs.items() if name not in ("input", "target", "reduction")}
        rows = parts["given"].numel() // parts["given"].shape[-1]
        plain = type(target) is torch.Tensor and target.dim() == 1 == first.dim() - 1 and target.numel() == rows
        if not plain or len(args) > 2 or kwargs.get("reduction", "mean") != "mean":
            return NotImplemented
        checkpoint: Call = importlib.import_module("torch.utils.checkpoint").checkpoint
        weight, bias = parts["weight"], parts["bias"]
        given: Any = parts["given"].reshape(rows, -1)

        def part(some: Any, wanted: Any, weight: Any, bias: Any) -> Any:
            logits = functional.linear(some, weight, bias)
            logits = logits.float() if parts["float"] else logits
            return functional.cross_entropy(logits, wanted, reduction="sum", **options)

        self.touched += 1
        rows_of: Any = torch.split
        pieces = zip(rows_of(given, _CHUNK), rows_of(target, _CHUNK))
        losses = [checkpoint(part, some, wanted, weight, bias, use_reentrant=False) for some, wanted in pieces]
        return torch.stack(losses).sum() / rows


def _leaves_words(index: Any, dims: int) -> bool:
    """Say whether an index takes positions only: ``[:, :-1]``, ``[..., :-1, :]``, ``[0]``."""
    parts = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
    plain = all(part is Ellipsis or isinstance(part, (slice, int)) for part in parts)
    return plain and (len(parts) < dims or parts[-1] == slice(None))
