"""What is known of an operator before it is called, so that a call needs little work."""

from __future__ import annotations

from typing import Any, Callable

from drygrad.worker.devices.sim.internals import C
from drygrad.worker.devices.sim.native_functions import Operator

VIEW = "view"
SYNCHRONISING = frozenset(
    """aten::_local_scalar_dense aten::nonzero aten::masked_select aten::_unique aten::_unique2 aten::unique_dim
    aten::unique_consecutive aten::unique_dim_consecutive aten::equal aten::bincount aten::repeat_interleave
    aten::_ctc_loss aten::histc aten::linalg_eig aten::_linalg_eigvals""".split()
)
takes_numbers: Any = C._should_allow_numbers_as_tensors
UNCHECKED = Operator(check="none")


class Plan:
    """One operator overload, read from its schema.

    ``tensors`` and ``lists`` are the positions of tensor and tensor-list arguments that may be passed by position;
    ``results`` has for each result None (fresh), ``VIEW`` or (position, name) of the argument that is returned;
    ``numbers`` are the positions of tensors that the host's operator refuses to take as numbers, which torch's boxing
    makes of them; ``written`` are the (position, name) of arguments that are written to.
    """

    __slots__ = (
        "check",
        "lists",
        "name",
        "numbers",
        "op",
        "outputs",
        "plain",
        "results",
        "run",
        "sync",
        "tensors",
        "written",
    )

    def __init__(self, op: Any, operator: Operator, check: str | None = None) -> None:
        schema = op._schema
        self.op = op
        self.run: Callable[..., Any] = getattr(op, "_op", op)
        self.name: str = schema.name
        self.check = check or operator.check
        self.sync = schema.name in SYNCHRONISING
        by_position = [(place, str(a.type)) for place, a in enumerate(schema.arguments) if not a.kwarg_only]
        self.tensors = tuple(place for place, kind in by_position if kind in {"Tensor", "Optional[Tensor]"})
        self.numbers = () if takes_numbers(schema.name.split("::")[1]) else self.tensors
        self.lists = tuple(place for place, kind in by_position if kind.startswith("List[") and "Tensor" in kind)
        self.written = [(k, a.name) for k, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write]
        self.outputs = any(a.is_out for a in schema.arguments)
        self.results = [_result(schema, result) for result in schema.returns]
        self.plain = self.results == [None] and not self.lists and str(schema.returns[0].type) == "Tensor"


def _result(schema: Any, result: Any) -> Any:
    alias = result.alias_info
    if alias is None:
        return None
    if not alias.is_write:
        return VIEW
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.before_set & alias.before_set:
            return place, argument.name
    return None


def argument(where: tuple[int, str], args: Any, kwargs: dict[str, Any]) -> Any:
    """An argument of a call, by the position or name it was passed with."""
    place, name = where
    return kwargs[name] if name in kwargs else args[place]
