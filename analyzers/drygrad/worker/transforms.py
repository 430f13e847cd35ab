"""Whether one of torch's function transforms is at work: ``vmap``, ``grad``, ``jvp``, ``functionalize``.

Inside them tensors stand for others, at levels that a dispatch mode cannot see; to read one there may even end the
process. So they are counted where torch enters and leaves them.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from drygrad.worker.run import Run

_VMAP, _EAGER = "torch._functorch.vmap", "torch._functorch.eager_transforms"
_LEVELS = (
    (_VMAP, "_vmap"),
    (_EAGER, "_grad"),
    (_EAGER, "_jvp"),
    (_EAGER, "_func"),
    ("torch._C", "_vmapmode"),
)


@contextmanager
def counted(run: Run) -> Generator[None]:
    """Keep ``run.transforms`` at the number of transforms that are at work, inside the block."""
    originals: list[tuple[Any, str, Any]] = []
    for module_name, level in _LEVELS:
        module: Any = sys.modules.get(module_name)
        for change, name in ((1, f"{level}_increment_nesting"), (-1, f"{level}_decrement_nesting")):
            original: Any = getattr(module, name, None)
            if original is not None:
                originals.append((module, name, original))
                setattr(module, name, _counting(run, original, change))
    try:
        yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)


def is_within_one() -> bool:
    """Say whether a transform is at work that was entered before anything counted."""
    functorch: Any = getattr(sys.modules["torch"]._C, "_functorch", None)
    peek = getattr(functorch, "peek_interpreter_stack", None)
    return peek is not None and peek() is not None


def _counting(run: Run, original: Any, change: int) -> Any:
    @wraps(original)
    def counting(*args: Any, **kwargs: Any) -> Any:
        level = original(*args, **kwargs)
        run.transforms += change
        return level

    return counting
