"""The functions of a torch with CUDA that would ask the driver, taken away.

What the simulated device does without is then missing as from a torch without CUDA, whether there is a GPU or not.
"""

from __future__ import annotations

import sys

from drygrad.worker.devices.sim.cuda_api.refusals import refusing
from drygrad.worker.devices.sim.internals import CUDA_LIBRARY, C

_REACHING = ("_cuda_", "_nccl_")
_HARMLESS = ("_cuda_tunableop_", "_cuda_record_untuned_", "_cuda_get_cudnn_", "_cuda_set_cudnn_", "_nccl_version")
"""What reads or keeps settings only."""
_OTHERS = ("_cuda_getCompiledVersion", "_cuda_lock_mutex", "_cuda_unlock_mutex")


def functions() -> dict[str, object]:
    """Return what ``torch._C`` has now, by name."""
    return dict(C.__dict__)


def forget(before: dict[str, object]) -> None:
    """Remove what would reach a driver and is still what it was before; refuse where torch has bound it elsewhere."""
    if not CUDA_LIBRARY:
        return
    names = [name for name, value in functions().items() if _reaches_a_driver(name) and before.get(name) is value]
    for module in [module for path, module in sys.modules.items() if path.startswith("torch.cuda")]:
        for name in names:
            if name in vars(module):
                setattr(module, name, refusing("CUDA runtime"))
    for name in names:
        delattr(C, name)


def _reaches_a_driver(name: str) -> bool:
    return name.startswith(_REACHING) and not name.startswith(_HARMLESS) and name not in _OTHERS
