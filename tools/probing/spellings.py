"""Other names for the same operation, where torch gives the same for them."""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from probing.keeping import outputs_of
from probing.samples import base_dtypes, samples_of
from probing.signatures import signature_of

_PACKAGES = ("", "nn.functional.", "special.", "linalg.", "fft.")


def public(name: str) -> Callable[..., Any] | None:
    """Return the function that users call by a name of the database, or the method."""
    owner: Any = torch
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner if callable(owner) else getattr(torch.Tensor, name, None)


def aliases(entries: dict[str, list[Any]]) -> dict[str, str]:
    """Return the names that mean the same as one in the database."""
    found: dict[str, str] = {}
    for name, group in entries.items():
        function = public(name)
        for other in _candidates(name, group):
            spelled = public(other)
            if other in entries or other in found or spelled is None or function is None:
                continue
            if spelled is function or _agree(name, function, spelled, group):
                found[other] = name
    return dict(sorted(found.items()))


def _candidates(name: str, group: Iterable[Any]) -> Iterator[str]:
    last = name.rpartition(".")[2]
    yield from (package + last for package in _PACKAGES)
    yield from (alias.name for entry in group for alias in entry.aliases)


def _agree(name: str, function: Callable[..., Any], spelled: Callable[..., Any], group: list[Any]) -> bool:
    signature = signature_of(name, function)
    entry = group[0]
    compared = False
    for dtype in base_dtypes(entry)[:1]:
        for sample in list(samples_of(entry, function, signature, dtype))[:4]:
            try:
                expected = outputs_of(sample.run())
            except Exception:  # noqa: BLE001 - whatever torch refuses tells nothing
                continue
            sample.function = spelled
            try:
                made = outputs_of(sample.run())
            except Exception:  # noqa: BLE001 - it takes something else
                return False
            if expected is None or made is None or len(expected) != len(made):
                return False
            if not all(_equal(a, b) for a, b in zip(expected, made, strict=True)):
                return False
            compared = True
    return compared


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return torch.allclose(first.to(torch.complex128), second.to(torch.complex128), equal_nan=True)
