"""The dtypes that an operation makes of its operands': each operand is given in others, and one rule has to fit all."""

# pyright: basic

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from probing.deciding import Observation
from probing.keeping import outputs_of
from probing.samples import Sample

_REAL = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]
_ALL = [*_REAL, torch.complex64]
_MIXED = [
    (torch.float32, torch.float64),
    (torch.float64, torch.float32),
    (torch.float16, torch.float32),
    (torch.float16, torch.bfloat16),
    (torch.float32, torch.int64),
    (torch.int64, torch.float32),
    (torch.int32, torch.int64),
    (torch.float32, torch.complex64),
    (torch.bool, torch.float32),
    (torch.uint8, torch.int64),
]
_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128, torch.float16: torch.complex32}
_NAMES = {str(dtype): str(dtype)[6:] for dtype in (*_ALL, torch.complex128, torch.int16, torch.int8)}

OUTPUTS = 4
"""Of how many results the dtypes are noted."""


def observe(sample: Sample, base: torch.dtype) -> Iterator[tuple[int, Observation]]:
    """Yield the rules that tell the dtype of each result, for every call in other dtypes that torch takes."""
    for changed in _variants(sample, base):
        try:
            made = outputs_of(changed.run())
        except Exception:  # noqa: BLE001 - whatever torch refuses tells nothing
            continue
        for index, each in enumerate(made[:OUTPUTS] if made else ()):
            yield index, (sample.features, tuple(_rules_for(changed, each.dtype)))


def _variants(sample: Sample, base: torch.dtype) -> Iterator[Sample]:
    names = [name for name, tensor in sample.operands().items() if tensor.dtype == base]
    for dtype in _ALL:
        yield _in_dtypes(sample, dict.fromkeys(names, dtype))
    wholes = list(dict.fromkeys(name.partition(".")[0] for name in names))
    for one in names if len(wholes) < len(names) else wholes:
        others = [name for name in names if name != one]
        if not others:
            break
        for first, second in _MIXED:
            yield _in_dtypes(sample, {**dict.fromkeys(others, first), one: second})
    for name, tensor in sample.operands().items():
        if name not in names and tensor.dtype == torch.int64:
            yield _in_dtypes(sample, {name: torch.int32})
    yield from _numbers(sample, names)


def _numbers(sample: Sample, names: list[str]) -> Iterator[Sample]:
    """Yield the call with each Python number as a float, where the tensors are integers and floats."""
    for name, value in sample.named():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            for number in (2, 2.5):
                for dtype in (torch.int32, torch.float16, torch.bool):
                    changed = _in_dtypes(sample, dict.fromkeys(names, dtype))
                    yield changed.changed(lambda at, v, name=name, number=number: number if at == name else v)


def _in_dtypes(sample: Sample, dtypes: dict[str, torch.dtype]) -> Sample:
    return sample.changed(
        lambda at, value: value.clone().to(dtypes.get(at, value.dtype)) if isinstance(value, torch.Tensor) else value
    )


# -- rules ------------------------------------------------------------------------------------------------------


def _rules_for(sample: Sample, dtype: torch.dtype) -> Iterator[str]:
    if dtype in [value for _, value in sample.named() if isinstance(value, torch.dtype)]:
        yield "asked"
    if str(dtype) in _NAMES:
        yield _NAMES[str(dtype)]
    for participants, dtypes in _participants(sample):
        common = _promoted(dtypes)
        for rule, of in _RULES.items():
            if common is not None and of(common) == dtype:
                yield f"{rule}:{participants}"


def _participants(sample: Sample) -> Iterator[tuple[str, list[Any]]]:
    """Yield the sets of operands that may decide: all with numbers, all tensors, then the ones."""
    tensors: dict[str, list[Any]] = {}
    for name, tensor in sample.operands().items():
        tensors.setdefault(name.partition(".")[0], []).append(tensor)
    floats = {name: group for name, group in tensors.items() if any(t.is_floating_point() for t in group)}
    yield "*", [tensor for group in tensors.values() for tensor in group]
    numbers = [value for _, value in sample.named() if isinstance(value, (int, float)) and not isinstance(value, bool)]
    yield "#", [*(tensor for group in tensors.values() for tensor in group), *numbers]
    yield "~", [tensor for group in floats.values() for tensor in group]
    for name, group in tensors.items():
        yield name, group
    for name in list(tensors)[1:]:
        first = next(iter(tensors))
        yield f"{first},{name}", [*tensors[first], *tensors[name]]
    for name in list(tensors)[2:]:
        second = list(tensors)[1]
        yield f"{second},{name}", [*tensors[second], *tensors[name]]


def _promoted(operands: list[Any]) -> torch.dtype | None:
    """Return what torch promotes operands to."""
    if not operands:
        return None
    result = operands[0]
    for other in operands[1:]:
        result = torch.empty(_dims(result, other), dtype=torch.result_type(result, other))
    return result.dtype if isinstance(result, torch.Tensor) else None


def _dims(first: Any, second: Any) -> tuple[int, ...]:
    dims = [value.ndim for value in (first, second) if isinstance(value, torch.Tensor)]
    return (1,) * min(1, max(dims, default=0))


def _float(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.float32


def _sum(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.int64


def _real(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real()


def _complex(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_complex else _float(dtype).to_complex()


def _number(dtype: torch.dtype) -> torch.dtype:
    return torch.int64 if dtype == torch.bool else dtype


def _double(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


_RULES = {
    "same": lambda dtype: dtype,
    "number": _number,
    "double": _double,
    "float": _float,
    "sum": _sum,
    "real": _real,
    "realfloat": lambda dtype: _float(_real(dtype)),
    "complex": _complex,
    "test": lambda dtype: dtype if dtype == torch.uint8 else torch.bool,
}
