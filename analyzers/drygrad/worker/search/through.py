"""Inputs that another function of the program passes on: it is called until it comes to the target, and no further."""

from __future__ import annotations

import inspect
import sys
from types import CodeType, FrameType
from typing import Any, Callable

import torch

from drygrad.worker.elsewhere import CallFailed
from drygrad.worker.inputs import Given


class Reached(BaseException):
    """The target is about to run; no handler of the user's shall catch it."""

    def __init__(self, frame: FrameType) -> None:
        super().__init__()
        self.given = inspect.getargvalues(frame)
        self.code = frame.f_code
        self.grad = torch.is_grad_enabled()


class NotReached(Exception):
    """A function that could have called the target has come to its end without."""


def code_of(names: dict[str, Any], target: str) -> CodeType | None:
    """Return the code of a function or method by its name; None where it has none of Python's."""
    found: Any = names.get(target.partition(".")[0])
    for part in target.split(".")[1:]:
        found = inspect.getattr_static(found, part, None) if found is not None else None
    if isinstance(found, property):
        found = found.fget
    found = getattr(found, "__func__", found)
    code = getattr(inspect.unwrap(found) if callable(found) else None, "__code__", None)
    return code if isinstance(code, CodeType) else None


def passed_on(work: Callable[[], Any], code: CodeType) -> Reached:
    """Return what a function is called with while something else runs. Raises what that raises before."""

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is code:
            sys.setprofile(None)
            raise Reached(frame)

    sys.setprofile(watch)
    try:
        work()
    except Reached as reached:
        return reached
    finally:
        sys.setprofile(None)
    raise NotReached("it has not called the target")


def given_by(given: inspect.ArgInfo, code: CodeType, receiver: str | None, source: str) -> tuple[Any, list[Given]]:
    """Return the object and the arguments of a call, of what the function's frame has where it begins."""
    names, rest, named, values = given
    count = code.co_argcount
    told = [(name, "", values[name]) for name in names[:count]]
    owner = None
    if receiver is not None and told and told[0][0] == receiver:
        owner = told.pop(0)[2]
    positional = bool(rest and values[rest])
    found: list[Given] = [({"name": "" if positional else n, "star": s, "source": source}, v) for n, s, v in told]
    if rest and positional:
        found.append(({"name": rest, "star": "*", "source": source}, values[rest]))
    found += [({"name": name, "star": "", "source": source}, values[name]) for name in names[count:]]
    if named and values[named]:
        found.append(({"name": named, "star": "**", "source": source}, values[named]))
    return owner, found


def wanted(names: dict[str, Any], target: str) -> CodeType:
    """Return the code that is waited for. Raises CallFailed where the target has none."""
    code = code_of(names, target)
    if code is None:
        raise CallFailed(f"`{target}` is not a Python function, so its calls cannot be observed")
    return code
