"""The kernel that serves most operators: run the host's kernel on the same memory."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor

from drygrad.worker.devices.sim import dtypes, mismatch
from drygrad.worker.devices.sim.cuda_api.generators import check_generator
from drygrad.worker.devices.sim.entangle import entangle
from drygrad.worker.devices.sim.internals import HOST, SEQUENCES, C
from drygrad.worker.devices.sim.native_functions import Operator
from drygrad.worker.devices.sim.plans import UNCHECKED, VIEW, Plan, argument
from drygrad.worker.devices.sim.recover import recovered
from drygrad.worker.devices.sim.relabel import alias, to_device, to_host
from drygrad.worker.devices.sim.state import STATE, checked, report_sync

ARGUMENT: Any = tuple
NUMBERS = frozenset({int, float, bool, complex})
OPERATORS: dict[str, Operator] = {}
Kernel = Callable[..., Any]


def kernel(op: Any, check: str | None = None, run: Kernel | None = None) -> Kernel:
    """The kernel of an operator overload; ``check`` overrides which devices it checks, ``run`` what the host runs."""
    operator = OPERATORS.get(mismatch.operator_name(op._schema), UNCHECKED)
    plan = Plan(op, operator, check)
    plan.run = run or plan.run
    chosen = _plain(plan) if plan.plain else _general(plan)
    if dtypes.base(plan.name) in dtypes.REFUSED:
        chosen = _refusing(dtypes.base(plan.name), chosen)
    return _synchronising(plan, chosen) if plan.sync else chosen


def _synchronising(plan: Plan, inner: Kernel) -> Kernel:
    def run(*args: Any, **kwargs: Any) -> Any:
        report_sync("sync", plan.name)
        return inner(*args, **kwargs)

    return run


def _refusing(name: str, inner: Kernel) -> Kernel:
    def run(first: Any, *args: Any, **kwargs: Any) -> Any:
        if name in dtypes.NO_SHAPES:
            dtypes.check(name, first)
        result = inner(first, *args, **kwargs)  # a GPU too looks at shapes before dtypes
        dtypes.check(name, first)
        return result

    return run


def _plain(plan: Plan) -> Kernel:
    """For operators that take tensors one by one and return one fresh tensor."""
    run, places, numbers = plan.run, plan.tensors, plan.numbers

    def plain(*args: Any, **kwargs: Any) -> Any:
        host, index, mixed, count = list(args), -1, False, len(args)
        for place in places:
            if place >= count:
                break
            value = host[place]
            if isinstance(value, Tensor):
                where = value.get_device()
                if where >= 0:
                    host[place] = to_host(value)
                    mixed = mixed or 0 <= index != where
                    index = where
                else:
                    mixed = True
            elif numbers and value is not None and type(value) in NUMBERS:
                host[place] = wrapped(value, args)
        named = kwargs
        if kwargs:
            named, index, mixed = _keywords(kwargs, index, mixed)
        if mixed:
            _refuse(plan, args, kwargs)
        if index < 0 or index >= STATE.devices:
            index = checked(index)
        try:
            result = run(*host, **named)
        except RuntimeError as error:
            result = recovered(error, plan, host, named)
        return to_device(result, index)

    return plain


def _general(plan: Plan) -> Kernel:
    def general(*args: Any, **kwargs: Any) -> Any:
        host, index, mixed = list(args), -1, False
        for place, value in enumerate(args):
            host[place], index, mixed = _hosted(value, index, mixed)
        for place in plan.numbers:
            if place < len(args) and type(args[place]) in NUMBERS:
                host[place] = wrapped(args[place], args)
        named, index, mixed = _keywords(kwargs, index, mixed)
        if mixed:
            _refuse(plan, args, kwargs)
        index = checked(index)
        if plan.written:
            entangle(plan, args, kwargs, host, named)
        try:
            result = plan.run(*host, **named)
        except RuntimeError as error:
            if plan.written and "resiz" in str(error):
                return _resized(plan, args, kwargs, host, named, index)
            result = recovered(error, plan, host, named)
        if plan.outputs:
            _reshaped(plan, args, kwargs, host, named, index)
        return _returned(plan, result, args, kwargs, index)

    return general


def _hosted(value: Any, index: int, mixed: bool) -> tuple[Any, int, bool]:
    """An argument as the host's kernel takes it; the device met so far, and whether several were."""
    if isinstance(value, Tensor):
        where = value.get_device()
        if where < 0:
            return value, index, True
        return to_host(value), where, mixed or 0 <= index != where
    if isinstance(value, SEQUENCES) and value and any(isinstance(item, Tensor) for item in value):
        items: list[Any] = []
        for item in value:
            host, index, mixed = _hosted(item, index, mixed)
            items.append(host)
        return items, index, mixed
    if isinstance(value, C.Generator):
        check_generator(value)
    return value, index, mixed


def _keywords(kwargs: dict[str, Any], index: int, mixed: bool) -> tuple[dict[str, Any], int, bool]:
    named: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name == "device":
            if value is not None and value.type == "cuda":
                index = STATE.current if value.index is None else value.index
            named[name] = HOST
        elif name != "pin_memory":
            named[name], index, mixed = _hosted(value, index, mixed)
    return named, index, mixed


def _refuse(plan: Plan, args: Any, kwargs: dict[str, Any]) -> None:
    error = mismatch.refusal(plan.op._schema, plan.check, args, kwargs, OPERATORS)
    if error is not None:
        raise error


def wrapped(number: Any, others: Any) -> Tensor:
    """A number where a tensor is expected, of a dtype that promotes no other argument, as torch wraps numbers."""
    dtypes = [other.dtype for other in others if isinstance(other, Tensor)]
    if isinstance(number, bool):
        dtype = torch.bool
    elif isinstance(number, int):
        dtype = next((d for d in dtypes if d is not torch.bool), torch.int64)
    elif isinstance(number, float):
        dtype = next((d for d in dtypes if d.is_floating_point or d.is_complex), torch.get_default_dtype())
    else:
        dtype = next((d for d in dtypes if d.is_complex), None)
    return torch.tensor(number, dtype=dtype, device=HOST)


def _returned(plan: Plan, result: Any, args: Any, kwargs: dict[str, Any], index: int) -> Any:
    if len(plan.results) == 1:
        return _one(plan.results[0], result, args, kwargs, index)
    if not plan.results:
        return None
    return tuple(_one(kind, item, args, kwargs, index) for kind, item in zip(plan.results, result))


def _one(kind: Any, result: Any, args: Any, kwargs: dict[str, Any], index: int) -> Any:
    if type(kind) is ARGUMENT:
        return argument(kind, args, kwargs)
    if isinstance(result, Tensor):
        return alias(result, index) if kind is VIEW else to_device(result, index)
    if isinstance(result, SEQUENCES):
        return [_one(kind, item, args, kwargs, index) for item in result]
    return result


def _reshaped(plan: Plan, args: Any, kwargs: dict[str, Any], host: Any, named: dict[str, Any], index: int) -> None:
    """Give outputs the shapes that the host's kernel gave to their aliases."""
    for where in plan.written:
        output, computed = argument(where, args, kwargs), argument(where, host, named)
        if isinstance(output, Tensor) and output.shape != computed.shape:
            output.data = alias(computed, index)


def _resized(plan: Plan, args: Any, kwargs: dict[str, Any], host: list[Any], named: dict[str, Any], index: int) -> Any:
    """Call again with empty outputs, which host memory under a simulated tensor could not become."""
    fresh: list[tuple[Tensor, Tensor]] = []
    for place, name in plan.written:
        output = argument((place, name), args, kwargs)
        empty = torch.empty(0, dtype=output.dtype, device=HOST)
        fresh.append((output, empty))
        if name in named:
            named[name] = empty
        else:
            host[place] = empty
    plan.run(*host, **named)
    for output, computed in fresh:
        output.data = to_device(computed, index)
    outputs = tuple(output for output, _ in fresh)
    return outputs[0] if len(outputs) == 1 else outputs
