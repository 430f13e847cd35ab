"""What torch's libraries for shards allocate for the exchange between ranks, by the functions of theirs that do so."""

from __future__ import annotations

import sys
from typing import Any

from drygrad.worker.forecast.events import GRADIENTS, PARAMETERS

_GATHERED = PARAMETERS, "parameters on their way from other ranks"
_REDUCED = GRADIENTS, "gradients on their way to other ranks"
_BUFFERS = {
    ("_fsdp_collectives.py", "foreach_all_gather"): _GATHERED,
    ("_fsdp_collectives.py", "foreach_reduce"): _REDUCED,
    ("_runtime_utils.py", "_get_reduce_scatter_tensors"): _REDUCED,
}
"""``fully_shard`` has its own folder; ``FullyShardedDataParallel`` gathers into the parameter itself."""
_FOLDER = "/distributed/fsdp/"
_NAMES = frozenset(name for _, name in _BUFFERS)
_DEPTH = 24


def buffer() -> tuple[str, str] | None:
    """Return the kind and the name of a buffer that is allocated right now; None of anything else."""
    frame: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    for _ in range(_DEPTH):
        if frame is None:
            return None
        code = frame.f_code
        if code.co_name in _NAMES and _FOLDER in code.co_filename.replace("\\", "/"):
            return _BUFFERS.get((code.co_filename.replace("\\", "/").rpartition("/")[2], code.co_name))
        frame = frame.f_back
    return None
