"""Torch's own database of operators on the simulated device, beside the CPU: ``python opinfo_program.py [--every N]``.

Prints one JSON line for each operator, which ran in a fork of its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from drygrad.worker.devices import sim

SAMPLES = 6
DTYPES = (torch.float16, torch.bfloat16, torch.int64)
# What is random, or is unique only up to signs or order, is compared by shape and dtype.
INDEFINITE = ("empty", "new_empty", "svd", "linalg.svd", "pca", "geqrf", "linalg.eig", "linalg.qr", "qr")
tree_leaves: Any = pytree.tree_leaves
tree_map: Any = pytree.tree_map
seed: Any = vars(torch)["manual_seed"]


def moved(value: Any, device: str) -> Any:
    """Return arguments with their tensors and devices on another device."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    return torch.device(device) if isinstance(value, torch.device) else device if value == "cpu" else value


def on_device(value: Any) -> Any:
    return moved(value, "cuda")


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def difference(name: str, ours: Any, theirs: Any) -> str | None:
    """Say how results differ, or None."""
    mine, reference = tensors(ours), tensors(theirs)
    if len(mine) != len(reference):
        return f"{len(mine)} tensors, not {len(reference)}"
    for left, right in zip(mine, reference, strict=True):
        if not left.is_cuda:
            return "a result is not on the device"
        if (left.shape, left.dtype) != (right.shape, right.dtype):
            return f"{left.dtype} {list(left.shape)}, not {right.dtype} {list(right.shape)}"
        if not name.startswith(INDEFINITE) and not right.is_sparse:
            try:
                torch.testing.assert_close(
                    left.detach().cpu(), right.detach(), equal_nan=True, rtol=1e-3, atol=1e-3, check_stride=False
                )
            except AssertionError as error:
                return f"values: {str(error).splitlines()[0]}"
    return None


def loss(result: Any) -> Any:
    """Sum what has a gradient."""
    graded = [t for t in tensors(result) if t.requires_grad and (t.is_floating_point() or t.is_complex())]
    summed = [(t.abs() if t.is_complex() else t).sum() for t in graded]
    return torch.stack(summed).sum() if summed else None


def called(op: Any, sample: Any) -> Any:
    seed(0)
    return op(sample[0], *sample[1], **sample[2])


def gradients(sample: Any) -> list[torch.Tensor]:
    return [tensor.grad for tensor in tensors(sample) if tensor.grad is not None]


def attempted(work: Callable[[], Any]) -> tuple[Any, str | None]:
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - whatever the operator raises is its answer
        return None, f"{type(error).__name__}: {error}"[:300]


def compare(op: Any, name: str, said: dict[str, Any]) -> None:
    """Compare forward and backward on the first samples."""
    dtype = next((t for t in (torch.float32, torch.int64, *op.dtypes) if t in op.dtypes), None)
    graded = bool(op.supports_autograd) and dtype is torch.float32
    made, _ = attempted(lambda: list(op.sample_inputs("cpu", dtype, requires_grad=graded))[:SAMPLES])
    for sample in made or () if dtype in op.dtypesIfCUDA else ():
        host = (sample.input, sample.args, sample.kwargs)
        theirs, failed = attempted(lambda host=host: called(op, host))
        if failed:
            continue
        device = tree_map(on_device, host)
        ours, failed = attempted(lambda device=device: called(op, device))
        failed = failed or difference(name, ours, theirs)
        said["forward"] = failed or "ok"
        if failed:
            return
        if graded and (reference := loss(theirs)) is not None and not attempted(reference.backward)[1]:
            mine = loss(ours)
            failed = attempted(mine.backward)[1] if mine is not None else "no gradient"
            failed = failed or difference(name, gradients(device), gradients(host))
            for tensor in tensors(host):  # samples may share tensors
                tensor.grad = None
            said["backward"] = failed or "ok"
            if failed:
                return


def refusals(op: Any, said: dict[str, Any]) -> None:
    """Try the inputs that the operator must refuse, and compare the words."""
    if op.error_inputs_func is None:
        return
    cases: list[list[str]] = []
    made, failed = attempted(lambda: list(op.error_inputs("cuda")))
    for case in made or ():
        sample = case.sample_input
        got = "nothing was raised"
        try:
            op(sample.input, *sample.args, **sample.kwargs)
        except Exception as error:  # noqa: BLE001 - the error is what is asked for
            got = f"{type(error).__name__}: {error}"[:300]
            if isinstance(error, case.error_type) and re.search(case.error_regex, str(error)):
                got = "ok"
        cases.append([f"{case.error_type.__name__}: {case.error_regex}", got])
    said["errors"] = [[failed, failed]] if failed else cases


def claims(op: Any, said: dict[str, Any]) -> None:
    """Compare the dtypes that are taken with those that the database says a GPU takes."""
    for dtype in DTYPES:
        claimed = dtype in op.dtypesIfCUDA
        made, failed = attempted(lambda dtype=dtype: list(op.sample_inputs("cuda", dtype))[:2])
        if failed or not made:
            continue
        refused = [
            failed
            for sample in made
            if (failed := attempted(lambda s=sample: called(op, (s.input, s.args, s.kwargs)))[1]) is not None
        ]
        key = str(dtype).partition(".")[2]
        if claimed and refused:
            said["dtypes"][key] = "refused: " + refused[0]
        elif not claimed and not refused:
            said["dtypes"][key] = "taken, and a GPU does not"
        else:
            said["dtypes"][key] = "ok"


def examine(op: Any, name: str) -> dict[str, Any]:
    """Everything about one operator."""
    said: dict[str, Any] = {"name": name, "forward": None, "backward": None, "errors": [], "dtypes": {}}
    compare(op, name, said)
    refusals(op, said)
    claims(op, said)
    return said


def chosen(every: int, named: list[str]) -> Iterator[tuple[Any, str]]:
    """Every n-th operator of the database, and those that are named."""
    # Which dtypes it names depends on the device that is there when it is imported.
    database: Any = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db
    for place, op in enumerate(database):
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if place % every == 0 or op.name in named:
            yield op, name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sim.enable()
    for op, name in chosen(options.every, options.names):
        child = os.fork()
        if child == 0:
            print(json.dumps(examine(op, name)), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(json.dumps({"name": name, "forward": f"died with wait status {status}"}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
