"""Results that are made outside the run: it crashed, hung, was cancelled, or could not begin."""

from __future__ import annotations

import os
import platform
import re
import signal
import sys
import traceback
from typing import Any

from drygrad.worker.run import Fault, Place
from drygrad.worker.wire import written

_FRAME = re.compile(r'^  File "(?P<path>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)
_MAX_STACK = 50


def base_result(plan: dict[str, Any]) -> dict[str, Any]:
    """Return what every result says of the run and of where it ran."""
    torch = sys.modules.get("torch")
    return {
        "device": plan.get("device", "cpu"),
        "seed": plan.get("seed", 0),
        "torch": str(getattr(torch, "__version__", "")),
        "python": platform.python_version(),
        "interpreter": sys.executable,
    }


def told(plan: dict[str, Any], outcome: str, *notes: str) -> dict[str, Any]:
    """Return a result that only has notes."""
    nothing = {"text": "", "cut": False}
    reason = notes[0] if notes else ""
    told = {"outcome": outcome, "faults": [], "notes": list(notes), "reason": reason, "output": nothing}
    return {**base_result(plan), **told}


def message(run: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return the message that carries a result; the answer is text, as those are that a run has written itself."""
    return {"type": "result", "run": run, "answer": written(result)}


def failed(plan: dict[str, Any], error: BaseException) -> dict[str, Any]:
    """Return the result of a run that drygrad's own code did not bring to its end."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(last.filename)}, line {last.lineno}"
    why = f"drygrad itself failed, please report it: {type(error).__name__}: {error} ({where})"
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return told(
        plan, "error", why, trace if os.environ.get("DRYGRAD_DEBUG") else "set DRYGRAD_DEBUG=1 for the traceback"
    )


def crashed(plan: dict[str, Any], status: int, dump: str) -> dict[str, Any]:
    """Return the result of a run whose process ended without one; ``dump`` is what faulthandler wrote."""
    stack = user_stack(dump, plan)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        why = f"the process was killed by {signal_name(number)}"
        if number == signal.SIGKILL:
            why += ", possibly because the system ran out of memory"
    else:
        why = f"the process exited with status {os.WEXITSTATUS(status)} before the run was over"
    at = Place(stack[0]["path"], stack[0]["line"])._asdict() if stack else None
    where = f" at line {at['line']}" if at else ""
    result = told(plan, "crashed", why + where)
    result["error"] = {"type": "crash", "message": why, "at": at, "stack": stack}
    return result


def overdue(plan: dict[str, Any], seconds: float, dump: str) -> dict[str, Any]:
    """Return the result of a run that could not even tell where it stands when its time was up."""
    stack = user_stack(dump, plan)
    at = Place(stack[0]["path"], stack[0]["line"]) if stack else None
    message = f"still in this line after {seconds:g} s; it blocks Python's other threads"
    fault = Fault("DG902", message, at, detail=dump.strip() or None)
    result = told(plan, "deadline", f"the run was stopped after {seconds:g} s")
    result["faults"] = [fault.as_json()] if at else []
    result["error"] = {"type": "deadline", "message": message, "at": at and at._asdict(), "stack": stack}
    return result


def signal_name(number: int) -> str:
    """Return the name of a signal: ``SIGSEGV``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def user_stack(dump: str, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the places of the user's in faulthandler's text, innermost first; those of the current thread."""
    threads = re.split(r"^(?=(?:Current thread|Thread) )", dump, flags=re.MULTILINE)
    best = max(threads, key=lambda text: ("Current thread" in text, _is_ours(text, plan)), default="")
    frames = [match.groupdict() for match in _FRAME.finditer(best)]
    users = [frame for frame in frames if _is_user(frame["path"], plan)][:_MAX_STACK]
    return [{**Place(f["path"], int(f["line"]))._asdict(), "function": f["function"]} for f in users]


def _is_ours(text: str, plan: dict[str, Any]) -> bool:
    return any(_is_user(match["path"], plan) for match in _FRAME.finditer(text))


def _is_user(path: str, plan: dict[str, Any]) -> bool:
    if path == plan.get("path"):
        return True
    root = os.path.join(plan.get("root") or "/nowhere", "")
    return path.startswith(root) and "site-packages" not in path
