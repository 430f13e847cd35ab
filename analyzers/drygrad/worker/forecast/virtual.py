"""Executes operations without memory and arithmetic: what is small and known is computed, all else has only a shape."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import importlib
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Callable, NamedTuple, cast

import torch
from torch._ops import HigherOrderOperator as _HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from drygrad.worker.forecast.custom import is_custom, is_described, python_of
from drygrad.worker.forecast.fused import results_of
from drygrad.worker.forecast.results import Known, Missing, Results, Shape
from drygrad.worker.forecast.space import the_space
from drygrad.worker.forecast.sums import Sums
from drygrad.worker.reading import dispatch_themselves

_HOST = torch.device("cpu")
_MOST_NUMBERS = 1 << 16
_MOST_INTEGERS = 1 << 22
"""How many elements are computed with: whole numbers and truth values decide where a program goes."""
_SEQUENCES: Any = (list, tuple)
_VIEWS = frozenset({"aten::_unsafe_view", "aten::lift_fresh", "aten::lift", "aten::set_"})
"""What touches no values, though its schema does not say so."""
_WAITED_FOR = frozenset(
    f"aten::{name}"
    for name in "_local_scalar_dense equal nonzero masked_select _unique2 _unique unique_dim unique_consecutive".split()
)
"""What the host cannot go on without: numbers, and how many elements there are."""
_HIGHER: Any = _HigherOrderOperator
_CURRENT_MODE = "_get_current_dispatch_mode"
_key: Any = torch._C.DispatchKey
_ON_DEVICE = (_key.CUDA, _key.CompositeExplicitAutograd)
_ON_HOST = (_key.CPU, _key.CompositeExplicitAutograd)


class _Form(NamedTuple):
    """What the schema of an operation says."""

    func: Any
    """Kept, so that its identity stays its own."""
    name: str
    is_view: bool
    is_composite: bool
    """Whether it consists of others, which is how it is executed where autograd has not done so: in inference."""
    family: Callable[[Any, Any, dict[str, Any]], Any] | None
    """What executes all operations of its namespace, but for those that it hands back."""
    written: tuple[tuple[int, str], ...]
    """The position and the name of arguments that it writes to."""
    outputs: tuple[tuple[int, str], ...]
    """Those of them that it may give another shape: ``out=``."""
    returns: tuple[int | None, ...]
    """For each result, which of the written arguments it is; None: something fresh."""
    is_custom: bool
    """Whether it is none of torch's: nobody knows what it takes beside its results."""
    tells: bool
    """Whether none of its results is a tensor: numbers of what is known are simply asked for."""


class Virtual(TorchDispatchMode):
    """The dispatch mode beneath that of the instruments, which executes in place of torch's kernels.

    ``made`` hears of each tensor without memory, ``computed`` of each call with what is known of it, before its
    results are made; ``special`` has operations that need to be done in another way.
    """

    supports_higher_order_operators = True

    def __init__(
        self, made: Callable[[torch.Tensor], None], computed: Callable[[str, Known, Any, torch.device], None]
    ) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.space = the_space()
        self.results = Results(self.is_unknown)
        self.name: str | None = None
        """The operation in flight."""
        self.special: dict[str, Callable[[Any, Any, dict[str, Any]], Any]] = {
            "aten::resize_": self._resize,
            "aten::add": Sums(self._summed),
        }
        self.families: dict[str, Callable[[Any, Any, dict[str, Any]], Any]] = {}
        """As ``special``, for all operations whose names begin so."""
        self._made, self._computed = made, computed
        self._forms: dict[int, _Form] = {}
        self.unfollowed: Callable[[str], None] = lambda _: None
        """Hears of custom operators of which only the results are known."""
        self.compiled: Callable[[str], bool] = lambda _: False
        """Says of an operator that takes functions whether the program has compiled it."""
        self.emptied: Callable[[], None] = lambda: None
        """Hears of tensors without elements that are made by nothing but numbers."""
        self.waited: Callable[[], None] = lambda: None
        """Hears of operations on a GPU whose results the host must wait for."""
        self.truths: dict[int, str] = {}
        """What has made the last truth values that are not known, by their addresses."""
        self._unknown: dict[int, weakref.ref[Any]] = {}
        """Storages of tensors with memory into which something unknown was written, as long as they live."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Execute one operation."""
        named: dict[str, Any] = kwargs or {}
        if _fakes():
            return func(*args, **named)
        if types and dispatch_themselves(types):
            return NotImplemented
        if isinstance(func, _HIGHER):
            return self._higher(func, args, named)
        form = self._forms.get(id(func)) or self._form(func)
        if form.is_composite:
            with self:
                return func.decompose(*args, **named)
        if form.is_view:
            return func(*args, **named)
        around, self.name = self.name, form.name
        try:
            return self._done(form, args, named)
        finally:
            self.name = around

    def _done(self, form: _Form, args: Any, kwargs: dict[str, Any]) -> Any:
        if form.family is not None:
            result = form.family(form.func, args, kwargs)
            if result is not NotImplemented:
                return result
        tensors = [*_tensors(args), *_tensors(kwargs.values())]
        if self._is_known(form, tensors, form.func, args, kwargs):
            result = form.func(*args, **kwargs)
            if not tensors and any(map(_is_emptied, _tensors((result,)))):
                self.emptied()
            for tensor in _tensors((result,)) if None in form.returns else ():
                if tensor.device.type == "cpu":
                    self._made(tensor)
            return result
        if form.name in _WAITED_FOR and any(tensor.is_cuda for tensor in tensors):
            self.waited()
        special = self.special.get(form.name)
        if special is not None:
            result = special(form.func, args, kwargs)
            if result is not NotImplemented:
                return result
        return self._executed(form, args, kwargs, tensors)

    def _higher(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Execute an operation that takes functions: as torch has written it in Python, or beneath this mode."""
        tensors = [*_tensors(args), *_tensors(kwargs.values())]
        if not any(map(self.is_unknown, tensors)):
            return func(*args, **kwargs)
        keys = _ON_DEVICE if any(tensor.is_cuda for tensor in tensors) else _ON_HOST
        kernel = results_of(func) if self.compiled(func.name()) else None
        kernel = kernel or next((func.py_kernels[key] for key in keys if key in func.py_kernels), None)
        if kernel is None:
            raise Missing(f"a forecast does not follow {func.name()}")
        with self, _unaware_of_modes(kernel):
            return kernel(*args, **kwargs)

    def is_unknown(self, tensor: torch.Tensor) -> bool:
        """Say whether nothing is known of the values of a tensor; sparse ones are made of known values only."""
        if tensor.layout is not torch.strided:
            return False
        if self.space.has(tensor):
            return True
        return bool(self._unknown) and tensor.untyped_storage()._cdata in self._unknown

    def _is_known(self, form: _Form, tensors: list[Any], func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        """Say whether an operation is to be computed: of known values, and few enough."""
        if _is_of_meta(tensors, kwargs):
            return True
        if any(map(self.is_unknown, tensors)):
            return False
        if None not in form.returns or form.tells:
            return True
        try:
            known = self.results.of(func, args, kwargs)
        except (Missing, RuntimeError, TypeError, ValueError):
            return True
        few = _MOST_NUMBERS if any(shape.dtype.is_floating_point for shape in _shapes(known.result)) else _MOST_INTEGERS
        return known.elements <= few

    def _executed(self, form: _Form, args: Any, kwargs: dict[str, Any], tensors: list[Any]) -> Any:
        for where in form.written:
            self.spoil(_tensors((argument(where, args, kwargs),)))
        if form.is_custom:
            followed = self._followed(form, args, kwargs)
            if followed is not NotImplemented:
                return followed
            self.unfollowed(form.name)
        if None not in form.returns and not form.outputs:
            self._computed(form.name, NOTHING, tensors, _device_of(form, args, kwargs, tensors))
            return self._returned(form, [], args, kwargs, _HOST)
        try:
            known = self.results.of(form.func, args, kwargs)
        except Missing as missing:
            return self._otherwise(form, args, kwargs, missing)
        device = _device_of(form, args, kwargs, tensors)
        self._computed(form.name, known, tensors, device)
        if form.outputs:
            self._reshape(form, known.result, args, kwargs)
            return self._returned(form, [], args, kwargs, device)
        results = list(known.result) if len(form.returns) > 1 else [known.result]
        return self._returned(form, results, args, kwargs, device)

    def _followed(self, form: _Form, args: Any, kwargs: dict[str, Any]) -> Any:
        """Execute what a custom operator without a function of shapes is made of, where that is Python."""
        made_of = None if is_described(form.name) else python_of(form.name)
        if made_of is None:
            return NotImplemented
        try:
            with self:
                return made_of(*args, **kwargs)
        except Exception:  # noqa: BLE001 - it may do what only a real tensor allows; its results may be known yet
            return NotImplemented

    def spoil(self, tensors: list[Any]) -> None:
        """Know nothing any more of the values of tensors."""
        for tensor in tensors:
            if not self.space.has(tensor) and tensor.numel():
                storage = tensor.untyped_storage()
                number = storage._cdata
                self._unknown[number] = weakref.ref(storage, lambda _, number=number: self._unknown.pop(number, None))

    def _returned(self, form: _Form, results: list[Any], args: Any, kwargs: dict[str, Any], device: Any) -> Any:
        made: list[Any] = []
        for place, written in enumerate(form.returns):
            if written is not None:
                made.append(argument(form.written[written], args, kwargs))
            else:
                made.append(self.made_of(results[place], device))
        if not form.returns:
            return None
        return made[0] if len(made) == 1 else tuple(made)

    def made_of(self, result: Any, device: torch.device) -> Any:
        """Return the tensors that are to be made."""
        if isinstance(result, Shape):
            tensor = self._tensor(result, device)
            if result.dtype is torch.bool and self.name is not None and not result.shape:
                self.truths[tensor.data_ptr()] = self.name
            self._made(tensor)
            return tensor
        if isinstance(result, _SEQUENCES):
            return [self.made_of(item, device) for item in cast("list[Any]", result)]
        return result

    def _tensor(self, result: Shape, device: torch.device) -> torch.Tensor:
        if not result.room:
            return self.space.tensor(result.shape, result.strides, result.dtype, device)
        wide = self.space.tensor((result.room // result.dtype.itemsize,), (1,), result.dtype, device)
        return wide.as_strided_(result.shape, result.strides)

    def _reshape(self, form: _Form, result: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Give outputs the shapes of what is written to them."""
        shapes = list(_shapes(result))
        outputs = [tensor for where in form.outputs for tensor in _tensors((argument(where, args, kwargs),))]
        for output, shape in zip(outputs, shapes):
            if tuple(output.shape) != shape.shape:
                self.grow(output, shape)

    def grow(self, tensor: torch.Tensor, shape: Shape) -> None:
        """Give a tensor another shape, and memory of its own for that."""
        fresh = self.made_of(shape._replace(dtype=tensor.dtype), tensor.device)
        torch.ops.aten.set_.source_Tensor(tensor, fresh)

    def _resize(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Give a tensor another size: within its memory, or in memory of its own."""
        tensor, size = args[0], tuple(args[1])
        shape = self.results.of(torch.ops.aten.empty.memory_format, (size,), {"dtype": tensor.dtype}).result
        if shape.bytes > tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.element_size():
            self.grow(tensor, shape)
            return tensor
        return torch.ops.aten.set_.source_Storage_storage_offset(
            tensor, tensor.untyped_storage(), tensor.storage_offset(), size, shape.strides
        )

    def _summed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self._computed("aten::add", self.results.of(func, args, kwargs), [*args], args[0].device)

    def _otherwise(self, form: _Form, args: Any, kwargs: dict[str, Any], missing: Missing) -> Any:
        """Execute an operation of which torch knows no function of shapes: by what it is made of."""
        table: Any = importlib.import_module("torch._decomp").decomposition_table
        made_of = table.get(form.func) or python_of(form.name)
        with self:
            if made_of is not None:
                return made_of(*args, **kwargs)
            result = form.func.decompose(*args, **kwargs)
        if result is NotImplemented:
            raise missing
        return result

    def _form(self, func: Any) -> _Form:
        schema = func._schema
        name: str = schema.name
        written = [(k, a) for k, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
        returns: list[int | None] = []
        for result in schema.returns:
            alias = result.alias_info
            same = (i for i, (_, a) in enumerate(written) if alias and a.alias_info.before_set & alias.before_set)
            returns.append(next(same, None))
        aliases = [r.alias_info is not None and not r.alias_info.is_write for r in schema.returns]
        touches = bool(written) or (not all(aliases) if aliases else name.startswith("aten::"))
        is_view = name in _VIEWS or not touches or (torch.Tag.inplace_view in func.tags and name != "aten::resize_")
        where = tuple((k, a.name) for k, a in written)
        outputs = tuple((k, a.name) for k, a in written if a.is_out)
        tells = bool(schema.returns) and not any("Tensor" in str(result.type) for result in schema.returns)
        family = self._family(name)
        is_composite = _is_composite(func) and family is None and name not in self.special
        what = (func, name, is_view, is_composite, family, where, outputs, tuple(returns), is_custom(name), tells)
        made = self._forms[id(func)] = _Form(*what)
        return made

    def _family(self, name: str) -> Callable[[Any, Any, dict[str, Any]], Any] | None:
        return next((answer for start, answer in self.families.items() if name.startswith(start)), None)


@contextmanager
def _unaware_of_modes(kernel: Any) -> Generator[None]:
    """Let a kernel in Python find no mode above itself: some make sure that they are executed on a GPU."""
    names: dict[str, Any] = getattr(kernel, "__globals__", {})
    own = names.get(_CURRENT_MODE)
    if own is None:
        yield
        return
    names[_CURRENT_MODE] = lambda: None
    try:
        yield
    finally:
        names[_CURRENT_MODE] = own


def _fakes() -> bool:
    """Say whether torch itself is at work on tensors of its own that have no values."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


NOTHING = Known(None, 0, 0, 0)


def argument(where: tuple[int, str], args: Any, kwargs: dict[str, Any]) -> Any:
    """Return an argument by its position or its name; None where it was left out."""
    place, name = where
    return args[place] if place < len(args) and name not in kwargs else kwargs.get(name)


def _tensors(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, _SEQUENCES):
            found += [item for item in cast("list[Any]", value) if isinstance(item, torch.Tensor)]
    return found


def _is_emptied(tensor: Any) -> bool:
    """Say whether a tensor has no elements; batch norm itself makes a list of bytes without any, for cuDNN."""
    return tensor.numel() == 0 and not (tensor.dtype is torch.uint8 and tensor.dim() == 1)


def _shapes(result: Any) -> list[Shape]:
    if isinstance(result, Shape):
        return [result]
    if isinstance(result, _SEQUENCES):
        return [shape for item in cast("list[Any]", result) for shape in _shapes(item)]
    return []


def _is_composite(func: Any) -> bool:
    """Say whether an operation has no kernels of its own: beside those, some have one made of others."""
    has: Any = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(func.name(), "CompositeImplicitAutograd") and not has(func.name(), "CPU")


def _is_of_meta(tensors: list[Any], kwargs: dict[str, Any]) -> bool:
    """Say whether the results have no memory anyway: those of an ``empty_like`` for another device have some."""
    device = kwargs.get("device")
    if device is not None:
        return torch.device(device).type == "meta"
    return bool(tensors) and all(tensor.device.type == "meta" for tensor in tensors)


def _device_of(form: _Form, args: Any, kwargs: dict[str, Any], tensors: list[Any]) -> torch.device:
    """Return where the results of an operation are: where it says, else where its operands are."""
    given = kwargs.get("device") or next((a for a in args if type(a) is torch.device), None)
    if given is not None:
        device: Any = torch.device(given)
        if device.type == "cuda" and device.index is None:
            return torch.device("cuda", torch.cuda.current_device())
        return device
    own = [tensor.device for tensor in tensors if tensor.dim()] or [tensor.device for tensor in tensors]
    return next((device for device in own if device.type == "cuda"), own[0] if own else _HOST)
