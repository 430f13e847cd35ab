"""Inputs from a call: in the main block, at top level, in a test, or in a function that is itself called there.

The call's arguments are taken as texts; what they read is built by the statements before the call. For a method the
object must come from a call of its class, as far as assignments, parameters and their callers tell.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from drygrad.dryrun.inputs.arguments import (
    Argument,
    FunctionNode,
    missing_parameters,
    parameter_names,
    unknown_argument,
)
from drygrad.dryrun.inputs.classes import Classes, Scope
from drygrad.dryrun.inputs.frames import has_no_self
from drygrad.dryrun.inputs.testing import TestRunner, is_left_out
from drygrad.dryrun.inputs.waiting import waits
from drygrad.dryrun.names import bound_names, read_names
from drygrad.dryrun.slicing import (
    Bind,
    Enter,
    Imports,
    Slice,
    Step,
    backward_slice,
    free_of_text,
    reads_gradients,
    steps_before,
)
from drygrad.dryrun.targets import Target, is_applied
from drygrad.parsing import parsed_expression
from drygrad.static.expected_errors import expects_error
from drygrad.static.source import Source

_DEPTH = 3
"""How many functions may lie between the top level and a call."""

_GRAD_MODES = ("torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.autocast")


@dataclass(frozen=True)
class CallSite:
    """A call of the target: what it passes, and the way there, of which the last ``local`` steps are in a function."""

    call: ast.Call
    arguments: tuple[Argument, ...]
    receiver: Argument | None
    steps: tuple[Step, ...]
    local: int = 0

    def told_from(self, file: str) -> CallSite:
        """Return the call with its arguments saying in what other file it stands, and no place in this one."""
        source = f"call in {file}:{self.call.lineno}"
        told = tuple(replace(a, source=source, line=None, column=None) for a in self.arguments)
        receiver = replace(self.receiver, source=source, line=None, column=None) if self.receiver else None
        return replace(self, arguments=told, receiver=receiver)


@dataclass(frozen=True)
class Found:
    """The first call whose inputs can be built, with the slice that builds them; or why the first one cannot."""

    site: CallSite | None = None
    slice: Slice = field(default_factory=lambda: Slice(()))
    unresolved: tuple[str, ...] = ()


def find_call(source: Source, target: Target, imports: Imports) -> Found:
    """Return the inputs that a call of the target gives; calls at top level come before those in functions."""
    sites = (s for s in CallSites(source, imports).of(target.function, target.owner) if fits(s, target))
    always = {str(target.qualname).partition(".")[0]}
    return first_buildable(sites, always, imports, gradients=reads_gradients(target.function))


def fits(site: CallSite, target: Target) -> bool:
    """Say whether the function takes what a call gives: one that was written for another version says nothing."""
    function = target.function
    assert function is not None
    receiver = target.receiver or (site.receiver.name if site.receiver else None)
    if missing_parameters(function, receiver, site.arguments) or _overflows(site, function, receiver):
        return False
    named = [a.name for a in site.arguments if a.name is not None and a.star != "**"]
    return all(unknown_argument(name, function, receiver, name) is None for name in named)


def _overflows(site: CallSite, function: FunctionNode, receiver: str | None) -> bool:
    """Say whether a call passes more by position than the function takes."""
    if function.args.vararg or any(a.star for a in site.arguments):
        return False
    places = [p for p in (*function.args.posonlyargs, *function.args.args) if p.arg != receiver]
    return len(site.call.args) > len(places)


def first_buildable(sites: Iterable[CallSite], always: Set[str], imports: Imports, *, gradients: bool = False) -> Found:
    """Return the first call whose inputs can be built; ``always`` are names that are wanted in any case.

    ``gradients``: those that an earlier ``backward()`` made are inputs, too.
    """
    failed: Found | None = None
    for site in sites:
        wanted = {*always}
        for argument in (*site.arguments, *([site.receiver] if site.receiver else ())):
            wanted |= free_of_text(argument.text)
        sliced = backward_slice(site.steps, wanted, (), imports, gradients=gradients)
        if not sliced.unresolved and stands_alone(sliced.steps) and not _collides(site, sliced):
            return Found(site, sliced)
        failed = failed or Found(unresolved=sliced.unresolved)
    return failed or Found()


class CallSites:
    """The calls of a file's functions, and how to get there."""

    def __init__(self, source: Source, imports: Imports, known: Mapping[str, ast.stmt] | None = None) -> None:
        """``known`` are definitions of another file, by what this one calls them."""
        self._source = source
        self._imports = imports
        self._classes = Classes(source.tree, known or {})
        self._tests = TestRunner(source.tree)

    def of(self, function: FunctionNode | None, owner: ast.ClassDef | None, depth: int = 0) -> Iterator[CallSite]:
        """Yield the calls of a function of the file that can be reached."""
        if function is None or depth > _DEPTH:
            return
        calls = sorted(self._classes.calls, key=lambda found: found[1].function is not None)
        for call, scope in calls:
            receiver = self._classes.matches(call, scope, function, owner)
            if receiver is None or scope.function is function or _may_fail(scope) or self._waits(call, scope):
                continue
            site = self._site(call, scope, function, owner)
            if site is None or (_leaves_out(site, scope, function, owner) and not self._is_called(scope, depth)):
                continue
            if (way := self._way(scope, depth)) is not None:
                steps, local = way
                receiver = replace(site.receiver, text=receiver) if receiver and site.receiver else None
                yield replace(site, receiver=receiver, steps=tuple(steps), local=local)

    def _waits(self, call: ast.Call, scope: Scope) -> bool:
        return waits(call, scope.function.body if scope.function else self._source.tree.body, scope.way)

    def _is_called(self, scope: Scope, depth: int) -> bool:
        return next(self.of(scope.function, scope.owner, depth + 1), None) is not None

    def _site(
        self, call: ast.Call, scope: Scope, function: FunctionNode, owner: ast.ClassDef | None
    ) -> CallSite | None:
        positional = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        bound_method = owner is not None and (not has_no_self(function) or is_applied(function, owner))
        names: list[str | None] = [*positional[1 if bound_method else 0 :]]
        arguments: list[Argument] = []
        unpacked = any(isinstance(node, ast.Starred) for node in call.args)
        for index, node in enumerate(call.args):
            name = names[index] if index < len(names) and not unpacked else None
            posonly = name in {a.arg for a in function.args.posonlyargs}
            value = node.value if isinstance(node, ast.Starred) else node
            star = "*" if isinstance(node, ast.Starred) else ""
            arguments.append(self._argument(None if posonly else name, value, star))
        arguments += [self._argument(k.arg, k.value, "" if k.arg else "**") for k in call.keywords]
        receiver = self._argument(positional[0] if positional else None, call.func, "")
        return CallSite(call, tuple(arguments), receiver, ())

    def _argument(self, name: str | None, node: ast.expr, star: str) -> Argument:
        line, column = self._source.start(node)
        text = self._source.segment(node)
        return Argument(name, f"({text})" if "\n" in text else text, "call", star, line, column)

    def _way(self, scope: Scope, depth: int) -> tuple[list[Step], int] | None:
        """Return the steps to a call in a scope, and how many of them are in functions; None: no way."""
        body = self._source.tree.body
        if scope.function is None:
            return steps_before(body, scope.way, self._imports), 0
        if isinstance(scope.function, ast.AsyncFunctionDef):
            return None
        outer = next(self.of(scope.function, scope.owner, depth + 1), None)
        before: list[Step] = [*outer.steps] if outer else steps_before(body, (), self._imports)
        bound = self._tests.steps_to(scope)
        if bound is None:
            bound = _parameters(scope, outer)
        else:
            before = [step for step in before if not self._tests.is_fixture(step)]
        if bound is None:
            return None
        inside = [
            *bound,
            *self._decorating(scope.function),
            *steps_before(scope.function.body, scope.way, self._imports),
        ]
        return [*before, *inside], len(inside) + (outer.local if outer else 0)

    def _decorating(self, function: FunctionNode) -> Iterator[Step]:
        """Yield the gradient modes that decorators put a function in."""
        for node in function.decorator_list:
            called = self._imports.full_name(node.func if isinstance(node, ast.Call) else node)
            if called in _GRAD_MODES:
                text = ast.unparse(node)
                yield Enter(text if isinstance(node, ast.Call) else f"{text}()", None, node, always=True)


def _may_fail(scope: Scope) -> bool:
    """Say whether a call is made to see it fail, or by a test that is not run."""
    withs = (s for s in scope.way if isinstance(s, (ast.With, ast.AsyncWith)))
    return is_left_out(scope) or any(expects_error(item) for statement in withs for item in statement.items)


def _leaves_out(site: CallSite, scope: Scope, function: FunctionNode, owner: ast.ClassDef | None) -> bool:
    """Say whether a call passes on what its own function gets, ``*args``, and without it lacks arguments."""
    around = scope.function.args if scope.function is not None else None
    handed_on = (
        {several.arg for several in (around.vararg, around.kwarg) if several} if around is not None else set[str]()
    )
    if not handed_on & {argument.text for argument in site.arguments if argument.star}:
        return False
    receiver = site.receiver.name if site.receiver and owner is not None and not has_no_self(function) else None
    return bool(missing_parameters(function, receiver, [a for a in site.arguments if not a.star]))


def _parameters(scope: Scope, outer: CallSite | None) -> list[Step] | None:
    """Return the steps that give a function's parameters what its caller passes; None where that is not known."""
    function = scope.function
    assert function is not None
    arguments = function.args
    texts: dict[str, str] = {}
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = arguments.defaults
    texts |= {
        p.arg: ast.unparse(d) for p, d in zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
    }
    texts |= {p.arg: ast.unparse(d) for p, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d}
    several = _several(arguments, outer)
    if several is None:
        return None
    texts |= several
    if outer is not None:
        texts |= {a.name: a.text for a in outer.arguments if a.name in parameter_names(function, None)}
        texts |= {str(outer.receiver.name): outer.receiver.text} if outer.receiver else {}
    if any(p.arg not in texts for p in (*positional, *arguments.kwonlyargs)):
        return None
    changing = {name: text for name, text in texts.items() if name != text}
    if not changing:
        return []
    place = outer.call if outer else function.body[0]
    if not any(free_of_text(text) & changing.keys() for text in changing.values()):
        return [Bind(name, text, place) for name, text in changing.items()]
    return [Bind(", ".join(changing) + ",", ", ".join(f"({text})" for text in changing.values()) + ",", place)]


def _several(arguments: ast.arguments, outer: CallSite | None) -> dict[str, str] | None:
    """Return what ``*args`` and ``**kwargs`` hold of a caller's arguments; None where that is not known."""
    given = outer.arguments if outer is not None else ()
    named = {p.arg for p in (*arguments.args, *arguments.kwonlyargs)}
    rest = [a.text for a in given if a.name is None]
    more = [f"{a.name!r}: {a.text}" for a in given if a.name is not None and a.name not in named]
    unknown = any(a.star for a in given) or bool(rest and (arguments.posonlyargs or not arguments.vararg))
    if unknown or (more and not arguments.kwarg):
        return None
    found = {arguments.vararg.arg: f"({''.join(f'{text}, ' for text in rest)})"} if arguments.vararg else {}
    return found | ({arguments.kwarg.arg: f"{{{', '.join(more)}}}"} if arguments.kwarg else {})


def stands_alone(steps: Sequence[Step]) -> bool:
    """Say whether the statements can be executed outside of their function: no ``return``, ``await``, ``super()``."""
    for step in steps:
        if isinstance(step, ast.stmt):
            if _calls_super(step):
                return False
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # about the user's literals, which are not ours to judge
                    compile(ast.Module([step], []), "<step>", "exec")
            except (SyntaxError, ValueError):
                return False
    return True


def _calls_super(node: ast.AST) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        return True
    return any(_calls_super(child) for child in ast.iter_child_nodes(node))


def _collides(site: CallSite, sliced: Slice) -> bool:
    """Say whether a local name would hide a global one that a function of the file reads."""
    if not site.local:
        return False
    outer, inner = site.steps[: -site.local], site.steps[-site.local :]
    taken = set(map(id, sliced.steps))
    local = {name for step in inner if id(step) in taken for name in _binds(step)}
    return bool(local & sliced.late & {name for step in outer for name in _binds(step)})


def _binds(step: Step) -> set[str]:
    if isinstance(step, Bind):
        return read_names(parsed_expression(step.target))
    if isinstance(step, Enter):
        return {step.name} if step.name else set()
    return bound_names(step)
