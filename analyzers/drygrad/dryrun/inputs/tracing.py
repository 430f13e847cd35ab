"""Follows values through the code of a file: from a parameter into what is called, stored, unpacked, looped over.

Every statement is gone through once, both branches of a condition one after the other. Functions and methods of the
file are entered where they are called; what they do with their arguments counts for who passes them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from drygrad.dryrun.inputs import annotations
from drygrad.dryrun.inputs.arguments import FunctionNode, missing_parameters
from drygrad.dryrun.inputs.documented import documented_types
from drygrad.dryrun.inputs.forwarding import method_of
from drygrad.dryrun.inputs.frames import Environment, Frame, has_no_self, unpacked
from drygrad.dryrun.inputs.named_tuples import named_tuples
from drygrad.dryrun.inputs.neighbours import Neighbours
from drygrad.dryrun.inputs.recognising import OF_MODULES, OF_TENSORS, own_members
from drygrad.dryrun.inputs.usage import Usage, Value
from drygrad.dryrun.names import bound_names
from drygrad.dryrun.slicing import Imports
from drygrad.dryrun.targets import definitions

_DEPTH = 5
_MOST_CALLS = 400
"""How many functions are entered for one target."""


class Tracer:
    """The functions and classes of a file and of its neighbours, and how they use what they get."""

    def __init__(self, tree: ast.Module, neighbours: Neighbours) -> None:
        self._tree = tree
        self._neighbours = neighbours
        self._own = {**named_tuples(tree), **dict(definitions(tree.body))}
        self._every = {**neighbours.imported, **self._own}
        self._left = _MOST_CALLS
        self._stack: list[ast.AST] = []
        self._constructing: list[ast.ClassDef] = []
        self._documented: dict[int, Mapping[str, ast.expr]] = {}
        self.model_for: Callable[[Usage], ast.ClassDef | None] = lambda usage: None
        """Tells which module of the file a value that is called could be."""

    @cached_property
    def _imports(self) -> Imports:
        return Imports(self._tree)

    @cached_property
    def whole_calls(self) -> frozenset[int]:
        """The calls whose results are passed on, or used as tensors are, in one piece; by the ids of their nodes."""
        found: set[int] = set()
        for node in ast.walk(self._tree):
            parts: Sequence[ast.expr] = ()
            if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
                parts = node.args
            elif isinstance(node, ast.Attribute) and node.attr in OF_TENSORS:
                parts = (node.value,)
            elif isinstance(node, ast.BinOp):
                parts = (node.left, node.right)
            found.update(id(part) for part in parts if isinstance(part, ast.Call))
        return frozenset(found)

    def function(self, function: FunctionNode, owner: ast.ClassDef | None) -> tuple[Usage, ...]:
        """Return how a function uses its parameters, in their order; ``owner``: the class of the first."""
        known = [owner, *(None for _ in _parameters(function)[1:])]
        usages = self._followed(function, known)
        told = [usage.owner or self._class_used(usage) for usage in usages]
        if any(kind is not usage.owner for kind, usage in zip(told, usages, strict=True)):
            return self._followed(function, told)
        return usages

    def _followed(self, function: FunctionNode, owners: Sequence[ast.ClassDef | None]) -> tuple[Usage, ...]:
        """Return how a function uses its parameters, of which some are objects of these classes."""
        self._left = _MOST_CALLS
        usages = [Usage([p.arg], annotations=self._types(function, p)) for p in _parameters(function)]
        for usage, owner in zip(usages, owners, strict=False):
            usage.owner = owner
            if owner is not None and usage is not usages[0]:
                self._construct(usage, {})
        for usage in usages:
            self._typed(usage)
        self._enter(function, [*usages])
        return tuple(usages)

    def _types(self, function: FunctionNode, parameter: ast.arg, owner: ast.ClassDef | None = None) -> list[ast.expr]:
        """Return the annotation of a parameter, else the type that the docstring names; ``owner`` is constructed."""
        if parameter.annotation is not None:
            return [parameter.annotation]
        if id(function) not in self._documented:
            self._documented[id(function)] = documented_types(function, owner)
        kind = self._documented[id(function)].get(parameter.arg)
        name = annotations.last_name(kind)
        is_known = annotations.is_known(name) or self.class_named(name) is not None
        return [kind] if kind is not None and is_known else []

    def _class_used(self, usage: Usage) -> ast.ClassDef | None:
        """Return the class of the file whose methods are called on a value that nothing else tells of."""
        called = {name for name in own_members(usage) if name in usage.methods}
        return self.class_with(usage) if called and not usage.annotations and "path" not in usage.kinds else None

    def method(self, function: FunctionNode, owner: ast.ClassDef) -> list[Usage]:
        """Return how a method, and all the others after it, use its parameters; one more is for ``*args``."""
        self._left = _MOST_CALLS
        made = Usage(owner=owner)
        self._construct(made, {})
        several = [function.args.vararg] if function.args.vararg is not None else []
        named = _parameters(function)[1:]
        usages = [Usage([p.arg], annotations=self._types(function, p)) for p in (*named, *several)]
        for usage in usages[: len(named)]:
            self._typed(usage)
        self._enter(function, [made, *usages])
        for other in self.methods(owner).values():
            if other is not function and other.name != "__init__" and not has_no_self(other):
                self._enter(other, [made, *(Usage([p.arg]) for p in _parameters(other)[1:])])
        return usages

    def constructor(self, made: Usage) -> dict[str, Usage]:
        """Return how the constructor's parameters of an object's class are used, in all of its methods."""
        assert made.owner is not None
        self._left = _MOST_CALLS
        given = made.given if made.given is not None else self._construct(made, {})
        for method in self.methods(made.owner).values():
            if method.name != "__init__" and not has_no_self(method):
                self._enter(method, [made, *(Usage([p.arg]) for p in _parameters(method)[1:])])
        return given

    def _typed(self, usage: Usage) -> None:
        """Give a value the class of the file that its annotation names."""
        for annotation in usage.annotations if usage.owner is None else ():
            found = (self.class_named(annotations.last_name(kind)) for kind in annotations.members(annotation))
            usage.owner = usage.owner or next((c for c in found if c is not None), None)
        if usage.owner is not None and usage.given is None and usage.owner not in self._constructing:
            self._constructing.append(usage.owner)
            self._construct(usage, {})
            self._constructing.pop()

    def class_with(self, usage: Usage) -> ast.ClassDef | None:
        """Return the class of the file whose objects have all that is used of a value, best the last defined."""
        wanted = {name for name in usage.used if not name.startswith("__")}
        classes = [c for c in self._own.values() if isinstance(c, ast.ClassDef)]
        found = [c for c in classes if wanted - self._inherited(c) <= self.members(c)]
        found = [c for c in found if not any("Enum" in ast.unparse(base) for base in c.bases)]
        return found[-1] if found and wanted - OF_MODULES else None

    def _inherited(self, owner: ast.ClassDef) -> frozenset[str]:
        """Return the names that objects of a class have from torch's modules."""
        bases = (annotations.last_name(base) for node in self.ancestry(owner) for base in node.bases)
        return OF_MODULES if any(base.endswith("Module") for base in bases) else frozenset()

    def members(self, owner: ast.ClassDef) -> set[str]:
        """Return the names that objects of a class have: methods, fields, what is assigned to ``self``."""
        found: set[str] = set()
        for node in self.ancestry(owner):
            for inner in ast.walk(node):
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found.add(inner.name)
                elif isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                    found.add(inner.attr)
                elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                    found.add(inner.target.id)
        return found

    def fields(self, owner: ast.ClassDef) -> set[str]:
        """Return what a class declares or sets in its body."""
        every = (s for node in self.ancestry(owner) for s in node.body)
        return {name for s in every if isinstance(s, (ast.Assign, ast.AnnAssign)) for name in bound_names(s)}

    def ancestry(self, owner: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """Yield a class and those of its bases that the file defines, the nearest first."""
        waiting, seen = [owner], set[int]()
        while waiting:
            node = waiting.pop(0)
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                bases = (self.class_named(ast.unparse(base)) for base in node.bases)
                waiting += [base for base in bases if base is not None]

    def methods(self, owner: ast.ClassDef) -> dict[str, FunctionNode]:
        """Return the methods that objects of a class have, by their names."""
        found: dict[str, FunctionNode] = {}
        for node in self.ancestry(owner):
            own = (s for s in node.body if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)))
            found = {**{s.name: s for s in own}, **found}
        return found

    def _construct(self, made: Usage, given: Mapping[str, Value]) -> dict[str, Usage]:
        """Run a constructor on an object; return how it uses the parameters that nothing is given for."""
        assert made.owner is not None
        constructor = self.methods(made.owner).get("__init__")
        if constructor is None:
            for node in self.ancestry(made.owner):
                fields = [s for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
                for field in fields:
                    name = ast.unparse(field.target)
                    value = given.get(name)
                    own = made.attribute(name) if not isinstance(value, Usage) else value
                    own.annotations.append(field.annotation)
                    made.attributes[name] = own
            made.given = dict(made.attributes)
            return made.given
        parameters = _parameters(constructor)[1:]
        usages: dict[str, Usage] = {}
        for parameter in parameters:
            value = given.get(parameter.arg)
            if parameter.arg not in given:
                value = usages[parameter.arg] = Usage([parameter.arg])
            if isinstance(value, Usage):
                value.annotations += self._types(constructor, parameter, made.owner)
        made.given = usages
        for usage in usages.values():
            self._typed(usage)
        bound: list[Value] = [made, *(given.get(p.arg, usages.get(p.arg)) for p in parameters)]
        more = constructor.args.kwarg
        rest = Usage([more.arg]) if more is not None else None
        self._enter(constructor, bound, {more.arg: rest} if more is not None else None)
        if rest is not None:
            usages |= {name: part for name, part in rest.keys.items() if name not in usages}
        return usages

    # -- functions -----------------------------------------------------------------------------------------------

    def _enter(self, function: FunctionNode, values: Sequence[Value], outer: Environment | None = None) -> Value:
        """Go through a function with values for its parameters; return what it returns."""
        if function in self._stack or len(self._stack) > _DEPTH or self._left <= 0:
            return None
        self._left -= 1
        environment: Environment = {**(outer or {})}
        several = [function.args.vararg] if function.args.vararg is not None else []
        for parameter, value in zip([*_parameters(function), *several], values, strict=False):
            environment[parameter.arg] = value.called(parameter.arg) if isinstance(value, Usage) else value
        self._stack.append(function)
        try:
            frame = Frame(self, environment, self._neighbours.names.get(id(function), self._every))
            frame.run(function.body)
            return frame.returned
        finally:
            self._stack.pop()

    def called(self, function: FunctionNode, frame: Frame, node: ast.Call, bound: Value = None) -> Value:
        """Go through a function of the file with the arguments of a call; ``bound`` is its object, if it has one."""
        given = self._given(function, frame, node, [bound] if bound is not None else [])
        for parameter in _parameters(function):
            value = given.get(parameter.arg)
            if isinstance(value, Usage):
                value.annotations += self._types(function, parameter)
        return self._enter(function, [given.get(p.arg) for p in _parameters(function)], frame.environment)

    def of_base(self, frame: Frame, name: str) -> tuple[FunctionNode, Usage] | None:
        """Return what ``super().name`` is in the method that is gone through, and its object; None if not known."""
        method = self._stack[-1] if self._stack else None
        if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) or not method.args.args:
            return None
        made = frame.environment.get(method.args.args[0].arg)
        if not isinstance(made, Usage) or made.owner is None:
            return None
        classes = [*self.ancestry(made.owner)]
        index = next((i for i, node in enumerate(classes) if method in node.body), len(classes))
        found = (method_of(node, name) for node in classes[index + 1 :])
        return next(((inherited, made) for inherited in found if inherited is not None), None)

    def forward_of(self, model: ast.ClassDef, frame: Frame, node: ast.Call) -> Value:
        """Go through the ``forward`` of a module of the file, with an object that is made for it."""
        forward = self.member(model, "forward")
        if forward is None or model in self._constructing:
            return None
        self._constructing.append(model)
        made = Usage(owner=model)
        self._construct(made, {})
        self._constructing.pop()
        return self.called(forward, frame, node, made)

    def _given(self, function: FunctionNode, frame: Frame, node: ast.Call, first: Sequence[Value]) -> dict[str, Value]:
        names = [p.arg for p in (*function.args.posonlyargs, *function.args.args)]
        given: dict[str, Value] = dict(zip(names, first, strict=False))
        free = names[len(first) :]
        wanted = [name for name in missing_parameters(function, names[0] if first else None, ()) if name not in given]
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                value = frame.value(argument.value)
                fewer = [n for n in free if n in wanted and n not in {k.arg for k in node.keywords}]
                for name, part in zip(fewer, unpacked(value, len(fewer)), strict=False):
                    given[name] = part
                free = free[len(fewer) :]
            elif free:
                given[free.pop(0)] = frame.value(argument)
        given |= {k.arg: frame.value(k.value) for k in node.keywords if k.arg is not None}
        for keyword in node.keywords:
            if keyword.arg is None and isinstance(value := frame.value(keyword.value), Usage):
                value.kinds.add("mapping")
                given |= {name: value.key(name) for name in wanted if name not in given}
        return given

    def object_of(self, owner: ast.ClassDef, frame: Frame, node: ast.Call) -> Usage:
        """Return the object that a call of a class of the file makes."""
        made = Usage(owner=owner)
        constructor = self.methods(owner).get("__init__")
        if constructor is None:
            fields = [n for n in self.ancestry(owner) for n in n.body if isinstance(n, ast.AnnAssign)]
            names = [ast.unparse(f.target) for f in fields]
            given: dict[str, Value] = dict(zip(names, _positional(frame, node, len(names)), strict=False))
            given |= {k.arg: frame.value(k.value) for k in node.keywords if k.arg}
        else:
            given = self._given(constructor, frame, node, [made])
        self._construct(made, given)
        return made

    def member(self, owner: ast.ClassDef, name: str) -> FunctionNode | None:
        """Return a method that objects of a class have."""
        return self.methods(owner).get(name)

    def class_named(self, name: str) -> ast.ClassDef | None:
        """Return the class of a name: the file's, one that it imports, else one of the files that these are in."""
        found = self._every.get(name)
        return found if isinstance(found, ast.ClassDef) else self._neighbours.classes.get(name)

    def full_name(self, node: ast.expr) -> str:
        """Return the dotted name of what is called, through imports."""
        return self._imports.full_name(node)


def _positional(frame: Frame, node: ast.Call, count: int) -> Iterator[Value]:
    """Yield the positional arguments of a call that takes so many, those that are unpacked one by one."""
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            left = count - len(node.args) + 1 - len(node.keywords)
            yield from unpacked(frame.columns(argument.value, left) or frame.value(argument.value), left)
        else:
            yield frame.value(argument)


def _parameters(function: FunctionNode) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
