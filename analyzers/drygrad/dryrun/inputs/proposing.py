"""Proposals for every input of a function that nothing in the file gives: what the worker's search begins with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drygrad.dryrun.inputs.arguments import missing_parameters, parameter_names
from drygrad.dryrun.inputs.hints import Hints
from drygrad.dryrun.inputs.kinds import Proposer
from drygrad.dryrun.inputs.neighbours import Neighbours
from drygrad.dryrun.inputs.nodes import Node, group, read_again, texts
from drygrad.dryrun.inputs.offering import SOURCE as OPTION
from drygrad.dryrun.inputs.offering import offers
from drygrad.dryrun.inputs.passing_on import callers_of
from drygrad.dryrun.inputs.siblings import with_optimizers
from drygrad.dryrun.inputs.usage import Usage
from drygrad.dryrun.slicing import free_of_text, reads_gradients
from drygrad.dryrun.targets import Target
from drygrad.static.source import Source


@dataclass(frozen=True)
class Proposal:
    """What a search begins with; ``names`` are those of the file that it reads.

    ``through`` are other functions that call the target, with the inputs that a search for each of them begins with.
    """

    inputs: Node
    names: frozenset[str]
    through: tuple[tuple[str, Node], ...] = ()


def propose(
    source: Source,
    target: Target,
    neighbours: Neighbours,
    pinned: Mapping[str, str],
    also: Sequence[str] = (),
    *,
    varied: bool = False,
) -> Proposal | None:
    """Return the proposal for a function's receiver and required parameters; None where some cannot be proposed.

    Those that are ``pinned`` are given by expressions, and ``also`` those with a default that are to be proposed.
    ``varied``: what has a default is proposed beside the rest, for a search to choose from.
    """
    inputs = _inputs(source, target, neighbours, pinned, also, varied=varied)
    if inputs is None:
        return None
    callers = callers_of(source, target, neighbours) if not (pinned or also or varied) else ()
    proposed = ((str(caller.qualname), _inputs(source, caller, neighbours, {}, ())) for caller in callers)
    through = tuple((name, found) for name, found in proposed if found is not None)
    written = (name for node in (inputs, *(node for _, node in through)) for name in texts(node))
    names = {name for expression in written for name in free_of_text(expression)}
    return Proposal(inputs, frozenset(names | {name.partition(".")[0] for name, _ in through}), through)


def _inputs(
    source: Source,
    target: Target,
    neighbours: Neighbours,
    pinned: Mapping[str, str],
    also: Sequence[str],
    *,
    varied: bool = False,
) -> Node | None:
    function = target.function
    if function is None or function.args.posonlyargs:
        return None
    has_object = target.receiver is not None and not target.is_class_method
    proposer = Proposer(source.tree, Hints(source), neighbours)
    used = dict(
        zip(
            parameter_names(function, None),
            proposer.tracer.function(function, target.owner if has_object else None),
            strict=True,
        )
    )
    proposer.names.enter(dict(used))
    proposer.parameters = frozenset(used)
    proposer.offers = varied
    proposer.wants_gradients = reads_gradients(function)
    parts: dict[str, Node] = {}
    if has_object and target.owner is not None:
        receiver = str(target.receiver)
        usage, fixed = used.pop(receiver), pinned.get(receiver)
        made = read_again(fixed) if fixed else proposer.receiver(usage, function)
        if made is None:
            return None
        parts[receiver] = made
    proposer.hints.enter(function)
    needed = missing_parameters(function, target.receiver, ())
    wanted = dict.fromkeys((*needed, *also, *(used.keys() & pinned)))
    found = {name: read_again(pinned[name]) if name in pinned else proposer.of(used[name]) for name in wanted}
    options: dict[str, Node] = {name: {**found[name], "source": OPTION} for name in found.keys() - needed}
    parts |= _in_order({**found, **options}, used)
    offered = offers(function, used, [*wanted], proposer)
    return {**group("inputs", parts), "text": target.receiver or "", "options": [*offered]}


def makes_objects(node: Node) -> bool:
    """Say whether objects are made that are no modules: a buffer, a trainer, which a program could change before."""
    own = node["kind"] == "call" and not node.get("is_module")
    return own or any(makes_objects(part) for _, part in node.get("parts", ()))


def _in_order(found: dict[str, Node], used: Mapping[str, Usage]) -> dict[str, Node]:
    """Return the proposals with those that read others after them."""
    found = with_optimizers(found, used)
    ordered: dict[str, Node] = {}
    while len(ordered) < len(found):
        left = {name: node for name, node in found.items() if name not in ordered}
        ready = {name: node for name, node in left.items() if not _reads(node, left.keys() - {name})}
        ordered |= ready or left
    return ordered


def _reads(node: Node, names: Iterable[str]) -> bool:
    return any(free_of_text(written) & {*names} for written in texts(node))
