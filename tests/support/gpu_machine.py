"""The machine with a GPU that ``tests/gpu`` runs on."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from worker_client import WorkerClient

STAND_IN = os.environ.get("DRYGRAD_GPU_STAND_IN", "")
"""``sim`` has the simulated device stand in for the GPU, to try the tests themselves."""


class Machine(NamedTuple):
    """A worker, what it said of itself, and the device that its runs take for the real one."""

    worker: WorkerClient
    ready: dict[str, Any]
    real: str
