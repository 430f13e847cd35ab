"""A whole file: its functions evaluated callers first, its classes, what its objects hold."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from drygrad.static.facts import calls, contexts, expressions, iteration, modules, torch_calls
from drygrad.static.facts.canonical import canonical
from drygrad.static.facts.frame import Frame, Recording
from drygrad.static.facts.state import OFF, Autocast, State
from drygrad.static.facts.statements import execute_block
from drygrad.static.facts.values import (
    UNKNOWN,
    Arguments,
    Class,
    Constant,
    Function,
    Object,
    Reference,
    Tensor,
    Value,
    element_of,
    join,
    join_all,
)

MAX_DEPTH = 8
"""Calls are followed so deep; a model of blocks of layers needs five."""
MAX_FOLLOWED = 2_000
"""Calls followed in one file, so that no file keeps the server busy."""
MAX_MEMO = 6
MAX_CALLERS = 12
_GENERIC = Arguments(complete=False)


@dataclass(frozen=True)
class CallSite:
    """How a function of the file is called somewhere in it."""

    node: ast.expr
    arguments: Arguments
    receiver: Value | None
    grad: bool | None
    autocast: Autocast


@dataclass(frozen=True)
class Outcome:
    """What a followed call gave: its result, the attributes its body assigned, whether it ran a backward."""

    result: Value
    names: Mapping[str, Value]
    ran_backward: bool


class ModuleFacts:
    """All that the interpretation of one file finds out.

    ``known`` tells what the file alone cannot: imported full names to the full names of their base classes.
    """

    def __init__(self, tree: ast.Module, text: str, known: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.tree = tree
        self.evaluate = expressions.evaluate
        self.known = known or {}
        self.recording = Recording()
        self.questions: set[str] = set()
        self.has_star_import = False
        self.attribute_owners: set[str] = set()
        self.default_device = None if re.search(r"set_default_(device|tensor_type)|with torch\.device", text) else "cpu"
        self.default_dtype = (
            "floating" if "set_default_dtype" in text or "set_default_tensor_type" in text else "float32"
        )
        self.classes: list[Class] = []
        self.functions: list[tuple[Function, Frame]] = []
        self.callers: dict[ast.AST, list[CallSite]] = defaultdict(list)
        self.instances: dict[ast.AST, list[Object]] = defaultdict(list)
        self._words = Counter(re.findall(r"\w+", text))
        self._memo: dict[ast.AST, list[tuple[Function, Arguments, bool | None, Outcome]]] = defaultdict(list)
        self._attributes: dict[ast.AST, list[tuple[Arguments, dict[str, Value]]]] = defaultdict(list)
        self._reassigned: dict[str, bool] | None = None
        self._active: list[ast.AST] = []
        self._followed = 0
        self._main = Frame(self, State({}), recording=self.recording)
        execute_block(self._main, tree.body)
        self._evaluate_functions()

    @property
    def globals(self) -> dict[str, Value]:
        """The names of the module, as far as it has been executed."""
        return self._main.state.names

    # -- definitions ---------------------------------------------------------------------------------------------

    def add_function(self, function: Function, frame: Frame) -> None:
        """Note a function whose body is still to be evaluated on its own."""
        if frame.recording is not None and not frame.in_class_body:
            self.functions.append((function, frame))

    def define_class(
        self, frame: Frame, node: ast.ClassDef, bases: tuple[Value, ...], members: Mapping[str, Value]
    ) -> Class:
        """Make the class of a class statement whose body has been executed."""
        inherited = [Reference(a) for b in bases if isinstance(b, Reference) for a in self.known.get(b.name, ())]
        owned: dict[str, Value] = {}
        cls = Class(node.name, node, (*bases, *inherited), owned)
        for name, member in members.items():
            owned[name] = replace(member, owner=cls) if isinstance(member, Function) else member
        if frame.recording is not None:
            self.classes.append(cls)
            self.functions.extend((m, frame) for m in owned.values() if isinstance(m, Function) and m.owner is cls)
        return cls

    def imported(self, name: str) -> Value:
        """Return what an import binds; names of unknown packages become questions."""
        name = canonical(name)
        if not name.startswith(("torch", "numpy", "math", "typing", "collections", "contextlib", "functools")):
            self.questions.add(name)
        return torch_calls.dtype_or_reference(name)

    def star_import(self, frame: Frame, package: str) -> None:
        """``from package import *``: of torch's packages the names are theirs, of others nothing is known."""
        self.has_star_import = True

    # -- objects -------------------------------------------------------------------------------------------------

    def construct(self, cls: Class, arguments: Arguments, node: ast.expr) -> Object:
        """Return an instance of a class of the file."""
        made = Object(cls.name, node, arguments, cls)
        made = replace(made, device=self.default_device if made.is_module else None)
        known = self.instances[cls.node]
        if made not in known and len(known) < MAX_CALLERS:
            known.append(made)
        if not isinstance(cls.member("__init__"), Function):
            return made
        self.attributes(made)
        return made

    def attribute(self, owner: Object, name: str) -> Value | None:
        """Return an attribute of an object; None where nothing tells."""
        if owner.cls is None:
            return modules.object_attribute(owner, name)
        member = owner.cls.member(name)
        if isinstance(member, Function):
            return _bound(member, owner)
        if self._is_reassigned(name):
            return UNKNOWN
        held = self.attributes(owner).get(name)
        if held is None:
            return member
        return _moved_with(owner, held)

    def attributes(self, owner: Object) -> Mapping[str, Value]:
        """Return what ``__init__`` assigns to the attributes of an object, given how it was constructed."""
        init = owner.cls.member("__init__") if owner.cls else None
        if not isinstance(init, Function):
            return {}
        memo = self._attributes[init.node]
        for arguments, found in memo:
            if arguments == owner.arguments:
                return found
        if init.node in self._active:
            return {}
        outcome = self._run(replace(init, receiver=owner), owner.arguments, True, "off", depth=1)
        prefix = f"{_self_name(init)}."
        found = {name.removeprefix(prefix): v for name, v in outcome.names.items() if name.startswith(prefix)}
        if len(memo) < MAX_MEMO:
            memo.append((owner.arguments, found))
        return found

    def item(self, owner: Object, index: Value) -> Value:
        """Return ``owner[index]`` for containers of modules and for batches."""
        held = iteration.contained_modules(owner)
        if held is None:
            return iteration.batch_item(owner)
        if held.items is not None and isinstance(index, Constant) and isinstance(index.value, int):
            inside = -len(held.items) <= index.value < len(held.items)
            return _moved_with(owner, held.items[index.value]) if inside else UNKNOWN
        return _moved_with(owner, element_of(held))

    def _is_reassigned(self, attribute: str) -> bool:
        """Say whether an attribute of this name is assigned anywhere outside an ``__init__``."""
        if self._reassigned is None:
            self._reassigned = dict.fromkeys(_reassigned_attributes(self.tree.body, in_init=False), True)
        return attribute in self._reassigned

    # -- functions -----------------------------------------------------------------------------------------------

    def follow(self, frame: Frame, function: Function, arguments: Arguments, node: ast.expr) -> Value:
        """Return the result of a call to a function of the file, evaluated with these arguments."""
        self._note_call(function, CallSite(node, arguments, function.receiver, frame.state.grad, frame.state.autocast))
        if function.node in self._active or frame.depth >= MAX_DEPTH or self._followed >= MAX_FOLLOWED:
            return UNKNOWN
        outcome = self._outcome(function, arguments, frame)
        if outcome.ran_backward:
            frame.state.saved.clear()
            frame.ran_backward = True
        if frame.function is not None and frame.function.receiver is not None:
            self._adopt_attributes(frame, function, outcome)
        return outcome.result

    def _note_call(self, function: Function, site: CallSite) -> None:
        known = self.callers[function.node]
        if site not in known and len(known) < MAX_CALLERS:
            known.append(site)

    def _outcome(self, function: Function, arguments: Arguments, frame: Frame) -> Outcome:
        memo = self._memo[function.node]
        grad = frame.state.grad
        for known, given, mode, outcome in memo:
            if known == function and given == arguments and mode == grad:
                return outcome
        self._followed += 1
        outcome = self._run(function, arguments, grad, frame.state.autocast, frame.depth + 1)
        if len(memo) < MAX_MEMO:
            memo.append((function, arguments, grad, outcome))
        return outcome

    def _adopt_attributes(self, frame: Frame, function: Function, outcome: Outcome) -> None:
        """A method called on self (or super) may assign self's attributes: the caller sees them."""
        mine = frame.function
        if mine is None or function.receiver is None or function.owner is None or mine.owner is None:
            return
        if function.owner not in mine.owner.lineage():
            return
        theirs, ours = _self_name(function), _self_name(mine)
        for name, value in outcome.names.items():
            if name.startswith(theirs + "."):
                frame.state.names[ours + name.removeprefix(theirs)] = value

    def _run(
        self, function: Function, arguments: Arguments, grad: bool | None, autocast: Autocast, depth: int
    ) -> Outcome:
        frame = self._frame_of(function, arguments, grad, autocast)
        frame.depth = depth
        self._execute(frame, function)
        end = frame.exit_state.joined(frame.state) if frame.exit_state is not None else frame.state
        names = {name: v for name, v in end.names.items() if "." in name}
        return Outcome(UNKNOWN if frame.result is None else frame.result, names, frame.ran_backward)

    def _frame_of(self, function: Function, arguments: Arguments, grad: bool | None, autocast: Autocast) -> Frame:
        scope = function.scope
        names = {**(scope.scope or {}), **scope.state.names} if isinstance(scope, Frame) else None
        frame = Frame(self, State({}, grad, autocast), scope=names, function=function)
        calls.bind_parameters(frame, function, arguments)
        contexts.enter_decorators(frame, function.node)
        return frame

    def _execute(self, frame: Frame, function: Function) -> None:
        node = function.node
        self._active.append(node)
        try:
            if isinstance(node, ast.Lambda):
                frame.leave(frame.evaluate(node.body))
            elif execute_block(frame, node.body) and frame.result is not None:
                frame.result = join(frame.result, Constant(None))
        finally:
            self._active.pop()
        if isinstance(node, ast.AsyncFunctionDef):
            frame.result = UNKNOWN

    def _evaluate_functions(self) -> None:
        """Evaluate every body once on its own: those that nobody in the file calls first, then their callees."""
        pending = self.functions
        done: set[ast.AST] = set()
        while True:
            waiting = [(f, d) for f, d in pending if f.node not in done]
            if not waiting:
                return
            ready = [entry for entry in waiting if self._is_root(entry[0])] or waiting[:1]
            for function, defined_in in ready:
                if function.node not in done:
                    done.add(function.node)
                    self._evaluate_at_home(function, defined_in)

    def _is_root(self, function: Function) -> bool:
        """Say whether a function's callers are known by now: some are, or the file nowhere names it again."""
        if isinstance(function.node, ast.Lambda):
            return True
        return function.node in self.callers or self._words[function.node.name] < 2

    def _evaluate_at_home(self, function: Function, defined_in: Frame) -> None:
        sites = self.callers.get(function.node, [])
        if function.owner is not None:
            function = replace(function, receiver=self._receiver(function, sites))
        arguments = join_arguments(site.arguments for site in sites) if sites else _GENERIC
        if not sites and function.owner is not None and _is_named(function, "__init__"):
            known = self.instances.get(function.owner.node, [])
            arguments = join_arguments(o.arguments for o in known) if known else _GENERIC
        grad = _agreed([site.grad for site in sites]) if sites else True
        autocast = _agreed([site.autocast for site in sites]) if sites else OFF
        frame = self._frame_of(function, arguments, grad, autocast)
        frame.recording = self.recording
        self._execute(frame, function)

    def _receiver(self, function: Function, sites: list[CallSite]) -> Value:
        assert function.owner is not None
        receivers = [site.receiver for site in sites if isinstance(site.receiver, Object)]
        if receivers:
            return join_all(receivers)
        instances = self.instances.get(function.owner.node, [])
        if instances:
            joined = join_all(instances)
            return replace(joined, device=None) if isinstance(joined, Object) else joined
        return Object(function.owner.name, None, _GENERIC, function.owner)


Mode = TypeVar("Mode")


def _agreed(modes: list[Mode]) -> Mode | None:
    return modes[0] if all(mode == modes[0] for mode in modes) else None


def _is_named(function: Function, name: str) -> bool:
    return not isinstance(function.node, ast.Lambda) and function.node.name == name


def join_arguments(given: Iterable[Arguments]) -> Arguments:
    """Return what holds of the arguments at every call."""
    arguments = list(given)
    positional = tuple(join_all(values) for values in zip(*(a.positional for a in arguments), strict=False))
    shared = {name for name in arguments[0].keywords if all(name in a.keywords for a in arguments)}
    keywords = {name: join_all(a.keywords[name] for a in arguments) for name in shared}
    same = all(len(a.positional) == len(positional) and set(a.keywords) == shared for a in arguments)
    return Arguments(positional, keywords, same and all(a.complete for a in arguments))


def _self_name(function: Function) -> str:
    parameters = [*function.node.args.posonlyargs, *function.node.args.args]
    return parameters[0].arg if parameters else "self"


def _bound(member: Function, owner: Object) -> Function:
    decorators = [] if isinstance(member.node, ast.Lambda) else [ast.unparse(d) for d in member.node.decorator_list]
    return member if "staticmethod" in decorators else replace(member, receiver=owner)


def _moved_with(owner: Object, held: Value) -> Value:
    """Modules, parameters and buffers follow their owner to its device; plain tensors stay where they were made."""
    if not owner.is_module:
        return held
    if isinstance(held, Object) and held.is_module:
        return replace(held, device=owner.device, training=owner.training, frozen=held.frozen or owner.frozen)
    if isinstance(held, Tensor) and (held.parameter or held.buffer):
        return replace(held, device=owner.device)
    return held


def _reassigned_attributes(body: list[ast.stmt], in_init: bool) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _reassigned_attributes(statement.body, statement.name == "__init__")
            continue
        if not in_init:
            yield from _assigned_attributes(statement)
        for name in ("body", "orelse", "finalbody"):
            yield from _reassigned_attributes(getattr(statement, name, []), in_init)
        for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _reassigned_attributes(handler.body, in_init)


def _assigned_attributes(statement: ast.stmt) -> Iterator[str]:
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    for target in targets:
        for element in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            if isinstance(element, ast.Attribute):
                yield element.attr
