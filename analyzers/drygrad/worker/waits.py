"""Proves that a wait never ends: every thread stands in one that has no timeout, and nobody is left to end it."""

from __future__ import annotations

import ast
import os
import queue
import threading
from types import FrameType
from typing import Any, NamedTuple

from drygrad.worker import processes
from drygrad.worker.lines import Instruction, Lines
from drygrad.worker.naming import looked_up

OURS = "drygrad"
"""The name of our own threads."""

_LOCKS: Any = (type(threading.Lock()), type(threading.RLock()))
_WAITS = {
    *((threading.__file__, name) for name in ("wait", "join", "acquire", "__enter__", "_wait_for_tstate_lock")),
    *((queue.__file__, name) for name in ("get", "put", "join")),
}
_TIMEOUTS = ("timeout", "block", "blocking")
_FOREVER: Any = (None, -1, True)


class Wait(NamedTuple):
    """What a thread waits for without end; the line that is to be changed, if it is another than where it stands."""

    reason: str
    culprit: Instruction | None = None


def endless(frames: dict[int, FrameType], lines: Lines, main: int) -> Wait | None:
    """Return what the main thread waits for without end; None where that is not proven.

    Where a thread holds the lock that it waits for, that is what all others wait for, too.
    """
    ours = {thread.ident for thread in threading.enumerate() if thread.name == OURS}
    if processes.children(os.getpid()):
        return None
    found = {ident: _wait(frame, lines) for ident, frame in frames.items() if ident not in ours}
    reason = found.get(main)
    if reason is None or not all(found.values()):
        return None
    holding = (_taken_twice(frames[ident], lines) for ident in found)
    return next(filter(None, holding), Wait(reason))


def _taken_twice(frame: FrameType, lines: Lines) -> Wait | None:
    """Return what a thread does inside ``with lock`` that waits for this very lock."""
    for expression in _awaited(frame, lines) if lines.is_user(frame.f_code) else ():
        lock = looked_up(expression, frame)
        outer = frame.f_back
        while outer is not None and isinstance(lock, _LOCKS):
            if lines.is_user(outer.f_code) and any(looked_up(held, outer) is lock for held in _held(outer, lines)):
                reason = f"waits forever for the lock {ast.unparse(expression)}, which it already holds"
                return Wait(reason, Instruction(outer.f_code, outer.f_lasti))
            outer = outer.f_back
    return None


def _held(frame: FrameType, lines: Lines) -> list[ast.expr]:
    """Return what the ``with`` statements hold in whose bodies a function stands."""
    place = lines.place(Instruction(frame.f_code, frame.f_lasti))
    source = lines.source(place.path) if place is not None else None
    tree = _parsed("".join(f"{line}\n" for line in source)) if source is not None else None
    if tree is None or place is None:
        return []
    around = (node for node in ast.walk(tree) if isinstance(node, ast.With))
    around = (node for node in around if node.body[0].lineno <= place.line <= (node.end_lineno or 0))
    return [item.context_expr for node in around for item in node.items]


def _wait(frame: FrameType, lines: Lines) -> str | None:
    if frame.f_code.co_filename == threading.__file__:
        return _of_threading(frame)
    return _of_lock(frame, lines) if lines.is_user(frame.f_code) else None


def _of_threading(frame: FrameType) -> str | None:
    """Recognise a wait inside the standard library's threads and queues, without a timeout."""
    what = None
    inner: FrameType | None = frame
    while inner is not None and (inner.f_code.co_filename, inner.f_code.co_name) in _WAITS:
        given = [inner.f_locals[name] for name in _TIMEOUTS if name in inner.f_locals]
        if any(value not in _FOREVER for value in given):
            return None
        what = f"waits forever in {type(inner.f_locals.get('self')).__name__}.{inner.f_code.co_name}()"
        inner = inner.f_back
    return what


def _of_lock(frame: FrameType, lines: Lines) -> str | None:
    """Recognise ``lock.acquire()`` and ``with lock`` of the user's, where the lock is held."""
    for expression in _awaited(frame, lines):
        lock = looked_up(expression, frame)
        if isinstance(lock, _LOCKS) and _is_held(lock):
            return f"waits forever for the lock {ast.unparse(expression)}"
    return None


def _awaited(frame: FrameType, lines: Lines) -> list[ast.expr]:
    """Return the expressions of the current line that a lock may be waited for in, if there is only one such place."""
    place = lines.place(Instruction(frame.f_code, frame.f_lasti))
    source = lines.source(place.path) if place is not None else None
    if place is None or source is None or not 0 < place.line <= len(source):
        return []
    text = lines.text(place) or source[place.line - 1].strip()
    tree = _parsed(text) or _parsed(text + " pass") or _parsed(source[place.line - 1].strip() + " pass")
    found: list[ast.expr] = []
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "acquire":
            if not node.args and not node.keywords:
                found.append(node.func.value)
        elif isinstance(node, ast.withitem):
            found.append(node.context_expr)
    if isinstance(tree, ast.Module) and len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr) and not found:
        found.append(tree.body[0].value)
    return found if len(found) == 1 else []


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text.strip())
    except SyntaxError:
        return None


def _is_held(lock: Any) -> bool:
    return lock.locked() if hasattr(lock, "locked") else False
