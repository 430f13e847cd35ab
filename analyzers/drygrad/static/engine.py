"""From text to findings: one parse, one interpretation, one walk."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

from drygrad.model import Finding
from drygrad.settings import Settings, Version
from drygrad.static import suppression
from drygrad.static.context import Context, ElsewhereError
from drygrad.static.facts.linked import FIRST_LINE, Links
from drygrad.static.facts.module import ModuleFacts
from drygrad.static.registry import Subscriptions, Visitor, all_rules
from drygrad.static.silence import OwnContext, Silence, Silent
from drygrad.static.source import Source, SourceError
from drygrad.static.tree import Nodes, Statement, Tree


@dataclass(frozen=True)
class Analysis:
    """What the static witness says of one version of a text.

    ``error`` is set where the text could not be analysed (syntax, size, nesting); the findings are then empty.
    ``questions`` are imported names ("mypackage.layers.Net") whose nature the file alone cannot tell.
    """

    source: Source
    findings: tuple[Finding, ...] = ()
    error: SourceError | None = None
    questions: frozenset[str] = frozenset()


class Analyzer:
    """Checks one document, version after version, and reuses what an edit did not touch.

    ``links`` leads to what other files of the project define, as far as the caller knows.
    """

    def __init__(self, settings: Settings | None = None, known: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.settings = settings or Settings()
        self.known: Mapping[str, tuple[str, ...]] = known or {}
        self.links: Links | None = None
        self._tree: Tree | None = None
        self._facts: ModuleFacts | None = None
        self._silence = Silence()

    def learn(self, ancestry: Mapping[str, tuple[str, ...]]) -> bool:
        """Take in what imported names are (see ``ModuleFacts.known``); say whether another check may find more."""
        told = any(classes for name, classes in ancestry.items() if self.known.get(name) != classes)
        self.known = {**self.known, **ancestry}
        return told

    def check(self, source: Source) -> Analysis:
        """Return the findings of a version, in the order of the text, suppressed ones left out."""
        last, facts = self._tree, self._facts
        try:
            tree = Tree.parse(source) if last is None else last.update(source)
        except SourceError as error:
            return Analysis(source, error=error)  # the last good tree is kept: what is being typed will parse soon
        self._tree = self._facts = None
        if "torch" not in source.text and "lightning" not in source.text:
            return Analysis(source, suppression.apply(source, tree.module, (), self.settings))
        try:
            facts = ModuleFacts(tree.module, source.text, self.known, facts, self.links)
            context, wanted = Context(tree, facts, self.settings), subscriptions(self.settings)
            silence = self._silence if last is not None else None  # who checks once need not remember
            found = _distinct(_here(_visit(context, tree, wanted, silence)))
        except RecursionError:
            return Analysis(source, error=SourceError("cannot analyse: an expression is nested too deeply"))
        self._tree, self._facts = tree, facts
        return Analysis(source, suppression.apply(source, tree.module, found, self.settings), None, facts.questions)


def subscriptions(settings: Settings) -> Subscriptions:
    """Return the visitors of the rules that the settings want."""
    return _subscriptions(settings.select, settings.ignore, settings.target_torch)


@cache
def _subscriptions(select: tuple[str, ...], ignore: tuple[str, ...], target: Version | None) -> Subscriptions:
    wanted = Settings(select=select, ignore=ignore, target_torch=target)
    return Subscriptions(filter(wanted.wants, all_rules()))


def _visit(context: Context, tree: Tree, wanted: Subscriptions, silence: Silence | None) -> Iterator[Finding]:
    by_type, by_operation = wanted.by_type, wanted.by_operation
    for visitor in by_type.get(ast.Module, ()):
        yield from _found(visitor, (context.tree,), context)
    for statement in tree.statements:
        if silence is None:
            yield from _offer(statement.by_type, context, wanted)
        else:
            yield from _offer(statement.outside, context, wanted)
            yield from _offer_anew(statement, context, wanted, silence.of(statement, context.facts))
    for call in context.facts.recording.calls.values():
        for visitor in by_operation.get(call.operation, ()):
            with suppress(ElsewhereError):
                yield from visitor(call.node, context) or ()
    for event in context.facts.recording.events.values():
        for visitor in by_type.get(type(event), ()):
            with suppress(ElsewhereError):
                yield from visitor(event, context) or ()


def _offer(nodes_of: Nodes, context: Context, wanted: Subscriptions) -> Iterator[Finding]:
    for kind, nodes in nodes_of.items():
        for visitor in wanted.by_type.get(kind, ()):
            yield from _found(visitor, nodes, context)


def _found(visitor: Visitor, nodes: Iterable[ast.AST], context: Context) -> Iterator[Finding]:
    """Yield what a visitor finds in nodes, up to where one leads it to what is around a node of another file."""
    for node in nodes:
        try:  # which costs nothing, other than a context manager at every node
            yield from visitor(node, context) or ()
        except ElsewhereError:
            continue


def _offer_anew(
    statement: Statement, context: Context, wanted: Subscriptions, silent: set[Silent]
) -> Iterator[Finding]:
    """Offer what is in a statement's functions to the visitors that are not silent of them."""
    for kind, nodes in statement.inside.items():
        for visitor in wanted.by_type.get(kind, ()):
            if (kind, visitor) in silent:
                continue
            own = OwnContext(context, statement)
            found = list(_found(visitor, nodes, own))
            if not found and not own.left:
                silent.add((kind, visitor))
            yield from found


def _here(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings in this file, without what leads to others: a check of those tells of them."""
    for finding in findings:
        if finding.span.start.line < FIRST_LINE:
            related = tuple(place for place in finding.related if place.span.start.line < FIRST_LINE)
            fixes = tuple(fix for fix in finding.fixes if all(e.span.start.line < FIRST_LINE for e in fix.edits))
            yield replace(finding, related=related, fixes=fixes)


def _distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings in the order of the text, each place and code once."""
    first: dict[object, Finding] = {}
    for finding in findings:
        first.setdefault((finding.span, finding.code), finding)
    return tuple(sorted(first.values(), key=lambda f: (f.span, f.code)))
