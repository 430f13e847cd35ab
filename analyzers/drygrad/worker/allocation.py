"""How this process takes memory from the system and gives it back."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of malloc.h
_LARGEST = 32 << 20  # the most that glibc takes for its threshold
_KEPT = 512 << 20
_AHEAD = 16 << 20


def keep_freed_memory() -> None:
    """Let glibc use again what was freed, where it would give it back to the system and take the page faults anew.

    Each training step frees and takes the same memory. What is kept is bounded, and goes with the run.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in ((_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, _KEPT), (_TOP_PAD, _AHEAD)):
            mallopt(parameter, value)
