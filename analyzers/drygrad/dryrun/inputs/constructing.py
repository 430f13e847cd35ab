"""Objects of the file's classes, made by their constructors, whose parameters are themselves proposed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from drygrad.dryrun.inputs import annotations, conventions
from drygrad.dryrun.inputs.arguments import FunctionNode, missing_parameters
from drygrad.dryrun.inputs.bare import bare
from drygrad.dryrun.inputs.forwarding import handed_on
from drygrad.dryrun.inputs.frames import has_no_self
from drygrad.dryrun.inputs.gradients import PARAMETERS
from drygrad.dryrun.inputs.neighbours import Neighbours
from drygrad.dryrun.inputs.nodes import Node, call, group, texts
from drygrad.dryrun.inputs.offering import offers
from drygrad.dryrun.inputs.preparing import preparations
from drygrad.dryrun.inputs.recognising import OF_MODULES, is_module, is_used, own_members
from drygrad.dryrun.inputs.siblings import with_optimizers
from drygrad.dryrun.inputs.tracing import Tracer
from drygrad.dryrun.inputs.usage import Usage
from drygrad.dryrun.slicing import free_of_text
from drygrad.dryrun.targets import definitions

SOURCE = "constructor"
_DEPTH = 4
_OFFERED = 2
"""How deep in others an object may be for its options to be offered."""
_WHOLE = re.compile(r"Net|Model|CNN|Classifier|Former|former|MLP|LSTM|RNN")
_REGISTERING = frozenset("register_buffer register_parameter add_module register_module setattr".split())
_PLAIN = frozenset("object ABC Module Generic Protocol".split())
_ABSTRACT = frozenset(("ABC", "Protocol", "Enum", "IntEnum", "StrEnum"))
_REPEATED = 32
"""How often what fills an object is done where it takes its time."""
_OFTEN = 128
"""How often it is done else: as many as a batch may have."""


class _Proposer(Protocol):
    offers: bool

    def of(self, usage: Usage, depth: int = 0) -> Node: ...


class Constructors:
    """The classes of a file and how to make objects of them."""

    def __init__(self, tree: ast.Module, tracer: Tracer, proposer: _Proposer, neighbours: Neighbours) -> None:
        self._tracer = tracer
        self._proposer = proposer
        found = [(name, node) for name, node in definitions(tree.body) if isinstance(node, ast.ClassDef)]
        self._classes = dict(found)
        self._names = {**neighbours.texts, **{id(node): name for name, node in found}}
        imported = {name: node for name, node in neighbours.imported.items() if isinstance(node, ast.ClassDef)}
        self._reachable = {**imported, **self._classes}
        self._neighbours = neighbours
        self._making: list[ast.ClassDef] = []

    def has(self, name: str) -> bool:
        """Say whether the file or one that it imports from defines a class of that name."""
        return self._tracer.class_named(name) is not None

    def object_named(self, name: str, usage: Usage, depth: int = 0) -> Node | None:
        """Return an object of a class of the file; None where there is no such class or it cannot be made."""
        owner = self._tracer.class_named(name)
        return self.object_of(owner, usage, depth) if owner is not None else None

    def completed(self, owner: ast.ClassDef, method: FunctionNode) -> ast.ClassDef:
        """Return a class that has the same method, and all that it calls and reads where a class leaves some open."""
        if not self._is_open(owner) or _is_left_open(method):
            return owner
        for node in self._below(owner, self._classes.values()):
            is_below = node is not owner and owner in self._tracer.ancestry(node)
            if is_below and not self._is_open(node) and self._tracer.member(node, method.name) is method:
                return node
        return owner

    def _below(self, owner: ast.ClassDef, near: Iterable[ast.ClassDef]) -> Iterator[ast.ClassDef]:
        """Yield the classes that could derive from one: those at hand, then those of the rest of the package."""
        near = [*near]
        yield from near
        known = {owner.name, *(node.name for node in near if owner in self._tracer.ancestry(node))}
        yield from self._neighbours.derived(known)

    def _is_open(self, owner: ast.ClassDef) -> bool:
        methods = self._tracer.methods(owner).values()
        return any(_is_left_open(method) for method in methods) or self._lacks_something(owner)

    def _lacks_something(self, owner: ast.ClassDef) -> bool:
        """Say whether methods read of their object what neither the class nor one of its bases gives it."""
        bases = [base for node in self._tracer.ancestry(owner) for base in node.bases]
        if not all(annotations.last_name(base) in _PLAIN or self.has(annotations.last_name(base)) for base in bases):
            return False
        methods = self._tracer.methods(owner)
        read = {name for method in methods.values() for name in _read_of_self(method)}
        given = {name for node in self._tracer.ancestry(owner) for name in _given_by(node)}
        return "__getattr__" not in methods and bool(read - given - OF_MODULES)

    def object_of(self, owner: ast.ClassDef, usage: Usage | None = None, depth: int = 0) -> Node | None:
        """Return a call of a class; None where its constructor calls for more than can be proposed.

        ``usage`` is how the object is used, where it is followed as one of this class.
        """
        name = self._names.get(id(owner)) or self._neighbours.texts.get(id(owner))
        if name is None or depth > _DEPTH or owner in self._making:
            return None
        if _is_enumeration(owner):
            return _first_member(owner, name)
        if any(annotations.last_name(base) in _ABSTRACT for base in owner.bases) or self._is_abstract(owner):
            return self._concrete(owner, usage, depth)
        self._making.append(owner)
        try:
            return self._made(owner, name, usage, depth)
        finally:
            self._making.pop()

    def _made(self, owner: ast.ClassDef, name: str, usage: Usage | None, depth: int) -> Node | None:
        made = usage if usage is not None and usage.owner is owner else Usage(owner=owner)
        if usage is not None and made is not usage:
            made.attributes |= usage.attributes
        used = self._tracer.constructor(made)
        constructor = self._constructor(owner)
        if constructor is None:
            wanted = _fields(self._tracer, owner) if _declares(self._tracer, owner) else []
        elif constructor.args.posonlyargs:
            return None
        else:
            receiver = constructor.args.args[0].arg if constructor.args.args else None
            wanted = missing_parameters(constructor, receiver, ())
            wanted += [n for n in handed_on(self._tracer.ancestry(owner)) if n not in wanted]
        every = used
        used = {parameter: used.get(parameter) or Usage([parameter]) for parameter in wanted}
        if constructor is not None:
            for parameter in used.values():
                parameter.kinds.add("setting")
        parts = with_optimizers({p: self._proposer.of(u, depth + 1) for p, u in used.items()}, used)
        if "params" in parts and self._is_optimizer(owner):
            parts["params"] = {"kind": "text", "text": PARAMETERS, "source": SOURCE}
        is_mapping = any(annotations.last_name(base) == "TypedDict" for base in owner.bases)
        found = group("mapping", parts) if is_mapping else call(name, _shared_first(parts), SOURCE)
        if constructor is not None and not is_mapping and depth < _OFFERED:
            found = {**found, "options": [*offers(constructor, every, wanted, self._proposer, depth + 1)]}
        return {**found, "is_module": True} if self._is_module(owner) else found

    def prepared(self, made: Node, usage: Usage, called: Sequence[FunctionNode]) -> Node:
        """Return an object as it is after the methods that those rely on that are called; else as it is made."""
        steps = preparations(self._tracer, usage, called)
        if not steps:
            return made
        parts: dict[str, Node] = {"made": made}
        for step in steps:
            given = self._given(step.method, step.owner)
            repeated = 1 if not step.fills else _REPEATED if _learns(step.method) else _OFTEN
            parts[step.name] = {**call(step.name, given, SOURCE), "value": repeated, "kind": "step"}
        whole = group("prepared", parts, SOURCE)
        needed = any(step.is_needed for step in steps)
        return {**whole, "others": [made]} if needed else {**made, "others": [*made.get("others", ()), whole]}

    def bare(self, usage: Usage, called: Sequence[FunctionNode]) -> Node | None:
        """Return an object made without its constructor, for methods of its class; None where it cannot be."""
        owner = usage.owner
        name = self._names.get(id(owner)) or self._neighbours.texts.get(id(owner))
        if owner is None or name is None or _is_enumeration(owner) or self._is_abstract(owner):
            return None
        is_made = any(base.endswith("Module") for base in self._bases(owner))
        return bare(self._tracer, self._proposer, usage, name, called, is_module=is_made)

    def _given(self, method: FunctionNode, owner: ast.ClassDef) -> dict[str, Node]:
        """Return the arguments of a method, those of ``*args`` by position."""
        used = self._tracer.method(method, owner)
        names = [p.arg for p in (*method.args.args, *method.args.kwonlyargs)][1:]
        wanted = missing_parameters(method, method.args.args[0].arg, ())
        given = {n: self._proposer.of(u, 1) for n, u in zip(names, used, strict=False) if n in wanted}
        if method.args.vararg is None:
            return given
        rest = [self._proposer.of(used[-1].element(index), 1) for index in range(used[-1].width)]
        return {str(index): node for index, node in enumerate([*given.values(), *rest])}

    def models_for(self, usage: Usage, depth: int = 0) -> list[Node]:
        """Return objects of the file's modules: those first that have what is used and are called alike."""
        ranked = self._ranked(usage)
        return [made for node in ranked[:4] if (made := self.object_of(node, None, depth + 1)) is not None]

    def model_class(self, usage: Usage) -> ast.ClassDef | None:
        """Return the class of the module that a value most likely is; None where it could be any."""
        could_be_any = conventions.is_any_layer(usage.names) and not own_members(usage)
        return next(iter(self._ranked(usage)), None) if self._is_model(usage) and not could_be_any else None

    def _is_model(self, usage: Usage) -> bool:
        return is_module(usage) or any(conventions.is_model_name(name) for name in usage.names)

    def _ranked(self, usage: Usage) -> list[ast.ClassDef]:
        wanted = own_members(usage)
        known = self._reachable.values()
        modules = [node for node in known if self._is_module(node) and node not in self._making]
        modules = [node for node in modules if self._takes(node, usage.calls)]
        modules = [node for node in modules if self._gives(node, usage.result)]
        having = [n for n in modules if wanted <= self._tracer.members(n)] if wanted else modules
        own = {id(node) for node in self._classes.values()}
        return sorted(
            having,
            key=lambda n: (
                not self._is_alike(n, usage.names), id(n) not in own, not _WHOLE.search(n.name), -n.lineno
            ),
        )  # fmt: skip

    def fits(self, usage: Usage) -> bool:
        """Say whether a class of the file has all that is used of a value."""
        return bool(own_members(usage)) and self._tracer.class_with(usage) is not None

    def fitting(self, usage: Usage, depth: int) -> Node | None:
        """Return an object of the class of the file that has all that is used of a value."""
        owner = self._tracer.class_with(usage)
        return self.object_of(owner, usage, depth) if owner is not None else None

    def _is_alike(self, node: ast.ClassDef, names: list[str]) -> bool:
        own = node.name.lower()
        plain = ["".join(c for c in name.lower() if c.isalpha()) for name in names]
        return any(own in name or (name and name in own) or name[-1:] + "net" == own for name in plain)

    def _takes(self, node: ast.ClassDef, calls: list[ast.Call]) -> bool:
        """Say whether a module's ``forward`` takes what it is called with."""
        forward = self._tracer.member(node, "forward")
        if forward is None or forward.args.vararg is not None:
            return True
        positional = len(forward.args.posonlyargs) + len(forward.args.args) - 1
        needed = len(missing_parameters(forward, forward.args.args[0].arg if forward.args.args else None, ()))
        for made in calls:
            if any(isinstance(a, ast.Starred) for a in made.args) or any(k.arg is None for k in made.keywords):
                continue
            if len(made.args) > positional or len(made.args) + len(made.keywords) < needed:
                return False
        return True

    def gives_several(self, usage: Usage) -> bool:
        """Say whether a module of the file surely returns more than a tensor, and could be the one that is called."""
        forwards = (self._tracer.member(node, "forward") for node in self._ranked(usage))
        return any(f is not None and _returned(f) & {ast.Tuple, ast.Dict} for f in forwards)

    def _gives(self, node: ast.ClassDef, result: Usage | None) -> bool:
        """Say whether a module's ``forward`` could return what is read of its result."""
        forward = self._tracer.member(node, "forward")
        if forward is None or result is None:
            return True
        forms = _returned(forward)
        if result.keys or own_members(result):
            return not forms <= {ast.Tuple, ast.BinOp, ast.Subscript}
        if forms & {ast.Tuple, ast.Dict} and len(forms) == 1:
            return bool(result.width or result.elements or result.item or not is_used(result))
        return True

    def _is_module(self, node: ast.ClassDef) -> bool:
        bases = [annotations.last_name(base) for base in node.bases]
        known = any(base.endswith(("Module", "Model")) or self.has(base) for base in bases)
        return known and self._tracer.member(node, "forward") is not None

    def _is_optimizer(self, owner: ast.ClassDef) -> bool:
        return any(base.endswith("Optimizer") for base in self._bases(owner))

    def _bases(self, owner: ast.ClassDef) -> Iterator[str]:
        """Yield the names of what a class derives from, by whatever way."""
        yield from (annotations.last_name(base) for node in self._tracer.ancestry(owner) for base in node.bases)

    def _is_abstract(self, owner: ast.ClassDef) -> bool:
        given = self._tracer.fields(owner)
        members = {name: self._tracer.member(owner, name) for name in self._tracer.members(owner) - given}
        decorators = [ast.unparse(d) for m in members.values() if m is not None for d in m.decorator_list]
        return any(decorator.endswith("abstractmethod") for decorator in decorators)

    def _concrete(self, owner: ast.ClassDef, usage: Usage | None, depth: int) -> Node | None:
        """Return an object of a class that completes an abstract one."""
        for node in self._below(owner, self._reachable.values()):
            if node is not owner and owner in self._tracer.ancestry(node) and not self._is_abstract(node):
                return self.object_of(node, usage, depth + 1)
        return None

    def _constructor(self, owner: ast.ClassDef) -> FunctionNode | None:
        return self._tracer.member(owner, "__init__")


def _is_left_open(method: FunctionNode) -> bool:
    """Say whether a method does nothing but say that it is not implemented."""
    last = method.body[-1]
    return len(method.body) <= 2 and isinstance(last, ast.Raise) and "NotImplemented" in ast.unparse(last)


def _read_of_self(method: FunctionNode) -> set[str]:
    """Return the names that a method reads of its object."""
    own = method.args.args[0].arg if method.args.args and not has_no_self(method) else None
    nodes = (n for n in ast.walk(method) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name))
    return {n.attr for n in nodes if isinstance(n.value, ast.Name) and n.value.id == own and n.attr[:2] != "__"}


def _given_by(owner: ast.ClassDef) -> Iterator[str]:
    """Yield the names that a class gives its objects: methods, values, what its methods assign; no declarations."""
    declared = {id(n.target) for n in ast.walk(owner) if isinstance(n, ast.AnnAssign) and n.value is None}
    for node in ast.walk(owner):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif (
            isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store) and id(node) not in declared
        ):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _REGISTERING:
            yield from (a.value for a in node.args[:2] if isinstance(a, ast.Constant) and isinstance(a.value, str))


def _learns(method: FunctionNode) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in ast.walk(method))


def _returned(function: FunctionNode) -> set[type[ast.expr]]:
    """Return the kinds of expressions that a function returns."""
    return {type(node.value) for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None}


def _is_enumeration(owner: ast.ClassDef) -> bool:
    return any("Enum" in annotations.last_name(base) for base in owner.bases)


def _first_member(owner: ast.ClassDef, name: str) -> Node | None:
    member = next((ast.unparse(s.targets[0]) for s in owner.body if isinstance(s, ast.Assign)), None)
    return {"kind": "text", "text": f"{name}.{member}", "source": SOURCE} if member else None


def _declares(tracer: Tracer, owner: ast.ClassDef) -> bool:
    """Say whether a class makes its constructor from its fields."""
    for node in tracer.ancestry(owner):
        if any("dataclass" in ast.unparse(d) or "define" in ast.unparse(d) for d in node.decorator_list):
            return True
        if any(annotations.last_name(base) in ("NamedTuple", "TypedDict", "BaseModel") for base in node.bases):
            return True
    return False


def _fields(tracer: Tracer, owner: ast.ClassDef) -> list[str]:
    """Return the fields without a default."""
    fields: dict[str, bool] = {}
    for node in reversed([*tracer.ancestry(owner)]):
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                plain = annotations.last_name(annotations.parsed(field.annotation)) != "ClassVar"
                fields[field.target.id] = field.value is None and plain
    return [name for name, wanted in fields.items() if wanted]


def _shared_first(parts: Mapping[str, Node]) -> dict[str, Node]:
    """Return the parts, those that others read before these."""
    reads = {name: {n for written in texts(node) for n in free_of_text(written)} for name, node in parts.items()}
    read = {name for names in reads.values() for name in names}
    ordered: dict[str, Node] = {}
    left = sorted(parts, key=lambda name: name not in read)
    while left:
        ready = next((name for name in left if not reads[name] & ({*left} - {name})), left[0])
        ordered[ready] = parts[ready]
        left.remove(ready)
    return ordered
