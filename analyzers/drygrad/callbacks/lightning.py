"""For Lightning: ``Trainer(callbacks=[DryRun()])``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from drygrad.callbacks.rehearsal import DryRunFailed, Rehearsal

if TYPE_CHECKING:
    Callback = object
elif "lightning" not in sys.modules and "pytorch_lightning" in sys.modules:
    from pytorch_lightning.callbacks import Callback
else:
    try:
        from lightning.pytorch.callbacks import Callback
    except ImportError:
        from pytorch_lightning.callbacks import Callback

__all__ = ["DryRun", "DryRunFailed"]


class DryRun(Callback):
    """Dry-runs the job's own command before ``fit`` begins, on one rank; raises DryRunFailed where it finds a fault."""

    def __init__(self, fail_on: str = "error", device: str = "sim", timeout: float = 60.0) -> None:
        self._rehearsal = Rehearsal(fail_on, device, timeout)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Hear that something begins."""
        del pl_module
        if stage == "fit" and trainer.is_global_zero:
            self._rehearsal.hold()
