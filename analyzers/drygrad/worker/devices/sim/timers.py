"""The timers of ``DistributedDataParallel``, which a torch with CUDA would start on a real GPU.

A build without CUDA has none for this device, and its reducer does without. Torch keeps them in a hash map by the type
of a device: there the entry gets a key that no device has.
"""

from __future__ import annotations

import ctypes

from drygrad.worker.devices.sim.internals import CUDA_LIBRARY, shared_library

_REGISTRY = "_ZN4c10d13TimerRegistryEv"
_CUDA, _NOBODY = 1, 0x7F  # c10::DeviceType
_FIRST, _SIZE = 2, 3  # of the words of a std::unordered_map: its first node, and how many it has
_MOST = 8


def forget() -> None:
    """Take the timer of CUDA devices from torch's reducers, if it has one."""
    library = ctypes.CDLL(shared_library("torch_cpu"))
    if not CUDA_LIBRARY or not hasattr(library, _REGISTRY):
        return
    get = library[_REGISTRY]
    get.restype = ctypes.POINTER(ctypes.c_size_t)
    words = get()
    node = words[_FIRST]
    for _ in range(min(words[_SIZE], _MOST)):
        key = ctypes.c_int8.from_address(node + ctypes.sizeof(ctypes.c_void_p))
        if key.value == _CUDA:
            key.value = _NOBODY
            return
        node = ctypes.c_size_t.from_address(node).value
