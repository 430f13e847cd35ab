"""A whole file: its functions evaluated callers first, its classes, what its objects hold."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from drygrad.static.facts import calls, contexts, expressions, iteration, modules
from drygrad.static.facts.attributes import field, given_device, has_fields, moved_with
from drygrad.static.facts.calls import join_arguments
from drygrad.static.facts.effects import given_back
from drygrad.static.facts.frame import Frame, Recording
from drygrad.static.facts.interval import ANY
from drygrad.static.facts.linked import LinkedScope, Links, anchored, home_of, is_elsewhere, names_around
from drygrad.static.facts.mentions import mentions_of, united
from drygrad.static.facts.notes import Body, CallSite, Derivations, Ground, Notes, Outcome
from drygrad.static.facts.receivers import adopt_attributes, bound, is_static, self_name, settled_as
from drygrad.static.facts.state import OFF, Autocast, State
from drygrad.static.facts.statements import execute_block
from drygrad.static.facts.tensors import device_name
from drygrad.static.facts.values import (
    NONE,
    UNKNOWN,
    Arguments,
    Class,
    Constant,
    Function,
    Object,
    Reference,
    Sequence,
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
MAX_DEPTH_ELSEWHERE = 4
MAX_FOLLOWED_ELSEWHERE = 60
"""The same for calls of functions of other files, which hardly ever tell more deep down."""
MAX_MEMO = 32
"""Outcomes kept of one function; a call with other arguments is followed again."""
MAX_CALLERS = 12
"""Call sites and instances kept of one function or class; what holds of these is taken to hold of all."""
_GENERIC = Arguments(complete=False)


_BUILTINS = frozenset(dir(builtins))
WELL_KNOWN = frozenset({"torch", "builtins", "numpy"}) | sys.stdlib_module_names
OTHERS = "<"
"""How names begin that another file imports: ``<path>`` and then the name as that file writes it."""


class ModuleFacts:
    """All that the interpretation of one file finds out.

    ``known`` tells what the file alone cannot: imported names to the full names of the class (and its bases) that they
    are, or that calling them gives.
    ``previous`` are the facts of the version before; what they found out about functions whose nodes are still the
    same, and all that these read, is taken over. ``links`` leads to what other files of the project define.
    """

    scope: LinkedScope | None = None

    def __init__(
        self,
        tree: ast.Module,
        text: str,
        known: Mapping[str, tuple[str, ...]] | None = None,
        previous: ModuleFacts | None = None,
        links: Links | None = None,
    ) -> None:
        self.tree = tree
        self.evaluate = expressions.evaluate
        self.known = known or {}
        self.links = links
        self.recording = Recording()
        self.notes = Notes()
        self.has_star_import = False
        setters = {*re.findall(r"set_default_(?:device|dtype|tensor_type)", text), *(links.setters if links else ())}
        self.default_device = None if setters - {"set_default_dtype"} or "with torch.device" in text else "cpu"
        self.default_dtype = "floating" if setters - {"set_default_device"} else "float32"
        self.freezes = re.search(r"\.requires_grad\s*=(?!\s*True\b|=)|requires_grad_\((?!\)|True)", text) is not None
        """Whether the file keeps some parameters from learning: which ones is not followed."""
        self.classes: list[Class] = []
        self.functions: list[tuple[Function, Frame]] = []
        self.callers: dict[ast.AST, list[CallSite]] = defaultdict(list)
        self.instances: dict[ast.AST, list[Object]] = defaultdict(list)
        self._outcomes: dict[ast.AST, list[Outcome]] = defaultdict(list)
        self._bodies: dict[ast.AST, Body] = {}
        self._previous = previous if previous is not None and self._is_alike(previous) else None
        self._checked: dict[int, bool] = {}
        self.derivations = Derivations(previous.derivations if previous is not None else None)
        self._mentions = mentions_of(tree, previous._mentions if previous is not None else {})
        self._reassigned = united(mentions.reassigned for mentions in self._mentions.values())
        self._active: list[ast.AST] = []
        self._followed = [0, 0]
        self._main = Frame(self, State({}), scope=self.scope, recording=self.recording)
        execute_block(self._main, tree.body)
        self.evaluate_functions()
        self._previous = None

    @property
    def globals(self) -> dict[str, Value]:
        """The names of the module, as far as it has been executed."""
        return self._main.state.names

    @property
    def links_version(self) -> object:
        """What tells the state of the other files that the facts rest on from another."""
        return self.links.version if self.links is not None else None

    @property
    def questions(self) -> frozenset[str]:
        """The imported names whose nature the file does not tell."""
        return frozenset(self.notes.questions)

    def look_up(self, name: str) -> Value:
        """Return what a name means outside of functions."""
        if name in self.globals:
            return self.globals[name]
        if name in _BUILTINS and not self.has_star_import:
            return Reference(f"builtins.{name}")
        return UNKNOWN

    # -- definitions ---------------------------------------------------------------------------------------------

    def add_function(self, function: Function, frame: Frame) -> None:
        """Note a function whose body is still to be evaluated on its own."""
        if frame.recording is not None and not frame.in_class_body:
            self._define_functions([(function, frame)])

    def _define_functions(self, functions: list[tuple[Function, Frame]]) -> None:
        self.functions.extend(functions)
        self.notes.functions.extend(functions)

    def define_class(
        self, frame: Frame, node: ast.ClassDef, bases: tuple[Value, ...], members: Mapping[str, Value]
    ) -> Class:
        """Make the class of a class statement whose body has been executed."""
        inherited = [Reference(a) for b in bases if isinstance(b, Reference) for a in self.ancestry(b.name) or ()]
        if self.scope is not None:
            bases = tuple((self.linked(b.name) or b) if isinstance(b, Reference) else b for b in bases)
        owned: dict[str, Value] = {}
        cls = Class(node.name, node, (*bases, *inherited), owned)
        for name, member in members.items():
            owned[name] = replace(member, owner=cls) if isinstance(member, Function) else member
        if frame.recording is not None:
            self.classes.append(cls)
            self.notes.classes.append(cls)
            self._define_functions([(m, frame) for m in owned.values() if isinstance(m, Function) and m.owner is cls])
        return cls

    def ancestry(self, name: str) -> tuple[str, ...] | None:
        """Return the full names of an imported class and its bases, or of the class that a function returns.

        None where nobody has told yet, or the name is of another nature; the name becomes a question.
        """
        if name not in self.known and name.partition(".")[0] not in WELL_KNOWN and not name.startswith(OTHERS):
            self.notes.questions.add(name)
        return self.known.get(name)

    def imported(self, name: str) -> str:
        """Return the name that stands for what an import of the file brings."""
        return name

    def linked(self, name: str) -> Value | None:
        """Return the function or class of another file that an imported name stands for, as far as it is known."""
        if self.links is None or name.partition(".")[0] in WELL_KNOWN:
            return None
        return self.links.find(name)

    def star_import(self) -> None:
        """``from package import *``: from here on, a name that nothing binds may come from there."""
        self.has_star_import = True

    # -- objects -------------------------------------------------------------------------------------------------

    def construct(self, cls: Class, arguments: Arguments, node: ast.expr) -> Object:
        """Return an instance of a class of the file."""
        made = Object(cls.name, node, arguments, cls)
        chosen = given_device(made)
        device = self.default_device if chosen is None else device_name(chosen)
        made = replace(made, device=device if made.is_module else None)
        self._note_instance(made)
        outcome = self._initialized(made)
        return made if outcome is None else settled_as(made, outcome)

    def _note_instance(self, made: Object) -> None:
        assert made.cls is not None
        self.notes.instances.append(made)
        known = self.instances[made.cls.node]
        if made not in known and len(known) < MAX_CALLERS and not is_elsewhere(made.cls.node):
            known.append(made)

    def attribute(self, owner: Object, name: str) -> Value | None:
        """Return an attribute of an object; None where nothing tells."""
        held = self._attribute(owner, name)
        if held is not None and owner.cls is not None and is_elsewhere(owner.cls.node):
            held = anchored(held, None)
        if isinstance(held, Tensor):  # an object's state may have been filled since, and is no data
            held = replace(held, range=ANY)
        if isinstance(held, Tensor) and held.parameter and (self.freezes or _freezes_elsewhere(owner)):
            return replace(held, requires_grad=None)
        return held

    def _attribute(self, owner: Object, name: str) -> Value | None:
        if owner.cls is None:
            return modules.object_attribute(owner, name)
        member = owner.cls.member(name)
        if isinstance(member, Function):
            return bound(member, owner)
        if self._is_reassigned(name, owner.cls):
            return UNKNOWN
        held = self.attributes(owner).get(name) or field(owner, name)
        if held is None:
            return None if has_fields(owner.cls) else member
        if isinstance(held, Sequence) and self._is_reassigned(f"{name}[]", owner.cls):
            return Sequence(held.kind)
        held_modules = isinstance(held, Object) and iteration.contained_modules(held)
        if held_modules and self._is_reassigned(f"{name}[]", owner.cls):
            return UNKNOWN
        return moved_with(owner, held)

    def attributes(self, owner: Object) -> Mapping[str, Value]:
        """Return what ``__init__`` assigns to the attributes of an object, given how it was constructed."""
        outcome = self._initialized(owner)
        return {} if outcome is None else outcome.attributes

    def _initialized(self, owner: Object) -> Outcome | None:
        """Return what came of the ``__init__`` of an object; None where the file shows none, or it is under way."""
        init = owner.cls.member("__init__") if owner.cls else None
        if not isinstance(init, Function):
            return None
        if init.node in self._active:
            self.notes.truncated = True
            return None
        receiver = replace(owner, device=self.default_device, training=None, frozen=False)
        return self._outcome(replace(init, receiver=receiver), owner.arguments, True, OFF, depth=1)

    def item(self, owner: Object, index: Value) -> Value:
        """Return ``owner[index]`` for containers of modules and for batches."""
        held = iteration.contained_modules(owner)
        if held is None:
            return iteration.batch_item(owner)
        if held.items is not None and isinstance(index, Constant) and isinstance(index.value, int):
            inside = -len(held.items) <= index.value < len(held.items)
            return moved_with(owner, held.items[index.value]) if inside else UNKNOWN
        return moved_with(owner, element_of(held))

    def _is_reassigned(self, attribute: str, owner: Class | None = None) -> bool:
        """Say whether an attribute of this name is assigned anywhere outside an ``__init__``."""
        answer = attribute in self._reassigned
        self.notes.reads[f".{attribute}"] = Constant(answer)
        homes = [home_of(cls) for cls in owner.lineage()] if owner is not None else []
        return answer or any(home is not None and attribute in home._reassigned for home in homes)

    # -- functions -----------------------------------------------------------------------------------------------

    def follow(self, frame: Frame, function: Function, arguments: Arguments, node: ast.expr) -> Value:
        """Return the result of a call to a function of the file, evaluated with these arguments."""
        grad, autocast = frame.state.grad, frame.state.autocast
        self._note_call(function, CallSite(node, arguments, function.receiver, grad, autocast))
        elsewhere = is_elsewhere(function.node)
        deepest, most = (MAX_DEPTH_ELSEWHERE, MAX_FOLLOWED_ELSEWHERE) if elsewhere else (MAX_DEPTH, MAX_FOLLOWED)
        if function.node in self._active or frame.depth >= deepest or self._followed[elsewhere] >= most:
            self.notes.truncated = self.notes.truncated or not elsewhere or self._followed[elsewhere] >= most
            return UNKNOWN
        outcome = self._outcome(function, arguments, grad, autocast, frame.depth + 1)
        if outcome.ran_backward:
            frame.state.saved.clear()
            frame.ran_backward = True
        if frame.function is not None and frame.function.receiver is not None:
            adopt_attributes(frame, frame.function, outcome)
        result = anchored(outcome.result, node) if elsewhere else outcome.result
        return given_back(frame, result, arguments, node)

    def _note_call(self, function: Function, site: CallSite) -> None:
        if is_elsewhere(function.node):
            return
        self.notes.sites.append((function, site))
        known = self.callers[function.node]
        if site not in known and len(known) < MAX_CALLERS:
            known.append(site)

    def _outcome(
        self, function: Function, arguments: Arguments, grad: bool | None, autocast: Autocast, depth: int
    ) -> Outcome:
        known = self._known_outcome(function, arguments, grad, autocast)
        if known is not None:
            return known
        self._followed[is_elsewhere(function.node)] += 1
        with self._noting() as notes:
            outcome = self._run(function, arguments, grad, autocast, notes, depth=depth)
        if len(self._outcomes[function.node]) < MAX_MEMO:
            self._outcomes[function.node].append(outcome)
        return outcome

    def _known_outcome(
        self, function: Function, arguments: Arguments, grad: bool | None, autocast: Autocast
    ) -> Outcome | None:
        """Return the outcome of the same call, of this version or of the one before where that still holds."""
        for outcome in self._outcomes[function.node]:
            if outcome.answers(function, arguments, grad, autocast):
                self.notes.add(outcome.notes)
                return outcome
        if self._previous is None:
            return None
        for outcome in self._previous._outcomes.get(function.node, ()):
            if outcome.answers(function, arguments, grad, autocast) and self._still_holds(outcome.notes):
                self._outcomes[function.node].append(outcome)
                self._replay(outcome.notes)
                return outcome
        return None

    def _run(
        self,
        function: Function,
        arguments: Arguments,
        grad: bool | None,
        autocast: Autocast,
        notes: Notes,
        *,
        recording: Recording | None = None,
        depth: int = 0,
    ) -> Outcome:
        state = State({}, grad, autocast)
        names = names_around(function.scope)
        frame = Frame(self, state, scope=names, function=function, recording=recording, depth=depth)
        calls.bind_parameters(frame, function, arguments)
        contexts.enter_decorators(frame, function.node)
        self._execute(frame, function.node)
        end = frame.exit_state.joined(frame.state) if frame.exit_state is not None else frame.state
        receiver = self_name(function) if function.receiver is not None else None
        assigned = {name: v for name, v in end.names.items() if "." in name or name == receiver}
        result = UNKNOWN if frame.result is None else frame.result
        frame.retire()
        return Outcome(function, arguments, grad, autocast, result, assigned, frame.ran_backward, notes)

    def _execute(self, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self._active.append(node)
        try:
            if isinstance(node, ast.Lambda):
                frame.leave(frame.evaluate(node.body))
            elif execute_block(frame, node.body) and frame.result is not None:
                frame.result = join(frame.result, NONE)
        finally:
            self._active.pop()
        if isinstance(node, ast.AsyncFunctionDef):
            frame.result = UNKNOWN

    # -- notes: what an outcome depends on -----------------------------------------------------------------------

    @contextmanager
    def _noting(self) -> Generator[Notes]:
        """Note what happens inside apart, and then for whatever it happens in."""
        outer, self.notes = self.notes, Notes()
        try:
            yield self.notes
        finally:
            outer.add(self.notes)
            self.notes = outer

    def _is_alike(self, previous: ModuleFacts) -> bool:
        """Say whether what holds for the whole file is as it was."""
        mine, theirs = ((f.default_device, f.default_dtype, f.known, f.links_version) for f in (self, previous))
        return mine == theirs

    def _still_holds(self, notes: Notes) -> bool:
        """Say whether all that an evaluation of the version before read is unchanged."""
        if notes.truncated:
            return False
        answer = self._checked.get(id(notes))
        if answer is None:
            answer = all(self._current(name) == value for name, value in notes.reads.items())
            self._checked[id(notes)] = answer
        return answer

    def _current(self, name: str) -> Value:
        return Constant(self._is_reassigned(name[1:])) if name.startswith(".") else self.look_up(name)

    def _replay(self, notes: Notes) -> None:
        """Make known again what an evaluation had made known that need not be repeated."""
        for function, site in notes.sites:
            self._note_call(function, site)
        for made in notes.instances:
            self._note_instance(made)
        self.notes.reads.update(notes.reads)
        self.notes.questions.update(notes.questions)

    # -- every function on its own -------------------------------------------------------------------------------

    def evaluate_functions(self) -> None:
        """Evaluate every body once on its own: those that nobody in the file calls first, then their callees."""
        named = united(mentions.names for mentions in self._mentions.values())
        variables = united(mentions.variables for mentions in self._mentions.values())
        seen = 0
        waiting: dict[ast.AST, Function] = {}
        while True:
            waiting.update((f.node, f) for f, _ in self.functions[seen:] if f.node not in self._bodies)
            seen, known_calls = len(self.functions), len(self.callers)
            for function in [f for f in waiting.values() if self._is_root(f, variables if f.owner is None else named)]:
                self.evaluate_at_home(waiting.pop(function.node))
            while waiting and len(self.callers) == known_calls and len(self.functions) == seen:
                self.evaluate_at_home(waiting.pop(next(iter(waiting))))
            if not waiting and len(self.functions) == seen:
                return

    def _is_root(self, function: Function, named: frozenset[str]) -> bool:
        """Say whether a function's callers are known by now: some are, or the file nowhere names it."""
        if isinstance(function.node, ast.Lambda):
            return True
        return function.node in self.callers or function.node.name not in named

    def evaluate_at_home(self, function: Function) -> None:
        """Evaluate a body on its own, with what is known of its callers."""
        sites = self.callers.get(function.node, [])
        if function.owner is not None and not is_static(function):
            function = replace(function, receiver=self._receiver(function, sites))
        arguments = join_arguments(site.arguments for site in sites) if sites else self._constructed_with(function)
        grad = _agreed([site.grad for site in sites]) if sites else True
        autocast = _agreed([site.autocast for site in sites]) if sites else OFF
        body = self._known_body(function, arguments, grad, autocast)
        if body is None:
            recording = Recording()
            with self._noting() as notes:
                outcome = self._run(function, arguments, grad, autocast, notes, recording=recording)
            body = Body(outcome, recording)
        self._bodies[function.node] = body
        self.recording.add(body.recording)

    def _known_body(
        self, function: Function, arguments: Arguments, grad: bool | None, autocast: Autocast
    ) -> Body | None:
        body = self._previous._bodies.get(function.node) if self._previous is not None else None
        if body is None or not body.outcome.answers(function, arguments, grad, autocast):
            return None
        notes = body.outcome.notes
        if not self._still_holds(notes):
            return None
        self._replay(notes)
        self._define_functions(notes.functions)
        self.classes.extend(notes.classes)
        return body

    def _constructed_with(self, function: Function) -> Arguments:
        if function.owner is None or isinstance(function.node, ast.Lambda) or function.node.name != "__init__":
            return _GENERIC
        known = self.instances.get(function.owner.node, [])
        return join_arguments(made.arguments for made in known) if known else _GENERIC

    def is_called(self, function: ast.AST) -> bool:
        """Say whether a function has callers that are known."""
        return function in self.callers

    def body_of(self, function: ast.AST) -> Body | None:
        """Return what evaluating a function's body has found out; None where it was not evaluated."""
        return self._bodies.get(function)

    def ground_of(self, function: ast.AST) -> Ground | None:
        """Return the evaluations that what is known within a function rests on; None where it was not evaluated."""
        body = self._bodies.get(function)
        if body is None:
            return None
        return (body, *(self._bodies.get(node) for node in body.dependencies))

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


def _freezes_elsewhere(owner: Object) -> bool:
    homes = [home_of(cls) for cls in owner.cls.lineage()] if owner.cls is not None else []
    return any(home is not None and home.freezes for home in homes)


Mode = TypeVar("Mode")


def _agreed(modes: list[Mode]) -> Mode | None:
    return modes[0] if all(mode == modes[0] for mode in modes) else None
