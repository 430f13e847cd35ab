"""The tables of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from .judging import Outcome
from .programs import HELD_OUT, Case

NOTE = "<!-- Made by `make report`; do not edit. -->\n\n"
INTRODUCTION = """# How much is found

The corpus in `tests/corpus` has {count} programs with one fault each, and the repaired twin of each. The truth — the
line at which a colleague would change the program, and the rule that describes the fault, if there is one — stands in a
comment, and was established by execution, not by drygrad. Each program is checked and dry-run alone, as `drygrad run`
does it, on a GPU that is simulated where there is none, with more time to search and to try than the defaults give.

Only the held-out programs tell what to expect of code that drygrad has not met. The others have been read by those who
make the rules, so their figures say how much was learnt from them; the sets are not added up for that reason.

"""
ORIGINS = {
    "heldout": "written by authors who knew neither drygrad nor its rules, and not read while rules are made. Of the "
    "52 that came last, 11 of the first 32 and 10 of the next 20 were found when they were first examined",
    "blind": "written by such authors, too, but read since: rules were made after these programs, and the codes of "
    "some set to the new rule. When they were first measured, before that, 4 faults of the first 48 were found, "
    "40 of the next 64, 13 of 29 that had been held out and were drawn by lot to be learnt from, and 7 of the next 20",
    "informed": "written by somebody who knows the rules, one for each kind of fix. The truth of four of them "
    "(`char_lm_windows`, `class_balanced_focal`, `inverse_depth`, `point_cloud_attention`) was changed after a look at "
    "what drygrad said",
}
COLUMNS = """A fault counts as found only if a finding under its own code stands at the culprit's statement.

- **static**, **run**: found so by the check alone; by the dry run.
- **found**: by one or the other. **elsewhere**: the right code, but at another line, or with the culprit only as a
  related place.
- **fix**, **verified**: a fix is offered; one was tried in a run and holds. Whether it is the repair of the twin was
  not compared, and those of findings at another line count, too.
- **alarms**, **remarks**: errors and warnings, infos and hints, on the fixed twins: there is nothing to find.
- **ran**: fixed twins whose target got inputs and ran to its end.
"""

Results = Mapping[str, Outcome]
Column = tuple[str, Callable[[Outcome], int]]

TABLE: tuple[Column, ...] = (
    ("static", lambda o: o.static == "line"),
    ("run", lambda o: o.run == "line"),
    ("**found**", lambda o: o.found),
    ("elsewhere", lambda o: o.place in ("related", "elsewhere")),
    ("fix", lambda o: o.place != "no" and o.fix != "none"),
    ("**verified**", lambda o: o.fix == "verified"),
    ("**alarms**", lambda o: len(o.alarms)),
    ("remarks", lambda o: len(o.remarks)),
    ("ran", lambda o: o.ran),
)


def page(cases: Sequence[Case], results: Results) -> str:
    """Return docs/accuracy.md."""
    parts = [NOTE, INTRODUCTION.format(count=len(cases)), COLUMNS, "\n"]
    for origin in ORIGINS:
        chosen = [case for case in cases if case.origin == origin]
        if chosen:
            parts += [
                f"## {origin.capitalize()}\n\n{ORIGINS[origin][0].upper()}{ORIGINS[origin][1:]}.\n\n",
                table(chosen, results),
                "\n",
            ]
            parts += [*_missed(chosen, results)]
    return "".join(parts)


def table(cases: Sequence[Case], results: Results) -> str:
    """Return the table of a set of cases, family by family, with their sum."""
    names = ["family", "faults", *(name for name, _ in TABLE)]
    lines = [_row(names), _row(["---", *(["---:"] * (len(names) - 1))])]
    for family in sorted({case.family for case in cases}):
        lines.append(_sums(family, [results[case.name] for case in cases if case.family == family]))
    lines.append(_sums("**all**", [results[case.name] for case in cases]))
    return "".join(lines)


def _sums(title: str, outcomes: Sequence[Outcome]) -> str:
    return _row([title, len(outcomes), *(sum(count(outcome) for outcome in outcomes) for _, count in TABLE)])


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |\n"


def _missed(cases: Sequence[Case], results: Results) -> Iterable[str]:
    missed = [(case, cause(case, results[case.name])) for case in cases if not results[case.name].found]
    if missed:
        kinds = Counter(why.partition(";")[0] for _, why in missed)
        yield f"Not found: {' · '.join(f'{count} {kind}' for kind, count in kinds.most_common())}.\n\n"
        if missed[0][0].origin == HELD_OUT:  # a list would be read by those who make the rules
            return
        yield from (f"- `{case.name}`, line {case.line}: {why}\n" for case, why in missed)
        yield "\n"
    told = [(case, said) for case in cases for said in (*results[case.name].alarms, *results[case.name].remarks)]
    if told:
        yield "Said of fixed twins:\n\n"
        yield from (f"- `{case.name}_fixed`: {said}\n" for case, said in told)
        yield "\n"


def cause(case: Case, outcome: Outcome) -> str:
    """Return why a fault was not found, as far as it can be told without reading the program."""
    if not case.codes:
        return "no rule"
    if outcome.refuted:
        return "refuted by the run"
    if outcome.place == "related":
        return "only as a related place"
    if outcome.place == "elsewhere":
        return "at another line"
    if "no-inputs" in outcome.runs.values():
        return "no inputs"
    besides = f"; said instead: {', '.join(outcome.besides)}" if outcome.besides else ""
    ended = {*outcome.runs.values()} <= {"passed"}
    return f"{'run to its end, not seen' if ended else 'run ended early, not seen'}{besides}"
