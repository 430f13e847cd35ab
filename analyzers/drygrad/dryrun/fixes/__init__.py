"""Fixes worth trying for what a run has found: the rules' own, and those that only a run can think of.

A module per kind of fault. Nothing here is offered as it is: ``drygrad.dryrun.verify`` tries it first, so a module may
propose what is merely likely. What it may not do is call a change of meaning safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from drygrad.dryrun.fixes import (
    activations,
    arrays,
    autocasting,
    carried,
    checkpoints,
    devices,
    distances,
    dtypes,
    exponentials,
    graph,
    half,
    layers,
    numerics,
    order,
    padding,
    queues,
    ranges,
    recording,
    residents,
    shapes,
    states,
    writing,
)
from drygrad.dryrun.fixes.site import Site
from drygrad.dryrun.merge import Record
from drygrad.dryrun.result import Fault
from drygrad.fixing import apply_edits
from drygrad.model import Finding, Fix
from drygrad.settings import Settings
from drygrad.static.context import Context
from drygrad.static.facts.module import ModuleFacts
from drygrad.static.source import SourceError
from drygrad.static.tree import Tree

Propose = Callable[[Site], Iterator[Fix | None]]

_PROPOSALS: dict[str, tuple[Propose, ...]] = {
    "DG1": (writing.fixes, carried.fixes, graph.fixes, recording.fixes),
    "DG2": (devices.fixes,),
    "DG3": (activations.fixes, dtypes.fixes, ranges.fixes, shapes.fixes, layers.fixes, padding.fixes),
    "DG4": (half.fixes, exponentials.fixes, numerics.fixes),
    "DG5": (carried.fixes,),
    "DG507": (distances.fixes, residents.fixes),
    "DG604": (queues.fixes,),
    "DG609": (arrays.fixes,),
    "DG7": (order.fixes, autocasting.fixes),
    "DG805": (checkpoints.fixes,),
    "DG933": (states.fixes,),
    "DG942": (shapes.fixes,),
    "DG907": (devices.fixes, dtypes.fixes, shapes.fixes, order.fixes),
}


class Candidates:
    """Thinks of fixes for the findings of one run; ``static`` is what a check of the same text says."""

    def __init__(self, record: Record, static: Sequence[Finding], settings: Settings) -> None:
        self._record, self._static = record, static
        self._context = _context(record, settings)

    def of(self, finding: Finding) -> Iterator[Fix]:
        """Yield the fixes to try, the likeliest first, no two that make the same text."""
        source = self._record.plan.source
        seen = {source.text}
        for fix in self._all(finding):
            text = apply_edits(source, fix.edits) if fix is not None else source.text
            if fix is not None and text not in seen:
                seen.add(text)
                yield fix

    def _all(self, finding: Finding) -> Iterator[Fix | None]:
        yield from finding.fixes
        if finding.witness == "static":
            return
        yield from self._of_kin(finding)
        fault = self._fault(finding)
        if self._context is None or fault is None:
            return
        site = Site(self._context, fault, self._record.result, finding, str(self._record.plan.path))
        for prefix, proposals in _PROPOSALS.items():
            if finding.code.startswith(prefix):
                for propose in proposals:
                    yield from propose(site)

    def _of_kin(self, finding: Finding) -> Iterator[Fix]:
        """Yield fixes of static findings of the same family: the text may show the cause of what the run shows."""
        kin = (f for f in self._static if f.code[:3] == finding.code[:3] and f.span != finding.span)
        near = sorted(kin, key=lambda f: abs(f.span.start.line - finding.span.start.line))
        for other in near[:3]:
            yield from other.fixes[:1]

    def _fault(self, finding: Finding) -> Fault | None:
        faults = (fault for fault in self._record.result.faults if fault.code == finding.code)
        alike = (fault for fault in faults if finding.message.startswith(fault.message))  # assumptions stand behind
        error = self._record.result.error
        found = next(alike, None)
        if found is None and error is not None and finding.message.endswith(error.message):
            return Fault(finding.code, finding.message, error.at)
        return found


def _context(record: Record, settings: Settings) -> Context | None:
    source = record.plan.source
    try:
        tree = Tree.parse(source)
        return Context(tree, ModuleFacts(tree.module, source.text), settings)
    except (SourceError, RecursionError):
        return None
