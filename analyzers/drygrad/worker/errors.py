"""From an error that left the user's code to a fault in one sentence, and to the outcome of the run."""

from __future__ import annotations

import dis
import logging
import os
import sys
import traceback
from typing import Any

from drygrad.worker import command_line, frames, surroundings
from drygrad.worker.absent_imports import absent_imports
from drygrad.worker.run import Fault, Instrument, Place, Run

MAX_MESSAGE = 300
_DETAIL = 4000
_MAX_STACK = 50
_CAUSES = 10
_MISSING_CUDA = (
    "Torch not compiled with CUDA enabled",
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "module 'torch._C' has no attribute '_cuda",
    "no accelerator device is detected",
    "built without USE_CUDA",
    "SyncBatchNorm layers only work with GPU modules",
)
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


def _absent(run: Run, place: Place | None) -> list[str]:
    """Return the modules that the target's file, that of an error, and what they import lack."""
    files = [run.lines.path, *([place.path] if place is not None else [])]
    return absent_imports(files, run.lines.text_of)


def settle(run: Run, instruments: list[Instrument], error: BaseException, called: Place | None = None) -> str:
    """Report the fault behind an error; return the outcome of the run. ``called`` is where the target begins."""
    place = run.lines.place_of_error(error) or _place_of_op(run) or called
    run.result["error"] = described(run, error, place)
    outcome = outcome_of(error, run)
    if outcome == "unsupported":
        if run.ranks is None and surroundings.wants_more_processes(error):
            run.result.setdefault("ranks", 2)
        ours = frames.is_ours(error)
        run.because(f"drygrad cannot trace what is called here ({type(error).__name__})" if ours else first_line(error))
        if ours:
            run.result["error"]["message"] = run.result["reason"]
        return outcome
    if outcome == "missing-package":
        run.result["reason"] = surroundings.missing_package(error, _absent(run, place))
        run.result["error"].update(type=outcome, message=f"cannot run here: {run.result['reason']}")
        return outcome
    if outcome == "no-inputs":
        sentence = shortened(str(command_line.misused(error)))
        run.because(sentence)
        run.report(Fault("DG901", sentence, place, detail=command_line.usage(error) or None))
        return outcome
    if outcome == "blocked":
        run.report(Fault("DG903", _blocked_sentence(error), place, detail=text_of(error)))
        return outcome
    fault = explained(instruments, error, place) or _cause(run, instruments, error) or user_error(error, place)
    fault.severity = "hint" if isinstance(error, FileNotFoundError) else "error"
    run.report(fault, error)
    return outcome


def _cause(run: Run, instruments: list[Instrument], error: BaseException) -> Fault | None:
    """Return the fault behind the error that the user's code has turned into this one (``raise ... from error``)."""
    cause = error.__cause__
    for _ in range(_CAUSES):
        if cause is None:
            return None
        fault = explained(instruments, cause, run.lines.place_of_error(cause))
        if fault is not None:
            return fault
        cause = cause.__cause__
    return None


def outcome_of(error: BaseException, run: Run) -> str:
    """Return how a run ends that an error has left."""
    kind = type(error)
    text = text_of(error)
    if any(one.__name__ == "Unsupported" and one.__module__.startswith("drygrad.") for one in kind.__mro__):
        return "unsupported"
    if frames.is_ours(error):
        return "unsupported"
    if run.device != "cuda" and any(phrase in text for phrase in _MISSING_CUDA):
        return "unsupported"
    if run.device == "sim" and _lacks_on_cpu(error, run):
        return "unsupported"
    if run.ranks is None and surroundings.wants_more_processes(error):
        return "unsupported"
    if command_line.misused(error) is not None:
        return "no-inputs"
    if surroundings.lacking(error) is not None:
        return "blocked"
    if surroundings.missing_package(error) is not None:
        return "missing-package"
    if isinstance(error, MemoryError) or kind.__name__ == "OutOfMemoryError":
        return "out-of-memory"
    if isinstance(error, RuntimeError) and any(phrase in text for phrase in _OUT_OF_MEMORY):
        return "out-of-memory"
    return "failed"


def _blocked_sentence(error: BaseException) -> str:
    return shortened(f"{surroundings.lacking(error)}: the run could not continue")


def explained(instruments: list[Instrument], error: BaseException, place: Place | None) -> Fault | None:
    """Ask the instruments, in their order, for the fault behind an error."""
    for instrument in instruments:
        try:
            fault = instrument.explain(error, place)
        except Exception as failure:  # noqa: BLE001 - an instrument that fails must not hide the user's error
            instrument.run.failed(instrument, failure, "failed to explain an error")
            continue
        if fault is not None:
            return fault
    return None


def user_error(error: BaseException, place: Place | None, what: str = "") -> Fault:
    """Return the fault for an error that nobody can explain: what it is, in its own words."""
    line = first_line(error)
    name = type(error).__name__
    if isinstance(error, SystemExit):
        sentence = f"the program exits with status {0 if error.code is None else line}"
    elif isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
        sentence = f"the run needs `{error.filename}`, which does not exist"
    elif isinstance(error, RecursionError):
        sentence = f"RecursionError: {line}: infinite recursion"
    elif name in ("RuntimeError", "AcceleratorError") and line:
        sentence = line
    else:
        sentence = f"{name}: {line}" if line else name
    return Fault("DG907", shortened(what + sentence), place, detail=_detail(error), facts={"type": name})


def _detail(error: BaseException) -> str | None:
    text = text_of(error).strip()
    return text[:_DETAIL] if text and text != first_line(error) else None


def _lacks_on_cpu(error: BaseException, run: Run) -> bool:
    """Say whether torch cannot do something on the CPU, which here stands in for the GPU that is wanted."""
    return isinstance(error, NotImplementedError) and is_torch_error(error, run) and "CPU" in first_line(error)


def is_torch_error(error: BaseException, run: Run) -> bool:
    """Say whether torch itself has raised an error: its Python part, or its native part in the user's line."""
    trace = error.__traceback__
    if trace is None or not isinstance(error, (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)):
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    if code.co_filename.startswith(_torch_folder()):
        return True
    if not isinstance(error, RuntimeError):
        return False
    ours = code.co_filename.startswith(os.path.dirname(os.path.abspath(__file__)))
    return ours or (run.lines.is_user(code) and not _raises(code, trace.tb_lasti))


def _raises(code: Any, offset: int) -> bool:
    """Say whether the instruction is a ``raise`` statement."""
    return dis.opname[code.co_code[offset]] in ("RAISE_VARARGS", "RERAISE")


def _torch_folder() -> str:
    torch: Any = sys.modules["torch"]
    return os.path.join(os.path.dirname(torch.__file__), "")


def _place_of_op(run: Run) -> Place | None:
    """Return the line that the operation in flight belongs to: an error in the engine passes no line of the user's."""
    return run.lines.place(run.op.instruction) if run.op is not None and run.op.phase == "backward" else None


def described(run: Run, error: BaseException, place: Place | None) -> dict[str, Any]:
    """Return the error as the result carries it, innermost place first."""
    stack: list[dict[str, Any]] = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        if run.lines.is_user(frame.f_code):
            stack.append({**Place(frame.f_code.co_filename, line)._asdict(), "function": frame.f_code.co_name})
    return {
        "type": type(error).__name__,
        "message": text_of(error)[:_DETAIL],
        "at": place._asdict() if place else None,
        "stack": stack[::-1][:_MAX_STACK],
    }


def text_of(error: BaseException) -> str:
    """Return an error's own words; a user's class may fail to give them."""
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - the user's __str__ may raise anything
        _log().info("an error without words: %r", failure)
        return ""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's words that says something."""
    return next((line.strip() for line in text_of(error).splitlines() if line.strip()), "")


def shortened(text: str, limit: int = MAX_MESSAGE) -> str:
    """Return a text of at most that many characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _log() -> logging.Logger:
    return logging.getLogger(__name__)
