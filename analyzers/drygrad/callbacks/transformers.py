"""For Transformers: ``Trainer(callbacks=[DryRun()])``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drygrad.callbacks.rehearsal import DryRunFailed, Rehearsal

if TYPE_CHECKING:
    TrainerCallback = object
else:
    from transformers import TrainerCallback

__all__ = ["DryRun", "DryRunFailed"]


class DryRun(TrainerCallback):
    """Dry-runs the job's own command before ``train`` begins, on one rank; raises DryRunFailed at a fault."""

    def __init__(self, fail_on: str = "error", device: str = "sim", timeout: float = 60.0) -> None:
        self._rehearsal = Rehearsal(fail_on, device, timeout)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Hear that training begins."""
        del args, control
        if state.is_world_process_zero:
            self._rehearsal.hold()
