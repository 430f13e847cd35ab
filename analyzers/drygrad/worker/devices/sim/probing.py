"""Whether the simulated device works with this torch: tried in a fork of this process, which may die of it."""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from drygrad.worker.devices.sim import guard, internals, native_functions

SECONDS = 30.0
WORKS = "works"


def missing() -> str | None:
    """What the simulated device needs and this torch has not, or None."""
    if sys.platform != "linux":
        return "the simulated device runs on Linux only"
    if not guard.available():
        return f"torch {internals.VERSION} has no fake device guard"
    if not os.path.isdir(os.path.join(internals.headers(), "ATen", "detail")):
        return "this torch has no C++ headers, which are needed to locate its hooks"
    try:
        found = os.path.exists(native_functions.path())
    except ImportError:
        found = False
    return None if found else "this torch has no torchgen and no operator list"


def outcome() -> str | None:
    """None where a small program succeeds on the simulated device, else why it does not."""
    lacking = missing()
    if lacking is not None:
        return lacking
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _try(writer)
    os.close(writer)
    try:
        said = _said(reader)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if said == WORKS:
        return None
    if said is None:
        return f"the probe of the simulated device did not answer within {SECONDS:g} s"
    return said or f"the probe of the simulated device died (wait status {status})"


def _said(reader: int) -> str | None:
    """What the child wrote until it closed its end; None where it takes too long."""
    said, deadline = b"", time.monotonic() + SECONDS
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        part = os.read(reader, 4096)
        if not part:
            return said.decode("utf-8", "replace")
        said += part


def _try(writer: int) -> None:
    """In the child: use the device, say how it went, and end without cleaning up what is not ours."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        _use()
        said = WORKS
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
        said = f"the simulated device fails with this torch: {type(error).__name__}: {error}"
    os.write(writer, said.encode())
    os._exit(0)


def _use() -> None:
    import torch

    from drygrad.worker.devices import sim

    sim.enable()
    x = torch.ones(2, 3, device="cuda", requires_grad=True)
    torch.autograd.backward((x @ x.t() + 1).relu().sum())
    if x.grad is None or not x.grad.is_cuda or not torch.equal(x.grad.cpu(), torch.full((2, 3), 4.0)):
        raise RuntimeError(f"a gradient is {x.grad}")
    try:
        torch.add(x, torch.ones(3))
    except RuntimeError as error:
        if "cuda:0 and cpu" in str(error):
            return
        raise
    raise RuntimeError("tensors of several devices are not refused")
