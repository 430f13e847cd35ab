"""What an operation would return: computed by torch's own functions of shapes, once for each kind of arguments."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import importlib
import logging
import math
from contextlib import suppress
from typing import Any, Callable, NamedTuple, Union, cast

import torch

from drygrad.worker.devices.sim.errors import Unsupported
from drygrad.worker.devices.sim.internals import overload
from drygrad.worker.devices.sim.special import attention, recurrent
from drygrad.worker.forecast.custom import is_custom

META = torch.device("meta")
_SEQUENCES: Any = (list, tuple)
_MOST_KNOWN = 20_000
_MOST_ZEROS = 256 << 20
_HOST = torch.device("cpu")
_empty: Any = torch.empty_strided
_IN_TERMS = frozenset(
    f"aten::{name}" for name in ("mse_loss", "smooth_l1_loss", "soft_margin_loss", "binary_cross_entropy")
)
"""Losses that torch's kernels compute in their result: made as large as all terms, it keeps that memory as their mean,
which torch's functions of shapes do not tell."""


class Shape(NamedTuple):
    """A tensor that is to be made."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    room: int = 0
    """The bytes of its storage where these are more than its elements take."""

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """What it takes at least."""
        return self.elements * self.dtype.itemsize


class Known(NamedTuple):
    """What is known of a call: its results, with a ``Shape`` for each tensor, and the floating point operations."""

    result: Any
    flops: int
    elements: int
    """Of all results, as their bytes."""
    bytes: int


class Missing(Unsupported):
    """Torch cannot tell what an operation returns without computing it."""


Key = Union[tuple[object, ...], None]


class Results:
    """Tells what operations return, and remembers it."""

    def __init__(self, is_unknown: Callable[[torch.Tensor], bool]) -> None:
        self._is_unknown = is_unknown
        importlib.import_module("torch._meta_registrations")
        self._kernels = _cells()
        self._arranged = {overload(name): kernel for name, kernel in attention.KERNELS.items()}
        self._registry: Any = dict(_counter().flop_registry)
        for name in ("_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_backward"):
            # The simulated device has attention done by the host's kernel, which torch does not count.
            own = name.replace("attention", "attention_for_cpu")
            self._registry[getattr(torch.ops.aten, own)] = self._registry.get(getattr(torch.ops.aten, name))
        self._known: dict[Key, Known] = {}

    def of(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Known:
        """Return what is known of a call. Raises Missing, and what the operation itself would raise."""
        key = _key_of_call(func, args, kwargs)
        found = self._known.get(key) if key is not None else None
        if found is None:
            own = [as_meta(value) for value in args]
            named = {name: as_meta(value) for name, value in kwargs.items() if name not in ("pin_memory", "generator")}
            if any(argument.name == "device" for argument in func._schema.arguments):
                named["device"] = META
            try:
                made = _called(self._arranged.get(func, func), own, named)
            except Exception as error:  # noqa: BLE001 - torch refuses in many ways what a kernel takes
                made, key = self._of_kernel(func, args, kwargs, error), None
            result = _with_room(func, args, _shapes(made))
            shapes = list(_each(result))
            flops = self._flops(func, own, named, made)
            found = Known(result, flops, sum(s.elements for s in shapes), sum(s.bytes for s in shapes))
            if key is not None and len(self._known) < _MOST_KNOWN:
                self._known[key] = found
        return found

    def _of_kernel(self, func: Any, args: Any, kwargs: dict[str, Any], refusal: Exception) -> Any:
        """Return what the host's kernel makes of what is known, and of zeros; raises what torch has said.

        A custom operator may return as much as its values decide: it gets ones as well, and the larger result counts.
        """
        name: str = func._schema.name
        try:
            made = self._made_of(func, args, kwargs, 0)
        except Exception:  # noqa: BLE001 - a kernel may raise anything, and the first error is the one to tell
            if isinstance(refusal, NotImplementedError) or not name.startswith("aten::"):
                raise Missing(f"torch cannot tell what {name} returns without computing it") from refusal
            raise refusal from None
        if is_custom(name):
            with suppress(Exception):
                made = max(made, self._made_of(func, args, kwargs, 1), key=_bytes_of)
        return made

    def _made_of(self, func: Any, args: Any, kwargs: dict[str, Any], filling: int) -> Any:
        """Return what the host's kernel makes of tensors that are full of a number where they are not known."""
        left = [_MOST_ZEROS]

        def on_host(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                left[0] -= value.numel() * value.element_size()
                if left[0] < 0:
                    raise MemoryError
                if not self._is_unknown(value):
                    return value.cpu()
                return torch.full(value.shape, filling, dtype=value.dtype, device=_HOST)
            if isinstance(value, _SEQUENCES):
                return [on_host(item) for item in cast("list[Any]", value)]
            return _HOST if type(value) is torch.device else value

        return as_meta(func(*map(on_host, args), **{name: on_host(value) for name, value in kwargs.items()}))

    def _flops(self, func: Any, args: Any, kwargs: Any, made: Any) -> int:
        count: Callable[..., int] | None = self._registry.get(func._overloadpacket)
        if count is None:
            return 0
        try:
            return int(count(*args, **kwargs, out_val=made))
        except Exception:  # noqa: BLE001 - a count that torch cannot give is none
            return 0


def _counter() -> Any:
    """Return torch's counter of operations, which would tell a user of the Triton that it does not find."""
    name = "torch.utils.flop_counter"
    logging.getLogger(name).setLevel(logging.ERROR)
    return importlib.import_module(name)


def _cells() -> Any:
    """Tell torch what the fused cells of LSTM and GRU return, which only a GPU has."""
    library: Any = torch.library.Library("aten", "IMPL")
    for name, cell in (
        ("_thnn_fused_lstm_cell", recurrent.lstm_cell),
        ("_thnn_fused_lstm_cell_backward_impl", recurrent.lstm_cell_backward),
        ("_thnn_fused_gru_cell", recurrent.gru_cell),
        ("_thnn_fused_gru_cell_backward", recurrent.gru_cell_backward),
    ):
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            library.impl(name, cell, "Meta")
    return library


def _called(func: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        if not _is_refused_number(error, args):
            raise
        return func(*(_wrapped(value, args) for value in args), **kwargs)


def _is_refused_number(error: RuntimeError, args: list[Any]) -> bool:
    return "expected" in str(error) and "Tensor" in str(error) and any(type(a) in (int, float, bool) for a in args)


def _wrapped(value: Any, others: list[Any]) -> Any:
    if type(value) not in (int, float, bool):
        return value
    like = next((other.dtype for other in others if isinstance(other, torch.Tensor)), None)
    return torch.empty((), dtype=like, device=META)


def as_meta(value: Any) -> Any:
    """Return an argument with tensors that have no values in place of its tensors."""
    if isinstance(value, torch.Tensor):
        return (
            value
            if value.device.type == "meta"
            else _empty(value.shape, value.stride(), dtype=value.dtype, device=META)
        )
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return tuple([as_meta(item) for item in cast("tuple[Any, ...]", value)])
    if isinstance(value, list):
        return [as_meta(item) for item in cast("list[Any]", value)]
    if type(value) is torch.device:
        return META
    return value


def _shapes(made: Any) -> Any:
    if isinstance(made, torch.Tensor):
        if made.layout is not torch.strided or made.is_quantized:
            raise Missing("a forecast follows dense tensors of ordinary dtypes only")
        return Shape(tuple(made.shape), made.stride(), made.dtype)
    if isinstance(made, tuple):
        return tuple(_shapes(item) for item in cast("tuple[Any, ...]", made))
    if isinstance(made, list):
        return [_shapes(item) for item in cast("list[Any]", made)]
    return made


def _with_room(func: Any, args: Any, result: Any) -> Any:
    """Return the result of an operation with the memory that its kernels leave it in, where that has been larger."""
    if not isinstance(result, Shape) or result.shape or func._schema.name not in _IN_TERMS:
        return result
    shape: tuple[int, ...] = cast("Any", torch).broadcast_shapes(args[0].shape, args[1].shape)
    terms = math.prod(shape)
    return result._replace(room=terms * result.dtype.itemsize if terms > 1 else 0)


def _bytes_of(made: Any) -> int:
    return sum(shape.bytes for shape in _each(_shapes(made)))


def _each(result: Any) -> Any:
    if isinstance(result, Shape):
        yield result
    elif isinstance(result, _SEQUENCES):
        for item in cast("list[Any]", result):
            yield from _each(item)


def _key_of_call(func: Any, args: Any, kwargs: dict[str, Any]) -> Key:
    try:
        key = (id(func), _key(args), _key(tuple(kwargs.items())) if kwargs else None)
        hash(key)
    except TypeError:
        return None
    return key


def _key(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride(), value.dtype
    if isinstance(value, _SEQUENCES):
        return tuple([_key(item) for item in cast("list[Any]", value)])
    return type(value), value
