"""Which dtypes an operation refuses in its first operand where it takes floats."""

# pyright: basic

from __future__ import annotations

import re

import torch

from probing.deciding import Observation
from probing.samples import Sample

_DTYPES = {"int64": torch.int64, "bool": torch.bool}
_ABOUT_DTYPES = re.compile(r"dtype|not implemented for|scalar type|floating|integral|Long|Bool", re.IGNORECASE)
NONE = "-"


def refused(sample: Sample) -> Observation | None:
    """Return which dtypes torch refuses in a call that it takes with floats; None where there is no such operand."""
    first = sample.names[0] if sample.names else None
    operand = sample.operands().get(first) if first is not None else None
    if first is None or operand is None or not operand.is_floating_point() or not _runs(sample):
        return None
    answers = [name for name, dtype in _DTYPES.items() if _is_refused(sample, first, dtype)]
    return sample.features, (" ".join(answers) or NONE,)


def _runs(sample: Sample) -> bool:
    try:
        sample.changed(lambda _, value: value.clone() if isinstance(value, torch.Tensor) else value).run()
    except Exception:  # noqa: BLE001 - what torch refuses as it is tells nothing of dtypes
        return False
    return True


def _is_refused(sample: Sample, first: str, dtype: torch.dtype) -> bool:
    changed = sample.changed(
        lambda name, value: (
            value.clone().to(dtype if name == first else value.dtype) if isinstance(value, torch.Tensor) else value
        )
    )
    try:
        changed.run()
    except Exception as error:  # noqa: BLE001 - the message says whether it is about the dtype
        return _ABOUT_DTYPES.search(str(error)) is not None
    return False
