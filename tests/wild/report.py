"""Short tables of what was found: by half, by family, by how the runs ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from .judging import Judged


def tables(results: Sequence[Judged]) -> str:
    """Return the tables of some results, each half for itself."""
    parts: list[str] = []
    for split in sorted({result.split for result in results}):
        of_it = [result for result in results if result.split == split]
        parts += [f"{split}: {len(of_it)} fixes", _found(of_it, _family, "family"), _found(of_it, _ended, "run ended")]
    return "\n\n".join(parts) + "\n"


def _found(results: Sequence[Judged], key: Callable[[Judged], str], title: str) -> str:
    of = Counter(key(result) for result in results)
    rows = [f"{title:<20} {'fixes':>5} {'check':>5} {'run':>5} {'any':>5} {'alarms':>6}"]
    for name in (*sorted(of), "all"):
        some = [result for result in results if name == "all" or key(result) == name]
        check, run = sum(bool(r.check) for r in some), sum(bool(r.run) for r in some)
        either, alarms = sum(bool(r.check or r.run) for r in some), sum(len(r.alarms) for r in some)
        rows.append(f"{name:<20} {len(some):>5} {check:>5} {run:>5} {either:>5} {alarms:>6}")
    return "\n".join(rows)


def _family(result: Judged) -> str:
    return result.family


def _ended(result: Judged) -> str:
    return result.outcome


def details(result: Judged) -> str:
    """Return what a person needs to confirm or correct a judgement."""
    rows = [f"{result.number} {result.name}", f"  {result.family}: {result.fault}"]
    rows.append(f"  run {result.outcome} in {result.seconds} s {result.reason}".rstrip())
    for title in ("inputs", "check", "run", "unfitting", "others", "alarms"):
        rows += [f"  {title}: {said}" for said in getattr(result, title)]
    return "\n".join(rows)
