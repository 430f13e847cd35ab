"""The names that the wire's schema knows are torch's own, whatever version of torch is installed."""

from __future__ import annotations

import torch

from drygrad.dryrun.wire import DEVICE, DTYPES


def test_every_dtype_of_torch_is_known() -> None:
    own = {str(value).removeprefix("torch.") for value in vars(torch).values() if isinstance(value, torch.dtype)}
    assert own <= DTYPES


def test_devices_are_known() -> None:
    for name in ("cpu", "cuda", "cuda:7", "meta", "mps", "xpu:0", "xla:1"):
        assert DEVICE(str(torch.device(name))) == name
