"""Every CUDA kernel of the simulated device, registered with torch's dispatcher."""

from __future__ import annotations

import warnings
from typing import Any, Callable

import torch

from drygrad.worker.devices.sim import kernels, memory, native_functions
from drygrad.worker.devices.sim.errors import Unsupported
from drygrad.worker.devices.sim.internals import CUDA_LIBRARY, HOST, C, always, has_kernel, ops, overload
from drygrad.worker.devices.sim.relabel import to_device
from drygrad.worker.devices.sim.special import (
    attention,
    convolution,
    copies,
    half,
    indexing,
    lists,
    masking,
    recurrent,
    storages,
)
from drygrad.worker.devices.sim.state import STATE

Kernel = Callable[..., Any]
_OTHER_LAYOUTS = ("SparseCUDA", "SparseCsrCUDA", "QuantizedCUDA", "NestedTensorCUDA")
_libraries: list[Any] = []
KERNELS: dict[Any, Kernel] = {}
"""By operator overload: what runs where its first tensor is on a device, and nothing else wants to hear of it."""
_of_others: dict[Any, Kernel] = {}
"""Kernels for operators of other libraries, made when they are first called."""


def register() -> None:
    """Register everything, once for the life of the process."""
    kernels.OPERATORS.update(native_functions.load())
    anything: Any = torch.library.Library("_", "IMPL")
    library: Any = torch.library.Library("aten", "IMPL")
    _libraries.extend([anything, library])
    anything.fallback(_fallback, "CUDA")
    for key in _OTHER_LAYOUTS:
        anything.fallback(_unsupported(key), key)
    special = _special()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of each kernel that replaces one of its own
        for name, run in special.items():
            library.m.impl(name, "CUDA", run, False)
            KERNELS[overload(name)] = run
        for name in _served():
            op = None if name in special else overload(name)
            if op is not None:
                served = kernels.kernel(op) if _on_host(name) else _not_on_host
                library.m.impl(name, "CUDA", served, False)
                KERNELS[op] = served
        for name, key in _compiled(_OTHER_LAYOUTS):
            library.impl(name, _refused(name, key), key)
        library.m.impl("scaled_dot_product_attention", "AutogradCUDA", attention.scaled_dot_product_attention, False)
    _serve_libraries()


def _serve_libraries() -> None:
    """Let operators that come with a library run on the host, which has been compiled with kernels for a GPU."""
    load = ops.load_library

    def load_library(path: Any) -> None:
        before = set(C._dispatch_get_all_op_names())
        load(path)
        for full in set(C._dispatch_get_all_op_names()) - before:
            if C._dispatch_has_kernel_for_dispatch_key(full, "CUDA"):
                _serve(full)

    ops.load_library = load_library


def _serve(full: str) -> None:
    namespace, _, name = full.partition("::")
    base, _, kind = name.partition(".")
    op: Any = getattr(getattr(getattr(ops, namespace), base), kind or "default")
    library: Any = torch.library.Library(namespace, "IMPL")
    _libraries.append(library)
    run = kernels.kernel(op) if C._dispatch_has_kernel_for_dispatch_key(full, "CPU") else _not_on_host
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.m.impl(name, "CUDA", run, False)


def _compiled(keys: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the operators of torch's for which its CUDA library has kernels at some of the keys, and at which."""
    if not CUDA_LIBRARY:
        return []
    names = (full[len("aten::") :] for full in C._dispatch_get_all_op_names() if full.startswith("aten::"))
    return [(name, key) for name in names for key in keys if has_kernel(name, key)]


def _served() -> list[str]:
    """Names of the operators that have a kernel on a GPU and one on the host."""
    names = [name for name in kernels.OPERATORS if native_functions.on_device(kernels.OPERATORS, name)]
    known = set(names)
    names += [name for name, _ in _compiled(("CUDA",)) if name not in known]
    return [name for name in names if CUDA_LIBRARY or _on_host(name)]


def _on_host(name: str) -> bool:
    keys = ["CPU", "CompositeExplicitAutograd"]
    if CUDA_LIBRARY:  # elsewhere torch comes to what an operator is made of by itself
        keys.append("CompositeImplicitAutograd")
    return any(has_kernel(name, key) for key in keys)


def _not_on_host(*_: Any, **__: Any) -> Any:
    raise Unsupported("this operator has GPU kernels only, which the simulated device cannot run")


def _special() -> dict[str, Kernel]:
    special: dict[str, Kernel] = {
        "copy_": copies.copy_,
        "resize_": storages.resize_,
        "convolution": convolution.convolution,
        "scaled_dot_product_attention": attention.scaled_dot_product_attention,
        "_fused_sdp_choice": always(0),
        "_thnn_fused_lstm_cell": recurrent.lstm_cell,
        "_thnn_fused_lstm_cell_backward_impl": recurrent.lstm_cell_backward,
        "_thnn_fused_gru_cell": recurrent.gru_cell,
        "_thnn_fused_gru_cell_backward": recurrent.gru_cell_backward,
        "_efficientzerotensor": _zeros,
        # TransformerEncoder asks before it makes a nested tensor, which no capsule could hold.
        "_nested_tensor_from_mask_left_aligned": always(False),
        "record_stream": memory.use,
    }
    for name in ("_use_miopen_ctc_loss", "_use_cudnn_ctc_loss"):
        special[name] = special[name + ".Tensor"] = always(False)
    for name in storages.METADATA_ONLY:
        op = overload(name)
        if op is not None:
            special[name] = storages.redispatched(op)
    for name in (*indexing.READS, *indexing.WRITES):
        op = overload(name)
        if op is not None:
            special[name] = indexing.checked_indexing(name, kernels.kernel(op, check="none"))
    for name in masking.NAMES:
        special[name] = masking.checked_filling(kernels.kernel(overload(name), check="none"))
    for name, run in (*attention.KERNELS.items(), *half.kernels().items()):
        op = overload(name)
        if op is not None:
            special[name] = kernels.kernel(op, run=run)
    for name in kernels.OPERATORS:
        op = overload(name) if name.startswith("_foreach_") else None
        if op is not None and _on_host(name):
            special[name] = lists.paired(op, kernels.kernel(op, check="none"))
    return {name: run for name, run in special.items() if overload(name) is not None}


def _zeros(size: list[int], dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
    """Zeros with memory under them: torch's tensors without any are none that a capsule could hold."""
    index = STATE.current if device is None or device.index is None else device.index
    return to_device(torch.zeros(size, dtype=dtype, device=HOST), index)


def _fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Serve operators of other libraries, which are registered after us, by their host kernels."""
    name = op._schema.name
    if C._dispatch_has_kernel_for_dispatch_key(op.name(), "CPU"):
        if not name.startswith("aten::"):
            if op not in _of_others:
                _of_others[op] = kernels.kernel(op)
            return _of_others[op](*args, **kwargs)
        raise NotImplementedError(
            f"Could not run '{op.name()}' with arguments from the 'CUDA' backend. This could be because the operator "
            "doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom "
            "build)."
        )
    raise Unsupported(f"{op.name()} has no kernel that the simulated device can run")


def _unsupported(key: str) -> Kernel:
    def run(op: Any, *_: Any, **__: Any) -> Any:
        _refused(op.name(), key)()

    return run


def _refused(name: str, key: str) -> Kernel:
    def run(*_: Any, **__: Any) -> Any:
        raise Unsupported(f"{name} on {key}: the simulated device supports dense tensors only")

    return run
