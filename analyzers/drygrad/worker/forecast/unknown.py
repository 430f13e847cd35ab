"""Where a program asks for values that are not known: what is assumed of them, and the line that depends on it."""

from __future__ import annotations

import re
from typing import Any, Callable

import torch

from drygrad.worker.forecast.events import Site
from drygrad.worker.forecast.results import META, Missing, Shape
from drygrad.worker.forecast.virtual import Virtual

_MOST = 50
_COMPARISONS = frozenset(f"aten::{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "isfinite"))
_MASKS = (torch.bool, torch.uint8)
_WHOLE = re.compile(r"\b(?:int|round|ceil|floor)\(")
"""What makes a size of a number with a fraction."""


class Unknown:
    """Answers in the place of values."""

    def __init__(self, site: Callable[[], Site | None], text: Callable[[Site], str] = lambda site: "") -> None:
        self._site, self._text = site, text
        self._virtual: Virtual | None = None
        self.assumptions: dict[tuple[Site | None, str], int] = {}
        """What was assumed, and where, with how often."""
        self.at_least = False
        """Whether something is left out that may take memory."""
        self._counted = False

    def serve(self, virtual: Virtual) -> None:
        """Take the operations that depend on values."""
        self._virtual = virtual
        virtual.unfollowed, virtual.emptied = self._unfollowed, self._emptied
        virtual.special.update(
            {
                "aten::_local_scalar_dense": self._number,
                "aten::equal": self._equal,
                "aten::nonzero": self._nonzero,
                "aten::masked_select": self._selected,
                "aten::index": self._indexed,
                "aten::_unique2": self._unique,
                "aten::_unique": self._unique,
                "aten::unique_consecutive": self._unique,
                "aten::unique_dim": self._unique_rows,
                "aten::unique_dim_consecutive": self._unique_rows,
                "aten::bincount": self._counts,
                "aten::repeat_interleave": self._repeated,
                "aten::_pack_padded_sequence": self._packed,
                "aten::_to_sparse": self._sparse,
                "aten::_use_cudnn_ctc_loss": self._never,
                "aten::_use_miopen_ctc_loss": self._never,
                "aten::quantize_per_tensor": self._quantized,
                "aten::quantize_per_tensor_dynamic": self._quantized,
                "aten::quantize_per_channel": self._quantized,
                "aten::dequantize": self._dequantized,
                "aten::_assert_async": self._nothing,
                "aten::_assert_scalar": self._nothing,
            }
        )

    def _unfollowed(self, name: str) -> None:
        self.assume(f"only the results of `{name}` were counted; it may need more memory while it runs")
        self.at_least = True

    def _emptied(self) -> None:
        """Hear of a tensor that has no elements: its size may be a number that was taken to be 0."""
        if self._counted:
            self.assume("a tensor has no elements; its size may be a number that was taken to be 0")
            self.at_least = True

    def _quantized(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Take a quantized tensor for a plain one of as many bytes: torch has none without values."""
        dtype = kwargs.get("dtype", args[-1])
        widths = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}
        own = args[0]
        if not isinstance(own, torch.Tensor) or dtype not in widths:
            return NotImplemented
        self.assume("a quantized tensor was treated as a plain one of the same size")
        return self._made(tuple(own.shape), widths[dtype], own.device)

    def _dequantized(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        own = args[0]
        return (
            self._made(tuple(own.shape), torch.float32, own.device) if isinstance(own, torch.Tensor) else NotImplemented
        )

    def _is_asserted(self) -> bool:
        return self._line().lstrip().startswith("assert ")

    def _is_made_whole(self) -> bool:
        return _WHOLE.search(self._line()) is not None

    def _line(self) -> str:
        site = self._site()
        return self._text(site) if site is not None else ""

    def assume(self, what: str) -> None:
        """Take note of an assumption at the present line."""
        key = (self._site(), what)
        if key in self.assumptions or len(self.assumptions) < _MOST:
            self.assumptions[key] = self.assumptions.get(key, 0) + 1

    def _made(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        assert self._virtual is not None
        return self._virtual.made_of(Shape(shape, _strides(shape), dtype), device)

    def _number(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        dtype = args[0].dtype
        if dtype is torch.bool:
            answer = self._holds(args[0])
            self.assume(f"a condition on values was taken to be {'true' if answer else 'false'}")
            return answer
        if dtype.is_complex:
            self.assume("a number was taken to be 0")
            return 0j
        self.assume("a number was taken to be 0")
        self._counted = self._counted or not dtype.is_floating_point or self._is_made_whole()
        return 0.0 if dtype.is_floating_point else 0

    def _holds(self, truth: torch.Tensor) -> bool:
        """Say what a condition is taken to be: a program's checks hold, all is as it should be and nothing else is."""
        made_by = self._virtual.truths.get(truth.data_ptr()) if self._virtual is not None else None
        return made_by == "aten::all" or (made_by in _COMPARISONS and self._is_asserted())

    def _equal(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self.assume("two tensors were taken to be equal")
        return True

    def _nothing(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return None

    def _packed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Keep the sizes of the batches, which depend on nothing but the lengths."""
        own, lengths, *rest = args
        if not self._is_known(lengths):
            return NotImplemented
        data, sizes = func(torch.zeros(*own.shape[:2], 1, device="cpu"), lengths, *rest)
        return self._made((data.shape[0], *own.shape[2:]), own.dtype, own.device), sizes

    def _sparse(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """End where a sparse tensor is made of unknown values: torch's function of shapes tells of a dense one."""
        raise Missing("a forecast cannot tell how many values a sparse tensor stores")

    def _never(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return False

    def _nonzero(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self._all_of_a_mask()
        own = args[0]
        return self._made((own.numel(), own.dim()), torch.int64, own.device)

    def _selected(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if kwargs.get("out") is not None:
            return NotImplemented
        if self._is_known(args[1]):
            return self._made((self._count(args[1].expand(args[0].shape)),), args[0].dtype, args[0].device)
        self._all_of_a_mask()
        count = (torch.empty(args[0].shape, device=META) + torch.empty(args[1].shape, device=META)).numel()
        return self._made((count,), args[0].dtype, args[0].device)

    def _all_of_a_mask(self) -> None:
        self.assume("a mask of unknown values was taken to select everything")

    def _indexed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Let a mask select everything: each of its dimensions is indexed by as many numbers as it has elements."""
        if len(args) != 2 or kwargs or not any(_is_mask(index) for index in args[1]):
            return NotImplemented
        indices: list[Any] = []
        for index in args[1]:
            if _is_mask(index):
                indices += [torch.empty(self._selected_by(index), dtype=torch.int64, device=META)] * index.dim()
            else:
                indices.append(index)
        own = torch.empty_strided(args[0].shape, args[0].stride(), dtype=args[0].dtype, device=META)
        metas = [i if i is None else torch.empty(i.shape, dtype=i.dtype, device=META) for i in indices]
        result = torch.ops.aten.index.Tensor(own, metas)
        return self._made(tuple(result.shape), result.dtype, args[0].device)

    def _selected_by(self, mask: torch.Tensor) -> int:
        if self._is_known(mask):
            return self._count(mask)
        self._all_of_a_mask()
        return mask.numel()

    def _is_known(self, tensor: torch.Tensor) -> bool:
        return self._virtual is not None and not self._virtual.is_unknown(tensor)

    def _count(self, mask: torch.Tensor) -> int:
        return int(mask.count_nonzero().item())

    def _unique(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self.assume("all values were taken to be different")
        own = args[0]
        whole = (own.numel(),)
        values = self._made(whole, own.dtype, own.device)
        others = [self._made(s, torch.int64, own.device) for s in (tuple(own.shape), whole)]
        return (values, *others)[: len(func._schema.returns)]  # pyright: ignore

    def _unique_rows(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self.assume("all values were taken to be different")
        own, dim = args[0], args[1]
        count = (own.shape[dim],)
        values = self._made(tuple(own.shape), own.dtype, own.device)
        return values, self._made(count, torch.int64, own.device), self._made(count, torch.int64, own.device)

    def _counts(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        weights = args[1] if len(args) > 1 else kwargs.get("weights")
        least = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
        self.assume(f"the largest value was taken to be {max(int(least) - 1, 0)}")
        dtype = torch.int64 if weights is None else torch.float64
        return self._made((max(int(least), 1),), dtype, args[0].device)

    def _repeated(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if len(args) != 1:
            return NotImplemented
        total = kwargs.get("output_size")
        if total is None:
            self.assume("everything was taken to be repeated once")
            total = args[0].numel()
        return self._made((total,), args[0].dtype, args[0].device)


def _is_mask(index: object) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in _MASKS


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
