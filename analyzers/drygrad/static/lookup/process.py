"""The helper process: reads questions as JSON lines, answers them as JSON lines, ends with its input.

A request is ``{"id", "path", "root", "interpreter_paths", "names", "seconds", "each"}``; its answer is ``{"id",
"answers", "late", "errors"}``, where ``late`` lists the names that time did not suffice for. With ``users_of``, a name
that the file defines, in the place of ``names``, the answer is ``{"id", "users"}``; with ``dependents_of`` it is
``{"id", "dependents"}``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import IO, Any

from drygrad.static.lookup import guard
from drygrad.static.lookup.answers import Answer, Question
from drygrad.static.lookup.dependents import Dependents
from drygrad.static.lookup.light import Definition, Search, look_up_light
from drygrad.static.lookup.modules import Modules
from drygrad.static.lookup.users import Defined, Reference, Users

LIGHT_SHARE = 0.5


class _Late(BaseException):
    """The bound of one question is over; no Exception, since jedi catches those."""


def main() -> None:
    """Serve until the input ends."""
    _die_with_parent()
    reader, writer = sys.stdin.buffer, private_output()
    guard.install(_own_packages())
    for line in reader:
        request = json.loads(line)
        answer = next((answer for asked, answer in _ANSWERS.items() if asked in request), reply_to)
        reply = {"id": request["id"], **answer(request)}
        writer.write(json.dumps(reply).encode() + b"\n")
        writer.flush()


def private_output() -> IO[bytes]:
    """Take the standard output for the wire, and send what anything prints to the standard error instead."""
    wire = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return wire


def _own_packages() -> Iterator[Path]:
    yield Path(__file__).resolve().parents[2]
    for name in ("jedi", "parso", "typing_extensions"):
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)


def _die_with_parent() -> None:
    """On Linux, end even in the midst of a question when the server is killed."""
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - only here, and only on Linux

    set_parent_death_signal = 1
    with suppress(OSError):
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


@lru_cache(maxsize=8)
def _modules(root: str, interpreter_paths: tuple[str, ...]) -> Modules:
    return Modules(Path(root), interpreter_paths)


def reply_to(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request: the light look-up for all names, then jedi for those that it left open."""
    end = time.monotonic() + request["seconds"]
    modules = _modules(request["root"], tuple(request["interpreter_paths"]))
    path, names = Path(request["path"]), list[str](request["names"])
    results = look_up_light(modules, path, names, request["seconds"] * LIGHT_SHARE)
    modules.deadline = float("inf")
    late = [name for name in names if name not in results]
    errors: list[str] = []
    answers = {name: result.answer.to_json() for name, result in results.items()}
    for name in (name for name, result in results.items() if not result.decided):
        try:
            with _bound(min(request["each"], end - time.monotonic())):
                answers[name] = _deep(modules, path, Question(name), results[name].answer).to_json()
        except _Late:
            late.append(name)
        except Exception:  # noqa: BLE001 - jedi fails in many ways on unfinished code; the server logs the reason
            errors.append(traceback.format_exc(limit=-3))
    return {"answers": answers, "late": late, "errors": errors}


def _deep(modules: Modules, origin: Path, question: Question, answer: Answer) -> Answer:
    """Ask jedi, and return to the light look-up with the place that it names."""
    from drygrad.static.lookup.deep import infer  # noqa: PLC0415 - jedi takes time and memory that most files never need

    paths = [str(path) for path in modules.installed]
    found = infer(question, origin, modules.root, paths, called=answer.kind == "function")
    if found is None or found.path is None:
        return answer
    search = Search(modules, origin)
    target = search.definition_at(found.path, found.name)
    if not isinstance(target, Definition):
        return answer
    described = search.describe(target).answer
    if found.kind == "instance" and described.kind == "class":
        kind = "instance" if answer.kind == "unknown" else answer.kind
        return replace(
            answer,
            kind=kind,
            bases=described.bases,
            complete=described.complete,
            returns=described.full_name,
        )
    return answer if answer.kind == "function" else described


def users_of(request: dict[str, Any]) -> dict[str, Any]:
    """Answer which files of the workspace use what a file defines."""
    until = time.monotonic() + request["seconds"]
    users = _users(request["root"], tuple(request["interpreter_paths"]))
    defined = Defined(Path(request["path"]), request["users_of"])
    return {"users": [user.to_json() for user in users.of(defined, until, partial(_defined, users.modules, until))]}


def dependents_of(request: dict[str, Any]) -> dict[str, Any]:
    """Answer which files of the workspace come to what a file defines."""
    until = time.monotonic() + request["seconds"]
    modules = _modules(request["root"], tuple(request["interpreter_paths"]))
    function: str = request["dependents_of"]
    at = Defined(Path(request["path"]), function.partition(".")[0])
    found = Dependents(modules, until).of(at, function)
    return {"dependents": [one.to_json() for one in found]}


_ANSWERS = {"users_of": users_of, "dependents_of": dependents_of}


@lru_cache(maxsize=8)
def _users(root: str, interpreter_paths: tuple[str, ...]) -> Users:
    return Users(_modules(root, interpreter_paths))


def _defined(modules: Modules, until: float, reference: Reference, origin: Path) -> tuple[Defined, str] | None:
    """Ask jedi where what a file refers to is defined, and in what module; None where it does not know in time."""
    from drygrad.static.lookup.deep import infer_at  # noqa: PLC0415 - as above

    modules.deadline = float("inf")
    try:
        with _bound(until - time.monotonic()):
            text, installed = origin.read_text("utf-8"), [str(path) for path in modules.installed]
            found = infer_at(text, reference.line, reference.column, origin, modules.root, installed)
    except _Late:
        return None
    except Exception:  # noqa: BLE001 - jedi fails in many ways on unfinished code; the name stays unknown
        return None
    finally:
        modules.deadline = until
    if found is None or found.path is None:
        return None
    return Defined(found.path, found.name), found.full_name.rpartition(".")[0]


@contextmanager
def _bound(seconds: float) -> Generator[None]:
    """Raise ``_Late`` when the time is over; where there are no timers, the server's own bound must do."""
    if seconds <= 0:
        raise _Late
    if not hasattr(signal, "setitimer"):
        yield
        return

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise _Late

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
