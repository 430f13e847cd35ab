"""Reading the steps of training off the statements and calls of a body."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from drygrad.static.context import Context, Loop
from drygrad.static.facts.operations import LOSSES
from drygrad.static.facts.values import UNKNOWN, Class, Function, Object, Reference, Tensor, TorchCall
from drygrad.static.roles import Role, role_of, role_of_value
from drygrad.static.steps.events import Block, Body, Branch, Event, Kind
from drygrad.static.syntax import argument, bound_names
from drygrad.static.tree import children, remembered, walk
from drygrad.static.uses import text_of

MAX_EVENTS = 500
"""What a body may show, its helpers included; more is not a training loop."""
_UNSEEN_NAMES = re.compile(
    r"step|train|update|zero|optim|backward|closure|hook|callback|fit|learn|trainer|engine", re.I
)
_ZEROING = re.compile(r"(zero|reset|clear)_?grad", re.I)
_LIBRARIES = ("torch.", "builtins.", "numpy.", "math.", "time.", "logging.", "os.", "random.", "copy.deepcopy", "tqdm.")
_ENGINES = re.compile(r"(accelerator|fabric|engine|trainer)$", re.I)
_LOSSES = re.compile(r"loss|objective|cost|error", re.I)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in its body a statement stands."""

    statement: ast.stmt
    loops: tuple[Loop, ...] = ()
    branches: tuple[Branch, ...] = ()
    blocks: tuple[Block, ...] = ()


class Reader:
    """Reads each body of a file once; a caller is given its helpers' events as seen from there."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._known: dict[ast.AST, tuple[Event, ...]] = {}
        self._scaled: dict[str, str] = {}

    def events_of(self, body: Body) -> tuple[Event, ...]:
        """Return the events of a body, as it names things itself."""
        if body not in self._known:
            self._known[body] = ()
            events: list[Event] = []
            outer, self._scaled = self._scaled, {}
            for event in self._block(body.body, None):
                events.append(event)
                if len(events) >= MAX_EVENTS:
                    break
            self._known[body] = tuple(events)
            self._scaled = outer
        return self._known[body]

    # -- statements ----------------------------------------------------------------------------------------------

    def _block(self, statements: list[ast.stmt], place: _Place | None) -> Iterator[Event]:
        for statement in statements:
            here = _Place(statement, place.loops, place.branches, place.blocks) if place else _Place(statement)
            yield from self._statement(statement, here)

    def _statement(self, node: ast.stmt, place: _Place) -> Iterator[Event]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return
            case ast.For() | ast.AsyncFor() | ast.While():
                yield from self._loop(node, place)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    yield from self._expression(item.context_expr, place)
                yield from self._block(node.body, replace(place, blocks=(node, *place.blocks)))
            case ast.If() | ast.Try() | ast.Match():
                yield from self._branching(node, place)
            case _:
                self._note_scaled(node)
                yield from self._expression(node, place)
                yield from _edits_of_gradients(node, place)
                yield from _updates_by_hand(node, place)

    def _loop(self, node: Loop, place: _Place) -> Iterator[Event]:
        inner = replace(place, loops=(node, *place.loops))
        if isinstance(node, ast.While):
            yield from self._expression(node.test, inner)
        else:
            yield from self._expression(node.iter, place)
        yield from self._block(node.body, inner)
        yield from self._block(node.orelse, place)

    def _branching(self, node: ast.If | ast.Try | ast.Match, place: _Place) -> Iterator[Event]:
        if isinstance(node, ast.Try):
            yield from self._block(node.body, place)
            parts = [(f"except {i}", handler.body) for i, handler in enumerate(node.handlers)]
        elif isinstance(node, ast.Match):
            yield from self._expression(node.subject, place)
            parts = [(f"case {i}", case.body) for i, case in enumerate(node.cases)]
        else:
            yield from self._expression(node.test, place)
            parts = [("body", node.body), ("orelse", node.orelse)]
        for name, statements in parts:
            yield from self._block(statements, replace(place, branches=(*place.branches, (node, name))))
        if isinstance(node, ast.Try):
            yield from self._block([*node.orelse, *node.finalbody], place)

    def _note_scaled(self, node: ast.stmt) -> None:
        """``scaled = scaler.scale(loss)``: a backward of that name is scaled."""
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            scaler = self._scaler_of(node.value)
            if scaler is not None:
                self._scaled[node.targets[0].id] = scaler
            else:
                self._scaled.pop(node.targets[0].id, None)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _expression(self, node: ast.AST, place: _Place) -> Iterator[Event]:
        for call in _calls(node):
            events = list(self._call(call, place))
            yield from events if events else self._followed(call, place)

    def _call(self, node: ast.Call, place: _Place) -> Iterator[Event]:
        function = node.func
        torch_call = self.ctx.call(node)
        name = torch_call.target if torch_call and torch_call.form == "function" else None
        if name is not None:
            kind = _function_kind(name)
            if kind is not None:
                yield self._event(kind, node, place, text_of(_unwrapped(node.args[0])) if node.args else None)
        elif isinstance(function, ast.Attribute) and not self._is_own_method(node, function):
            yield from self._method(node, function, place)
        if isinstance(function, (ast.Name, ast.Attribute, ast.Subscript)) or torch_call is not None:
            yield from self._evaluation(node, torch_call, place)

    def _method(self, node: ast.Call, function: ast.Attribute, place: _Place) -> Iterator[Event]:
        method, owner = function.attr, function.value
        text, role = text_of(_unwrapped(owner)), role_of(self.ctx, owner)
        match method:
            case "backward" if self._is_backward(owner, role):
                engine = frozenset({"engine"}) if self._is_engine(node, owner, text) else frozenset[str]()
                loss = text_of(owner)
                yield self._event("backward", node, place, loss, scaler=self._scaler_of(owner), roles=engine)
            case "manual_backward":
                yield self._event("backward", node, place, text, roles=frozenset({"engine"}))
            case "step" if role == "optimizer":
                yield from self._step(node, text, place)
            case "step" if role == "scaler":
                yield self._event("step", node, place, _first_argument(node), scaler=text)
            case "step" if role == "scheduler" and len(node.args) <= 1:
                yield self._event("scheduler_step", node, place, text)
            case "unscale_" if role == "scaler":
                yield self._event("unscale", node, place, _first_argument(node), scaler=text)
            case "update" | "scale" if role == "scaler":
                yield self._event(method, node, place, _first_argument(node), scaler=text)
            case "train" | "eval" if not node.args or method == "train":
                mode = node.args[0] if node.args else None
                off = method == "eval" or (isinstance(mode, ast.Constant) and not mode.value)
                if role in ("model", None):
                    yield self._event("eval" if off else "train", node, place, text)
            case "load_state_dict" if role == "model":
                yield self._event("load", node, place, text)
            case _ if method.startswith("clip_grad_"):
                yield self._event("clip", node, place, text)
            case "zero_" if _is_gradient(owner):
                yield self._event("zero_grad", node, _for_all(place, owner), None)
            case "mul_" | "div_" | "copy_" | "lerp_" if _is_gradient(owner):
                yield self._event("grad_edit", node, _for_all(place, owner), None)
            case _ if _ZEROING.search(method) and not self._followable(node):
                yield self._event("zero_grad", node, place, text, roles=frozenset({role} if role else ()))
            case _:
                pass

    def _is_own_method(self, node: ast.Call, function: ast.Attribute) -> bool:
        """Say whether a class of the file, which takes no part in training by its type, defines what is called."""
        owner = self.ctx.value(function.value)
        own = isinstance(owner, Object) and owner.cls is not None and role_of_value(owner) == "other"
        return own and self._followable(node) is not None

    def _is_backward(self, owner: ast.expr, role: Role | None) -> bool:
        return not isinstance(self.ctx.value(owner), (Class, Reference)) and role not in ("model", "scheduler")

    def _is_engine(self, node: ast.Call, owner: ast.expr, text: str | None) -> bool:
        """Say whether what is no tensor is given the loss: it may scale it, or divide it, or do more."""
        if isinstance(self.ctx.value(owner), Object):
            return True
        given = text_of(node.args[0]) if node.args else None
        named = text is not None and bool(node.args) and _ENGINES.search(text)
        loss = given is not None and _LOSSES.search(given) and not isinstance(self.ctx.value(owner), Tensor)
        return bool(named or loss)

    def _step(self, node: ast.Call, text: str | None, place: _Place) -> Iterator[Event]:
        closure = argument(node, "closure", 0)
        function = self.ctx.value(closure)
        if isinstance(function, Function) and not isinstance(function.node, ast.Lambda):
            for event in self.events_of(function.node):
                yield self._seen_from(event, node, place, {})
        yield self._event("step", node, place, text, closure=closure is not None)
        if any(keyword.arg == "zero_grad" for keyword in node.keywords):
            yield self._event("zero_grad", node, place, text, roles=frozenset({"optimizer"}))

    def _evaluation(self, node: ast.Call, call: TorchCall | None, place: _Place) -> Iterator[Event]:
        role = role_of(self.ctx, node.func)
        if role == "loss" or (call is not None and call.operation in LOSSES):
            yield self._event("loss", node, place, text_of(node.func))
        elif role == "model":
            yield self._event("forward", node, place, text_of(_unwrapped(node.func)))

    def _scaler_of(self, node: ast.expr) -> str | None:
        """Return the scaler of ``scaler.scale(loss)``, or of a name for that."""
        if isinstance(node, ast.Name):
            return self._scaled.get(node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "scale":
            owner = node.func.value
            return (text_of(owner) or "scaler") if role_of(self.ctx, owner) == "scaler" else None
        return None

    def _event(
        self,
        kind: Kind,
        node: ast.Call,
        place: _Place,
        receiver: str | None,
        *,
        scaler: str | None = None,
        roles: frozenset[str] = frozenset(),
        closure: bool = False,
    ) -> Event:
        return Event(
            kind,
            node,
            place.statement,
            place.statement,
            receiver,
            scaler,
            place.loops,
            place.branches,
            place.blocks,
            roles=roles,
            closure=closure,
        )

    # -- helpers -------------------------------------------------------------------------------------------------

    def _followable(self, node: ast.Call) -> Function | None:
        value = self.ctx.value(node.func)
        if isinstance(value, Object) and value.cls is not None and not value.is_module:
            member = value.cls.member("__call__")
            value = replace(member, receiver=value) if isinstance(member, Function) else value
        return value if isinstance(value, Function) and not isinstance(value.node, ast.Lambda) else None

    def _followed(self, node: ast.Call, place: _Place) -> Iterator[Event]:
        function = self._followable(node)
        if function is not None and not isinstance(function.node, ast.Lambda):
            names = _arguments_by_parameter(function, node)
            for event in self.events_of(function.node):
                yield self._seen_from(event, node, place, names)
            return
        roles = self._given(node)
        if roles:
            yield self._event("unseen", node, place, text_of(node.func), roles=roles)

    def _seen_from(self, event: Event, node: ast.Call, place: _Place, names: Mapping[str, str | None]) -> Event:
        return replace(
            event,
            anchor=place.statement,
            receiver=_renamed(event.receiver, names),
            scaler=_renamed(event.scaler, names),
            loops=event.loops + place.loops,
            branches=place.branches + event.branches,
            blocks=event.blocks + place.blocks,
            via=(node, *event.via),
        )

    def _given(self, node: ast.Call) -> frozenset[str]:
        """Return what a call of unseen code is given that it could take a step with."""
        if isinstance(self.ctx.value(node.func), Class) or self._is_library(node):
            return frozenset()
        arguments = (*node.args, *(keyword.value for keyword in node.keywords))
        given: set[str] = {
            role for a in arguments if (role := role_of(self.ctx, a)) and role not in ("other", "tensor")
        }
        if any(isinstance(a, ast.Name) and a.id == "self" for a in arguments):
            given |= {"name", "self"}
        text = text_of(node.func) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
        if _UNSEEN_NAMES.search(text.rpartition(".")[2]) or _UNSEEN_NAMES.search(text.partition(".")[0]):
            given.add("name")
        return frozenset(given)

    def _is_library(self, node: ast.Call) -> bool:
        name = self.ctx.name(node.func)
        if name is not None:
            return name.startswith(_LIBRARIES)
        owner = self.ctx.value(node.func.value) if isinstance(node.func, ast.Attribute) else UNKNOWN
        if isinstance(node.func, ast.Attribute) and role_of(self.ctx, node.func.value) in ("scaler", "optimizer"):
            return True
        return isinstance(self.ctx.value(node.func), Class) or (owner is not UNKNOWN and not _is_own(owner))


def _is_own(owner: object) -> bool:
    """Say whether methods of an object may be those of the file or of a base class elsewhere."""
    return getattr(owner, "cls", None) is not None or not getattr(owner, "type", "torch.").startswith("torch.")


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in an expression in the order in which they run."""
    inside = _calls_inside(node)
    return chain(inside, (node,)) if isinstance(node, ast.Call) else inside


@remembered
def _calls_inside(node: ast.AST) -> Iterator[ast.Call]:
    if not isinstance(node, ast.Lambda):
        for child in children(node):
            yield from _calls(child)


def _function_kind(name: str) -> Kind | None:
    if name.startswith("torch.nn.utils.clip_grad"):
        return "clip"
    if name == "torch.autograd.backward":
        return "backward"
    return "autograd_grad" if name == "torch.autograd.grad" else None


def _unwrapped(node: ast.expr) -> ast.expr:
    """Return the object behind ``model.parameters()`` and ``model.module``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "parameters":
        node = node.func.value
    return node.value if isinstance(node, ast.Attribute) and node.attr == "module" else node


def _first_argument(node: ast.Call) -> str | None:
    return text_of(node.args[0]) if node.args else None


def _edits_of_gradients(node: ast.stmt, place: _Place) -> Iterator[Event]:
    """``p.grad = None`` clears a gradient; ``p.grad /= 2`` and ``p.grad = g`` change one."""
    match node:
        case ast.Assign(targets=targets, value=ast.Constant(value=None)) | ast.Delete(targets=targets):
            kind: Kind = "zero_grad"
        case ast.Assign(targets=targets):
            kind = "grad_edit"
        case ast.AugAssign(target=target):
            kind, targets = "grad_edit", [target]
        case _:
            return
    gradient = next((target for target in targets if _is_gradient(target)), None)
    if gradient is not None:
        yield _done_to(kind, gradient, None, node, place)


def _updates_by_hand(node: ast.stmt, place: _Place) -> Iterator[Event]:
    """``w -= lr * w.grad``, ``p.data.add_(p.grad, alpha=-lr)``: a step that is taken by hand, in place."""
    match node:
        case ast.AugAssign(target=target, value=value):
            pass
        case ast.Assign(targets=[ast.Attribute(attr="data") as target], value=value):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=method)) as value) if method.endswith("_"):
            pass
        case _:
            return
    if _is_gradient(target):
        return
    updated = ast.unparse(target).removesuffix(".data")
    if any(isinstance(n, ast.Attribute) and n.attr == "grad" and ast.unparse(n.value) == updated for n in walk(value)):
        yield _done_to("hand_step", target, updated, node, place)


def _done_to(kind: Kind, target: ast.expr, receiver: str | None, node: ast.stmt, place: _Place) -> Event:
    loops = _for_all(place, target).loops
    return Event(kind, node, node, node, receiver, loops=loops, branches=place.branches, blocks=place.blocks)


def _is_gradient(node: ast.expr) -> bool:
    return ".grad" in f".{text_of(node) or ''}".removesuffix(".data")[1:]


def _for_all(place: _Place, target: ast.expr) -> _Place:
    """Return the place of what is done to a parameter: a loop over parameters is one step as a whole."""
    names = {node.id for node in walk(target) if isinstance(node, ast.Name)}
    loops = place.loops
    while loops and isinstance(loops[0], ast.For) and not names.isdisjoint(bound_names(loops[0].target)):
        names |= {node.id for node in walk(loops[0].iter) if isinstance(node, ast.Name)}
        loops = loops[1:]
    return replace(place, loops=loops)


def _arguments_by_parameter(function: Function, node: ast.Call) -> dict[str, str | None]:
    """Return what the caller calls the things that the parameters of a helper stand for."""
    parameters = [a.arg for a in (*function.node.args.posonlyargs, *function.node.args.args)]
    given = [text_of(a) for a in node.args]
    if function.receiver is not None:
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr == getattr(function.node, "name", "")
        given.insert(0, text_of(node.func.value if is_method and isinstance(node.func, ast.Attribute) else node.func))
    names = dict(zip(parameters, given, strict=False))
    names |= {k.arg: text_of(k.value) for k in node.keywords if k.arg is not None}
    return names


def _renamed(text: str | None, names: Mapping[str, str | None]) -> str | None:
    if text is None:
        return None
    first = re.split(r"[.\[]", text, maxsplit=1)[0]
    if first not in names:
        return text
    name = names[first]
    return None if name is None else name + text[len(first) :]
