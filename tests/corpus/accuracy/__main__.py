"""Examine the corpus, print the tables, record the outcomes, and write docs/accuracy.md.

    python -m accuracy [NAME_PART...] [--new] [--record]

With parts of names, or for new cases only, everything that was said of them is printed; held-out cases are left out
unless a part says ``heldout``. ``--record`` adds them to what is recorded of the others.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from .examining import Examined, examine_all
from .judging import Outcome, judge
from .programs import CORPUS, HELD_OUT, SETS, Case, cases
from .recording import record, recorded
from .report import cause, page, table

PAGE = CORPUS.parents[1] / "docs" / "accuracy.md"


def main() -> int:
    """Run the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="NAME_PART", help="examine the cases that have this in their name")
    parser.add_argument("--new", action="store_true", help="examine the cases of which nothing is recorded")
    parser.add_argument("--record", action="store_true", help="record the outcomes of the cases that are examined")
    arguments = parser.parse_args()
    every = cases()
    known = recorded()
    some = [case for case in every if any(_is_meant(case, part) for part in arguments.parts)]
    some += [case for case in every if arguments.new and case.name not in known and case not in some]
    is_part = bool(arguments.parts) or arguments.new
    chosen = some if is_part else every
    results = _examined(chosen, shown=is_part)
    if arguments.record or not is_part:
        results = {**known, **results}
        results = {case.name: results[case.name] for case in every if case.name in results}
        record(results)
        PAGE.write_text(page([case for case in every if case.name in results], results), encoding="utf-8")
    return 0


def _is_meant(case: Case, part: str) -> bool:
    return part in case.name and (case.origin != HELD_OUT or HELD_OUT in part)


def _examined(chosen: list[Case], *, shown: bool) -> dict[str, Outcome]:
    """Examine cases and tell of them; return the outcomes."""
    results: dict[str, Outcome] = {}
    began = time.monotonic()

    def told(case: Case, faulty: Examined, fixed: Examined) -> None:
        results[case.name] = judge(case, faulty, fixed)
        print(_line(case, results[case.name]), flush=True)
        if shown:
            _show(case, faulty, fixed)

    asyncio.run(examine_all(chosen, told))
    for origin in SETS:
        if of_it := [case for case in chosen if case.origin == origin]:
            print(f"\n{origin}\n{table(of_it, results)}")
    print(f"{len(chosen)} cases in {time.monotonic() - began:.0f} s")
    return results


def _line(case: Case, outcome: Outcome) -> str:
    found = "found" if outcome.found else cause(case, outcome)
    alarms = "".join(f"; ALARM {told}" for told in (*outcome.alarms, *outcome.remarks))
    return f"{case.name}: {found}; static {outcome.static}, run {outcome.run}, fix {outcome.fix}{alarms}"


def _show(case: Case, faulty: Examined, fixed: Examined) -> None:
    print(f"  truth: {' or '.join(sorted(case.codes)) or 'no rule'} in line {case.line}: {case.truth}")
    for title, examined in (("faulty", faulty), ("fixed", fixed)):
        print(f"  {title}: {examined.outcomes}")
        for finding in examined.merged.findings:
            print(
                f"    {finding.span.start.line}: {finding.severity} {finding.code} [{finding.status} {finding.witness}]"
            )
            print(f"      {finding.message}")
            for fix in finding.fixes:
                print(f"      fix ({fix.safety}, verified: {fix.verified}): {fix.title}")
        for refutation in examined.merged.refuted:
            print(f"    refuted: {refutation.finding.code} in line {refutation.finding.span.start.line}")


if __name__ == "__main__":
    sys.exit(main())
