"""The table of GPUs: what users call them, what they have, and what is answered where nobody has heard of a name."""

from __future__ import annotations

import pytest

from drygrad.gpus import GPUS, UnknownGpu, gpu_named


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("h100", "H100-80GB"),
        ("H100-80GB", "H100-80GB"),
        ("H100 SXM5", "H100-80GB"),
        ("h100-pcie", "H100-80GB-PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("A100", "A100-80GB"),
        ("a100-40", "A100-40GB"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("rtx 4090", "RTX 4090"),
        ("4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("Tesla T4", "T4"),
        ("v100", "V100-32GB"),
        ("Tesla V100-SXM2-16GB", "V100-16GB"),
        ("A6000", "RTX A6000"),
        ("4060 ti", "RTX 4060 Ti 16GB"),
        ("mi300x", "MI300X"),
        ("RTX 3090 24GB", "RTX 3090"),
        ("h200-141gb", "H200"),
    ],
)
def test_a_name_may_be_spelled_as_its_users_do(given: str, meant: str) -> None:
    assert gpu_named(given).name == meant


@pytest.mark.parametrize(
    ("given", "size"), [("24GiB", 24 << 30), ("24GB", 24 * 10**9), ("1.5 TiB", 3 << 39), ("4096mib", 4 << 30)]
)
def test_a_size_is_a_gpu_without_rates(given: str, size: int) -> None:
    gpu = gpu_named(given)
    assert (gpu.memory, gpu.rates) == (size, {})


def test_a_name_that_nobody_knows_is_answered_with_those_that_are_near() -> None:
    with pytest.raises(UnknownGpu, match=r"'H1000'; did you mean .*H100") as raised:
        gpu_named("H1000")
    assert "H100-80GB" in raised.value.near
    with pytest.raises(UnknownGpu, match="did you mean"):
        gpu_named("RTX 3090 48GB")
    with pytest.raises(UnknownGpu, match="known are T4"):
        gpu_named("abacus")


def test_every_gpu_can_be_compared() -> None:
    assert len({gpu.name for gpu in GPUS}) == len(GPUS)
    for gpu in GPUS:
        assert gpu_named(gpu.name) is gpu
        assert 8 << 30 < gpu.memory < 256 << 30
        assert gpu.rates["float32"] <= gpu.rates["float16"] and gpu.bandwidth >= 200e9 and gpu.multiprocessors
        assert ("bfloat16" in gpu.rates) == (gpu.name[:2] not in ("T4", "V1")), "T4 and V100 only emulate bfloat16"
