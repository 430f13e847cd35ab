"""Hooks that pile up: registered on the same module again and again, with work in between, and never removed."""

from __future__ import annotations

import functools
import weakref
from collections import defaultdict
from types import CodeType
from typing import Any, ClassVar, NamedTuple

from torch.utils.hooks import RemovableHandle

from drygrad.worker.lines import Instruction
from drygrad.worker.run import Fault, Instrument, Run

_PILE = 3
"""Two may be meant: one for training, one for evaluation."""


class _Registered(NamedTuple):
    """A hook: the dictionary of its owner, its key there, who registered it, and how often others did before work."""

    hooks: weakref.ref[Any]
    key: int
    by: Instruction
    round: int


class PilingHooks(Instrument):
    """Takes note of the hooks that the user's code registers."""

    name: ClassVar[str] = "piling hooks"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._registered: list[_Registered] = []
        self._rounds = 0
        self._restore: Any = None

    def start(self) -> None:
        """Listen to the handles that torch gives for hooks."""
        handles: Any = RemovableHandle
        made = self._restore = handles.__init__

        @functools.wraps(made)
        def making(handle: Any, hooks_dict: Any, *args: Any, **kwargs: Any) -> None:
            made(handle, hooks_dict, *args, **kwargs)
            by = self.run.lines.here()
            if by is not None:
                self._rounds += self.run.op is not None
                self.run.op = None  # so that the next sees whether there was an operation in between
                self._registered.append(_Registered(handle.hooks_dict_ref, handle.id, by, self._rounds))

        handles.__init__ = making

    def finish(self) -> None:
        """Listen no more; report the lines whose hooks are still there, several on one module."""
        if self._restore is not None:
            handles: Any = RemovableHandle
            handles.__init__ = self._restore
        piles: dict[tuple[int, CodeType], list[_Registered]] = defaultdict(list)
        for one in self._registered:
            hooks = one.hooks()
            code = _code_of(hooks.get(one.key)) if hooks is not None else None
            if code is not None and self.run.lines.is_user(code):
                piles[id(hooks), code].append(one)
        for pile in piles.values():
            if len({one.round for one in pile}) >= _PILE:
                message = f"{len(pile)} copies of this hook are registered on the same object, and all of them run"
                self.run.report(Fault("DG510", message, self.run.lines.place(pile[-1].by)))


def _code_of(hook: Any) -> CodeType | None:
    while isinstance(hook, functools.partial):
        hook = hook.func
    call: Any = type(hook).__call__
    return getattr(getattr(hook, "__func__", hook), "__code__", None) or getattr(call, "__code__", None)
