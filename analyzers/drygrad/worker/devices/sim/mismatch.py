"""The words with which a GPU refuses tensors of several devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from drygrad.worker.devices.sim.internals import SEQUENCES
from drygrad.worker.devices.sim.native_functions import Operator


def refusal(
    schema: Any, check: str, args: Any, kwargs: dict[str, Any], operators: dict[str, Operator]
) -> RuntimeError | None:
    """The error of a call whose tensors are on several devices, or None where a GPU would take them."""
    name = operator_name(schema)
    found = tensors(schema, args, kwargs)
    if check == "iterator":
        names = {argument.name for argument in schema.arguments if argument.alias_info and argument.alias_info.is_write}
        return iterated([t for _, t in found], written=[t for name, t in found if name in names])
    if check == "wrapper":
        return wrapped(found, method(name, operators))
    return None


def operator_name(schema: Any) -> str:
    """The name of an operator as native_functions.yaml has it."""
    base = schema.name.split("::")[1]
    return f"{base}.{schema.overload_name}" if schema.overload_name else base


def tensors(schema: Any, args: Any, kwargs: dict[str, Any]) -> list[tuple[str, Tensor]]:
    """All tensors of a call in the schema's order, each with the name of its argument."""
    found: list[tuple[str, Tensor]] = []
    for place, argument in enumerate(schema.arguments):
        value: Any = args[place] if place < len(args) else kwargs.get(argument.name)
        if isinstance(value, Tensor):
            found.append((argument.name, value))
        elif isinstance(value, SEQUENCES):
            found += [(argument.name, item) for item in value if isinstance(item, Tensor)]
    return found


def iterated(found: list[Tensor], written: Sequence[Tensor] = ()) -> RuntimeError | None:
    """TensorIterator's refusal: it takes the first device that is not the host's, and lets host scalars be read."""
    common = next((tensor.device for tensor in found if tensor.is_cuda), None)
    for tensor in found:
        scalar = tensor.device.type == "cpu" and not tensor.dim() and not any(tensor is other for other in written)
        if common is not None and tensor.device != common and not scalar:
            return two_devices(common, tensor.device)
    return None


def two_devices(first: object, second: object) -> RuntimeError:
    """TensorIterator's sentence."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
    )


def wrapped(found: list[tuple[str, Tensor]], where: str) -> RuntimeError | None:
    """The refusal of the wrapper that torch generates around a kernel."""
    for name, tensor in found[1:]:
        if tensor.device != found[0][1].device:
            return RuntimeError(
                f"Expected all tensors to be on the same device, but got {name} is on {tensor.device}, different from "
                f"other tensors on {found[0][1].device} (when checking argument in method {where})"
            )
    return None


def method(name: str, operators: dict[str, Operator]) -> str:
    """The name of the generated wrapper: torch names those of structured kernels otherwise than the others."""
    operator = operators[name]
    base, _, kind = name.partition(".")
    if operator.delegate or operator.structured:
        return f"wrapper_CUDA_{base}" + (f"_{kind}" if kind else "")
    return f"wrapper_CUDA_{kind}_{base}"
