"""The bound on time: by arithmetic or by memory, whichever ends later, by line and by phase."""

from __future__ import annotations

import pytest

from drygrad.gpus import gpu_named
from drygrad.worker.forecast.events import BACKWARD, FORWARD, Copy, Operation, Site, Trace
from drygrad.worker.forecast.gpu import Gpu, Workspaces, nccl_bytes, workspace_bytes
from drygrad.worker.forecast.roofline import bound, rate_of, roofline

A100 = Gpu.of(gpu_named("A100-40GB").as_wire())
T4 = Gpu.of(gpu_named("T4").as_wire())
MIB = 1 << 20


def operation(flops: int, moved: int, line: int = 1, dtype: str = "float16", phase: str = FORWARD) -> Operation:
    return Operation("aten::mm", flops, moved, 0, dtype, Site("net.py", line), phase)


def test_a_product_of_large_matrices_is_bound_by_arithmetic_and_a_copy_by_memory() -> None:
    assert bound(operation(312 * 10**9, 10**6), A100) == (pytest.approx(1e-3), False)
    assert bound(operation(0, 1_555_000_000), A100) == (pytest.approx(1e-3), True)


def test_a_dtype_without_units_of_its_own_runs_at_the_rate_of_what_stands_in() -> None:
    assert rate_of("tf32", A100) == 156e12
    assert rate_of("bfloat16", T4) == rate_of("tf32", T4) == 8.1e12
    assert rate_of("float64", T4) == pytest.approx(8.1e12 / 64)
    assert rate_of("float8_e4m3fn", Gpu.of(gpu_named("L4").as_wire())) == 242.5e12


def test_lines_and_phases_add_up() -> None:
    trace = Trace()
    trace.events += [operation(312 * 10**9, 8, 7), operation(0, 3_110_000_000, 8), operation(0, 8, 9, phase=BACKWARD)]
    made = roofline(trace, A100)
    assert made is not None
    assert made.total.seconds == pytest.approx(3e-3, rel=1e-4) == sum(share.seconds for share in made.lines.values())
    assert made.total.seconds == sum(share.seconds for share in made.phases.values())
    assert made.sentence() == "at best 3 ms on A100-40GB, 67% of it on line 8, bound by memory"
    assert (made.total.kernels, made.total.small) == (3, 1), "the third is shorter than its launch"
    assert [line["line"] for line in made.as_wire()["lines"]] == [8, 7, 9]


def test_copies_and_waits_are_told_by_line() -> None:
    trace = Trace()
    site = Site("net.py", 3)
    trace.events += [Copy("h2d", 25 * 10**9, Site("net.py", 2), FORWARD)] + [Copy("sync", 0, site, FORWARD)] * 4
    made = roofline(trace, A100)
    assert made is not None
    assert [(wait.kind, wait.times, round(wait.seconds, 3)) for wait in made.waits] == [("h2d", 1, 1.0), ("sync", 4, 0)]


def test_of_a_size_alone_nothing_is_said_about_time() -> None:
    assert roofline(Trace(), Gpu.of(gpu_named("24GiB").as_wire())) is None


@pytest.mark.parametrize(
    ("name", "environment", "expected"),
    [
        ("A100", {}, 8.125 * MIB),
        ("H100", {}, 32 * MIB),
        ("RTX 5090", {}, 32 * MIB),
        ("MI300X", {}, 128 * MIB),
        ("24GiB", {}, 8.125 * MIB),
        ("A100", {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}, 32 * MIB),
        ("H100", {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}, 128 * 1024),
    ],
)
def test_the_workspace_of_cublas_is_that_of_the_architecture(
    name: str, environment: dict[str, str], expected: float
) -> None:
    assert workspace_bytes(Gpu.of(gpu_named(name).as_wire()), environment) == expected


def test_each_thread_takes_a_workspace_once() -> None:
    workspaces = Workspaces(A100, {})
    calls = [("aten::add", FORWARD), ("aten::mm", FORWARD), ("aten::bmm", FORWARD), ("aten::mm", BACKWARD)]
    assert [workspaces.taken_by(*call) / MIB for call in calls] == [0, 8.125, 0, 8.125]


def test_the_context_grows_with_the_chip_and_nccl_with_its_buffers() -> None:
    assert T4.context < A100.context < Gpu.of(gpu_named("B200").as_wire()).context < 600 * MIB
    assert nccl_bytes({"NCCL_BUFFSIZE": str(2 * MIB), "NCCL_MAX_NCHANNELS": "8"}) == 32 * MIB < nccl_bytes({})
