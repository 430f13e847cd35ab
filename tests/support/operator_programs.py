"""Programs of one call each, made of torch's own databases of operators and modules."""

from __future__ import annotations

import importlib
import inspect
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import torch

DTYPES = (torch.float32, torch.float16, torch.int64, torch.bool)
MAX_SAMPLES = 2
_PRIVATE = ("_", "ops.", "torch.", "jiterator", "masked.", "signal.")


@dataclass(frozen=True)
class Program:
    """A program whose ``y`` is what torch made of the call, in ``results``."""

    operator: str
    call: str
    text: str
    results: tuple[torch.Tensor, ...]
    form: str
    is_tensor: bool
    tensors: dict[str, torch.Tensor]
    """What the program's names stand for."""


@cache
def programs() -> tuple[Program, ...]:
    """Return calls of each operator and module, on operands of each dtype that it takes; float32 requires grad."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the operands are tiny: a second thread only waits
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (*_programs(), *_of_modules())
    finally:
        torch.set_num_threads(threads)


def _programs() -> Iterator[Program]:
    # Importing it takes seconds, and pytest imports this file in each of its processes.
    database = importlib.import_module("torch.testing._internal.common_methods_invocations")
    for operator in database.op_db:
        if operator.name.startswith(_PRIVATE):
            continue
        for dtype in DTYPES:
            if dtype in operator.dtypes:
                yield from _of_operator(operator, dtype)


def _of_operator(operator: Any, dtype: torch.dtype) -> Iterator[Program]:
    samples = operator.sample_inputs_func(operator, "cpu", dtype, requires_grad=False)
    for _, sample in zip(range(MAX_SAMPLES), samples, strict=False):
        yield from _of_sample(operator, (sample.input, *sample.args), sample.kwargs)


def _of_sample(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Program]:
    """Yield the call of a function, and of its method, its in-place form and the one with ``out``."""
    tensors: dict[str, torch.Tensor] = {}
    try:
        given = [_written(value, tensors) for value in args]
        named = list(_named(kwargs, tensors))
    except TypeError:
        return
    name: str = operator.name
    last = name.rpartition(".")[2]
    method = ", ".join([*given[1:], *named])
    function = _exists(name) or name.startswith("nn.")
    made: Program | None = None
    if function:
        made = _tried(name, f"torch.{name}({', '.join([*given, *named])})", tensors, "function")
        if made is not None:
            yield made
    forms: dict[str, str] = {}
    if hasattr(torch.Tensor, last) and given[0] in tensors and ("." not in name):
        forms["method"] = f"{given[0]}.{last}({method})"
        if hasattr(torch.Tensor, f"{last}_"):
            forms["in place"] = f"({given[0]} * 1).{last}_({method})"
    if made is not None and operator.supports_out and len(made.results) == 1:
        result = made.results[0]
        tensors |= {"into": torch.zeros(tuple(result.shape), dtype=result.dtype)}
        forms["out"] = f"torch.{name}({', '.join([*given, *named, 'out=into'])})"
    for form, call in forms.items():
        program = _tried(name, call, tensors, form)
        if program is not None:
            yield program
    if made is not None:
        yield from _hidden(name, given, args, kwargs, tensors)


def _of_modules() -> Iterator[Program]:
    """Yield calls of each of torch's modules, made as its database makes them."""
    database = importlib.import_module("torch.testing._internal.common_modules")
    for module in database.module_db:
        name: str = module.module_cls.__name__
        if not hasattr(torch.nn, name):
            continue
        for dtype in (torch.float32, torch.float64):
            kind = {"dtype": dtype} if dtype is torch.float64 else {}
            samples = module.module_inputs_func(module, "cpu", dtype, requires_grad=False, training=True)
            for _, sample in zip(range(MAX_SAMPLES), samples, strict=False):
                yield from _of_module(name, sample.constructor_input, sample.forward_input, kind)


def _of_module(name: str, made_of: Any, given: Any, kind: dict[str, Any]) -> Iterator[Program]:
    tensors: dict[str, torch.Tensor] = {}
    options = dict(made_of.kwargs)
    if kind and "dtype" in inspect.signature(getattr(torch.nn, name)).parameters:
        options |= kind
    try:
        constructed = [*(_written(v, tensors) for v in made_of.args), *_named(options, tensors)]
        passed = [*(_written(v, tensors) for v in given.args), *_named(given.kwargs, tensors)]
    except TypeError:
        return
    program = _tried(f"nn.{name}", f"torch.nn.{name}({', '.join(constructed)})({', '.join(passed)})", tensors, "module")
    if program is not None:
        yield program


def _named(options: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Iterator[str]:
    return (f"{key}={_written(value, tensors)}" for key, value in options.items())


def _hidden(
    name: str, given: list[str], args: tuple[Any, ...], kwargs: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> Iterator[Program]:
    """Yield the call with keywords behind ``**hidden``, a dtype where it takes one, or arguments behind ``*hidden``."""
    for chosen in ({**kwargs, "dtype": torch.float64}, *([kwargs] if kwargs else [])):
        call = f"torch.{name}({', '.join([*given, '**hidden'])})"
        program = _tried(name, call, tensors, "hidden keywords", hidden=chosen)
        if program is not None:
            yield program
            break
    if len(args) > 1 and not kwargs:
        program = _tried(name, f"torch.{name}({given[0]}, *hidden)", tensors, "hidden arguments", hidden=args[1:])
        if program is not None:
            yield program


def _tried(name: str, call: str, tensors: dict[str, torch.Tensor], form: str, hidden: Any = None) -> Program | None:
    """Return the program of a call that torch takes and that gives tensors; float32 operands require grad."""
    asks = form != "out"
    used = {k: v for k, v in tensors.items() if k != "into" or form == "out"}
    used = {k: v.clone().requires_grad_() if asks and v.dtype is torch.float32 else v.clone() for k, v in used.items()}
    try:
        made = eval(call, {"torch": torch, "hidden": hidden, **used})
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError):
        return None
    results = tuple(cast("Sequence[Any]", made)) if isinstance(made, (tuple, list)) else (made,)
    if not results or not all(isinstance(result, torch.Tensor) for result in results):
        return None
    unknown = "hidden = chosen()\n" if hidden is not None else ""
    text = f"import torch\n{_definitions(used)}{unknown}y = {call}\n"
    return Program(name, call, text, results, form, isinstance(made, torch.Tensor), used)


def _exists(name: str) -> bool:
    owner: Any = torch
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner is not None


def _definitions(tensors: dict[str, torch.Tensor]) -> str:
    made = ""
    for name, tensor in tensors.items():
        asks = ", requires_grad=True" if tensor.requires_grad else ""
        made += f"{name} = torch.zeros({tuple(tensor.shape)}, dtype={tensor.dtype}{asks})\n"
    return made


def _written(value: Any, tensors: dict[str, torch.Tensor]) -> str:
    """Return the text of an argument; a tensor gets a name."""
    if isinstance(value, torch.Tensor) and value.layout == torch.strided:
        name = f"x{len(tensors)}"
        tensors[name] = value
        return name
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, (list, tuple)):
        inner = "".join(f"{_written(each, tensors)}, " for each in cast("list[Any]", value))
        return f"[{inner}]" if isinstance(value, (list, torch.Size)) else f"({inner})"
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    raise TypeError(f"{type(value)} has no text")
