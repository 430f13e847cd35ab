"""What a run may claim: an error only where inputs and surroundings were the program's own, or do not matter.

Every fault of every code passes ``claim``. With invented inputs, an error of shapes, dtypes, devices or of what kind of
thing an argument is says nothing about the code: other inputs might have fitted. It stands only where it is the error
that the search found to be the same whatever was invented. A fault of values, or of an object that was invented, is a
hint that names the invention. Faults of structure, such as writes in place or a graph that was cut, stay; a code that
is not said to be one of those is none.

Where a call gives the inputs, but something before it that may have changed them or their surroundings was left out,
all but the faults of structure are hints: a list may have been empty that the program fills before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from drygrad.dryrun.inputs.bare import SOURCE as WITHOUT_CONSTRUCTOR
from drygrad.dryrun.plan import Missing, Plan
from drygrad.dryrun.result import Fault, Place, Result

OF_FIT = frozenset(
    "DG201 DG203 DG204 DG205 DG301 DG303 DG309 DG310 DG313 DG314 DG315 DG317 DG324 DG325 DG326 DG327 DG329 "
    "DG507 DG604 DG805 DG813 DG907".split()
)
"""Codes of faults that other shapes, dtypes, devices or arguments could have kept from happening, or another thread."""

OF_VALUES = frozenset(
    "DG112 DG114 DG302 DG304 DG305 DG307 DG308 DG311 DG316 DG319 DG401 DG402 DG403 DG404 DG405 DG406 DG407 DG408 "
    "DG409 DG410 DG411 DG413 DG419 DG420 DG421 DG423 DG715 DG738 DG739 DG806".split()
)
"""Codes of faults that depend on the values, on whether these are probabilities, or on which objects go together."""

OF_STRUCTURE = frozenset(
    "DG101 DG102 DG103 DG105 DG106 DG107 DG108 DG110 DG113 DG116 DG117 DG118 DG119 DG123 DG206 DG207 DG211 DG213 "
    "DG328 DG334 DG501 DG502 DG506 DG508 DG510 DG602 DG609 DG620 DG621 DG701 DG703 DG704 DG707 DG708 DG709 DG722 "
    "DG724 DG727 DG741 DG743 DG744 DG754 DG769 DG777 DG818 DG901 DG902 DG903".split()
)
"""Codes of faults of the code itself, whatever it is given, and of what a run says of itself."""

_MAKING_VALUES = frozenset(("DG922",))
"""Relations that are tried with values of drygrad's own, such as the edges of what is legal."""
_WITHOUT_STATE = frozenset(("DG921", "DG922"))
"""Relations that say something of objects, too, that never were constructed: of where tensors are, and of values."""
_MEETINGS = frozenset(("DG201", "DG205"))
_WITHOUT_GRAPH = "DG106"
_BROADCAST, _MISMATCH = "DG303", "Mismatch"
"""The fault behind a failure of a search that is no error: the sides of a loss that differ in shape."""
_ERROR = "DG907"
_OF_ITS_DATA = frozenset(("DG302", "DG304", "DG305"))
"""Codes that show with any data of the right classes: labels out of range, activations that a loss applies itself."""
_TOO_LARGE, _HALF = "DG409", re.compile(r"float16|half")
_ABSENT = frozenset(("SystemExit", "FileNotFoundError"))
_WHATEVER_STATE = frozenset(
    "AttributeError TypeError ImportError ModuleNotFoundError NotImplementedError SyntaxError RecursionError "
    "FileNotFoundError SystemExit".split()
)
"""Errors that a program's state hardly has a part in, unless it is ``None`` that is met."""
_ABSENT_VALUE = "NoneType"
_UNPREPARED = "with inputs as they are before the program has changed them"


def is_invented(plan: Plan) -> bool:
    """Say whether the inputs of a run were searched."""
    return plan.proposal is not None


def is_bare(result: Result) -> bool:
    """Say whether the object was made without its constructor, and holds what was invented for it."""
    return any(WITHOUT_CONSTRUCTOR in entry.get("source", "") for entry in _inputs(result))


def is_confirmed(fault: Fault, plan: Plan) -> bool:
    """Say whether the program itself has shown a fault: not an experiment whose values, or inputs, were made up."""
    relation = fault.facts.get("relation")
    return not relation or not (relation in _MAKING_VALUES or is_invented(plan) or plan.partial)


def rests_on_inputs(code: str, plan: Plan, result: Result) -> bool:
    """Say whether a fault may owe itself to inputs that the program does not have: invented, or not prepared."""
    if plan.partial and (code in OF_VALUES or code == _ERROR):
        return True
    return is_invented(plan) and _is_of_values(code, result)


def claimed(faults: Iterable[Fault], plan: Plan, result: Result) -> Iterator[Fault]:
    """Yield the faults that a run may report, as it may report them."""
    for fault in faults:
        claim = _claim(fault, plan, result)
        if claim is not None:
            yield claim


def _claim(fault: Fault, plan: Plan, result: Result) -> Fault | None:
    """Return a fault as a run may report it; None where what was not the program's own could be all there is to it."""
    missing = _stood_in(fault)
    if missing is not None:
        return replace(fault, severity="hint", message=f"{fault.message} (with a stand-in for {missing})")
    if fault.facts.get("relation"):
        known = not is_bare(result) or fault.facts.get("relation") in _WITHOUT_STATE
        return _of_experiment(fault, plan) if known else None
    weak = rests_on_inputs(fault.code, plan, result) or is_bare(result)
    if is_invented(plan):
        sure = _is_sure(fault, result)
        if sure and not (weak and plan.partial):
            return _assuming(fault, str(_search(result).get("assumes") or ""))
        if not sure and _is_of_fit(fault):
            return None
    left = _loop_left(fault)
    if weak or left is not None:
        caller = passed_on_by(result)
        invented = f"with inputs that `{caller}` passes on" if caller else f"with invented inputs: {written(result)}"
        of_inputs = _UNPREPARED if plan.partial else invented
        why = of_inputs if weak else f"after the loop on line {left}, which a dry run leaves early"
        return replace(fault, severity="hint", message=f"{fault.message} ({why})")
    return fault


def _stood_in(fault: Fault) -> str | None:
    """Return what something stood in for on which a fault may rest; None where it does not.

    The labels of a known data set are those of its classes, whatever they are of.
    """
    known = _object(fault.facts.get("stood_in"))
    if not known or (fault.code in OF_STRUCTURE and not fault.facts.get("relation")):
        return None
    if known.get("exact") and (_is_of_fit(fault) or fault.code in _OF_ITS_DATA) and fault.code != _ERROR:
        return None
    return str(known.get("name"))


def _of_experiment(fault: Fault, plan: Plan) -> Fault:
    """Return the fault of a relation that is broken: it was tried where it is owed; in doubt it is no error."""
    doubtful = is_invented(plan) or plan.partial
    return replace(fault, severity="warning") if doubtful and fault.severity == "error" else fault


def _loop_left(fault: Fault) -> int | None:
    """Return which loop a run has left early before a fault that may owe itself to that.

    For faults of values a whole loop must lie behind; of what comes between two of its passes the program has as few.
    """
    left = _object(fault.facts.get("loop_left"))
    if fault.code == _ERROR:
        stands = fault.facts.get("type") in _WHATEVER_STATE and _ABSENT_VALUE not in fault.message
    else:
        stands = fault.code not in OF_VALUES or left.get("for_good") is not True
    return None if stands else left.get("line")


def _is_sure(fault: Fault, result: Result) -> bool:
    """Say whether a fault is the very error that the search met, whatever it invented, or one like it behind that."""
    if not _is_independent(result):
        return False
    if fault.facts.get("behind"):
        return True
    if _object(_search(result).get("error")).get("type") == _MISMATCH:
        return fault.code == _BROADCAST
    return fault.severity == "error" and _is_the_end(fault, result)


def _is_the_end(fault: Fault, result: Result) -> bool:
    """Say whether a fault tells of the error that ended the run."""
    if result.error is None:
        return False
    ended = _line(result.error.at)
    return any(_line(place) == ended for place in (fault.at, *(place for _, place in fault.related)))


def _is_of_fit(fault: Fault) -> bool:
    """Say whether other inputs could have kept a fault from happening; a graph that nobody cut may begin in them."""
    if fault.code == _WITHOUT_GRAPH:
        return not fault.facts.get("cut")
    return fault.code not in OF_STRUCTURE | OF_VALUES


def _is_of_values(code: str, result: Result) -> bool:
    """Say whether a fault depends on invented values; for a number too large for float16: on what is invented so."""
    if code == _TOO_LARGE:
        return _HALF.search(written(result)) is not None
    return code in OF_VALUES


def _assuming(fault: Fault, assumption: str) -> Fault:
    """Return the fault, as a warning that names what it takes for granted."""
    if not assumption or fault.code in OF_STRUCTURE:
        return fault
    return replace(fault, severity="warning", message=f"{fault.message} (if {assumption})")


def settled(plan: Plan, result: Result) -> Result:
    """Return the result, as failed where it is the code that ended the run, and not the want of inputs."""
    if result.outcome != "no-inputs" or result.error is None or not is_invented(plan):
        return result
    own = any(
        _is_the_end(fault, result)
        for fault in result.faults
        if fault.severity == "error" and not _is_of_fit(fault) and not _is_of_values(fault.code, result)
    )
    return replace(result, outcome="failed") if own else result


def _line(place: Place | None) -> tuple[str, int] | None:
    return (place.path, place.line) if place is not None else None


def not_found(plan: Plan, result: Result) -> Missing | None:
    """Return what could not be built, with the best proposal; None where the run had inputs to run with."""
    if not is_invented(plan) or _is_independent(result):
        return None
    if result.outcome != "no-inputs":
        return None
    search = _search(result)
    why = str(search.get("why") or "the run failed with all inputs that were tried")
    line = result.error.at.line if result.error is not None and result.error.at is not None else None
    where = f" on line {line}" if line else ""
    names = tuple(entry["name"] for entry in _inputs(result))
    part = _unbuilt(search)
    end = f"`{part}` cannot be created: {why}" if part else f"the best ended{where} with {why}"
    message = f"found no inputs that `{plan.target.qualname}` runs with; {end}"
    return Missing(plan.target, message, plan.target.name_span, names, comment=written(result))


def _unbuilt(search: Mapping[str, Any]) -> str:
    """Return the name of the input that could not even be made."""
    building = search.get("building")
    return str(cast("list[object]", building)[0]) if isinstance(building, list) and building else ""


def is_unmade(plan: Plan, result: Result) -> bool:
    """Say whether a call in the target's file did not come to be, or not in the state that the program has it in.

    What it needs is not in the file: arguments of the command line, data, the network, what a loop would fill. An error
    of the call's own inputs is none of these.
    """
    if plan.target.function is None or not plan.input_sources & {"call"} or plan.elsewhere is not None:
        return False
    if result.data.get("called") is not True:
        absent = result.error is not None and result.error.type in _ABSENT
        return result.outcome in ("blocked", "no-inputs") or (result.outcome == "failed" and absent)
    weak = (fault.code in OF_VALUES or fault.code == _ERROR for fault in result.faults)
    return plan.partial and result.outcome == "failed" and all(weak)


def is_without_inputs(plan: Plan, result: Result) -> bool:
    """Say whether what was to give the inputs has not: a call that cannot be made, a program that does not come to it.

    However the program ends before that, it is nothing that the target has done.
    """
    if result.outcome in ("no-inputs", "cancelled") or result.data.get("called") is True:
        return result.outcome == "no-inputs"
    absent = result.outcome == "blocked" or (result.error is not None and result.error.type in _ABSENT)
    return plan.program is not None or (plan.elsewhere is not None and absent)


def is_of_devices(result: Result) -> bool:
    """Say whether a run ended because tensors lie on different devices."""
    errors = [fault for fault in result.faults if fault.severity == "error"]
    return result.outcome == "failed" and bool(errors) and all(fault.code in _MEETINGS for fault in errors)


def was_found(result: Result) -> bool:
    """Say whether a search has found inputs that the target runs with, and that can be written down."""
    return _search(result).get("found") is True and not passed_on_by(result)


def passed_on_by(result: Result) -> str:
    """Return the function that has passed the inputs on, none of which can be written down; empty where none has."""
    return str(_search(result).get("through") or "")


def written(result: Result) -> str:
    """Return the inputs of a searched run as a ``# dry-run:`` comment has them."""
    return ", ".join(f"{entry['name']}={entry['text']}" for entry in _inputs(result))


def _is_independent(result: Result) -> bool:
    return _search(result).get("independent") is True


def _search(result: Result) -> Mapping[str, Any]:
    return _object(result.data.get("search"))


def _object(found: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _inputs(result: Result) -> list[Mapping[str, str]]:
    entries = _search(result).get("inputs")
    if not isinstance(entries, list):
        return []
    found = (cast("Mapping[str, str]", e) for e in cast("list[object]", entries) if isinstance(e, Mapping))
    return [entry for entry in found if isinstance(entry.get("name"), str) and isinstance(entry.get("text"), str)]
