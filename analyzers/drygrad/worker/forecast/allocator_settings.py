"""What ``PYTORCH_CUDA_ALLOC_CONF`` says of the caching allocator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_MIB = 1 << 20
_INTERVALS = 16
"""Roundings are set by power of two, from 1 MiB to 64 GiB."""
_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_SIZES = {
    "max_split": "max_split_size_mb",
    "max_rounding": "max_non_split_rounding_mb",
    "large_segment": "large_segment_size_mb",
}
_OPTION = re.compile(r"\s*(\w+)\s*:\s*(\[[^\]]*\]|[^,\[\]]*)\s*(?:,|$)")


class Settings(NamedTuple):
    """How the allocator rounds, splits and maps; what it does unless told otherwise."""

    expandable: bool = False
    max_split: int | None = None
    """Blocks of this size and above are never split; None where all may be."""
    max_rounding: int = 20 * _MIB
    """What a block that may not be split may have above what was asked for."""
    large_segment: int = 20 * _MIB
    divisions: tuple[int, ...] = (0,) * _INTERVALS

    def divisions_of(self, size: int) -> int:
        """Return into how many parts the powers of two around a size are divided for rounding; 0: not at all."""
        return self.divisions[min(max(size.bit_length() - 1 - 20, 0), _INTERVALS - 1)]


def settings_of(environment: Mapping[str, str]) -> Settings:
    """Return the settings of a process with this environment: the first of torch's variables counts."""
    return next((parse(environment[name]) for name in _VARIABLES if name in environment), Settings())


def parse(text: str) -> Settings:
    """Read the settings; what torch would refuse, or this model does not know, stays as it is."""
    found = {match[1]: match[2].strip() for match in _OPTION.finditer(text)}
    settings = Settings(expandable=found.get("expandable_segments", "").lower() == "true")
    sizes = {
        "max_split": "max_split_size_mb",
        "max_rounding": "max_non_split_rounding_mb",
        "large_segment": "large_segment_size_mb",
    }
    for field, option in sizes.items():
        if found.get(option, "").isdigit():
            settings = settings._replace(**{field: max(int(found[option]), 20) * _MIB})
    return settings._replace(divisions=_divisions(found.get("roundup_power2_divisions", "")))


def _divisions(text: str) -> tuple[int, ...]:
    """Read one number for all sizes, or ``[256:1,512:2,>:4]``: bounds in MiB, each with its number."""
    if text.isdigit():
        return (int(text),) * _INTERVALS
    divisions, last = [0] * _INTERVALS, None
    for bound, number in re.findall(r"(\d+|>)\s*:\s*(\d+)", text):
        if bound == ">":
            first = 0 if last is None else last + 1
            divisions[first:] = [int(number)] * (_INTERVALS - first)
            continue
        index = min(max(int(bound).bit_length() - 1, 0), _INTERVALS - 1)
        if last is None:
            divisions[:index] = [int(number)] * index
        divisions[index] = int(number)
        last = index
    return tuple(divisions)
