"""Objects of the file's classes, made by their constructors, whose parameters are themselves proposed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.dryrun.inputs import annotations, configuration, conventions
from drygrad.dryrun.inputs.arguments import FunctionNode, missing_parameters
from drygrad.dryrun.inputs.nodes import FEATURES, Node, call, number, row, tensor, text, with_others
from drygrad.dryrun.inputs.usage import Usage, usage_of
from drygrad.dryrun.targets import definitions

SOURCE = "constructor"
_DEPTH = 3
_WHOLE = re.compile(r"Net|Model|CNN|Classifier|Former|former|MLP|LSTM|RNN")
_ABSTRACT = frozenset(("ABC", "Protocol", "Enum", "NamedTuple", "TypedDict"))


class Constructors:
    """The classes of a file and how to make objects of them."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        found = [(name, node) for name, node in definitions(tree.body) if isinstance(node, ast.ClassDef)]
        self._classes = dict(found)
        self._names = {id(node): name for name, node in found}

    def object_named(self, name: str, depth: int = 0) -> Node | None:
        """Return an object of a class of the file; None where there is no such class or it cannot be made."""
        owner = self._classes.get(name)
        return self.object_of(owner, depth) if owner is not None else None

    def object_of(self, owner: ast.ClassDef, depth: int = 0) -> Node | None:
        """Return a call of a class; None where its constructor calls for more than can be proposed."""
        name = self._names.get(id(owner))
        if name is None or depth > _DEPTH or any(annotations.last_name(base) in _ABSTRACT for base in owner.bases):
            return None
        if any("dataclass" in ast.unparse(decorator) for decorator in owner.decorator_list):
            return call(name, dict(self._fields(owner, depth)), SOURCE)
        constructor = self._constructor(owner)
        if constructor is None:
            return call(name, {}, SOURCE)
        if constructor.args.posonlyargs:
            return None
        receiver = constructor.args.args[0].arg if constructor.args.args else None
        wanted = missing_parameters(constructor, receiver, ())
        return call(name, {p: self._parameter(p, constructor, owner, depth) for p in wanted}, SOURCE)

    def models_for(self, name: str, depth: int = 0) -> list[Node]:
        """Return objects of the file's modules, those first whose class has a name like the parameter's."""
        wanted = "".join(c for c in name.lower() if c.isalpha())
        modules = [node for node in self._classes.values() if self._is_module(node)]
        alike = [
            n for n in modules if n.name.lower() in wanted or wanted in n.name.lower() or wanted[-1:] + "net" == n.name
        ]
        whole = [n for n in reversed(modules) if _WHOLE.search(n.name) and n not in alike]
        order = [*alike, *whole, *(n for n in reversed(modules) if n not in alike and n not in whole)]
        return [made for node in order if (made := self.object_of(node, depth)) is not None]

    def _is_module(self, node: ast.ClassDef) -> bool:
        bases = [annotations.last_name(base) for base in node.bases]
        forward = any(isinstance(s, ast.FunctionDef) and s.name == "forward" for s in node.body)
        return forward and any(base.endswith("Module") or base in self._classes for base in bases)

    def _constructor(self, owner: ast.ClassDef) -> FunctionNode | None:
        for node in self._ancestry(owner):
            made = next((s for s in node.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
            if made is not None:
                return made
        return None

    def _ancestry(self, owner: ast.ClassDef) -> Iterator[ast.ClassDef]:
        waiting, seen = [owner], set[int]()
        while waiting:
            node = waiting.pop(0)
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                waiting += [c for base in node.bases if (c := self._classes.get(ast.unparse(base))) is not None]

    def _fields(self, owner: ast.ClassDef, depth: int) -> Iterator[tuple[str, Node]]:
        for node in reversed([*self._ancestry(owner)]):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value is None:
                    name = field.target.id
                    yield name, self._by_annotation(field.annotation, name, depth) or conventions.number_by_name(name)

    def _parameter(self, name: str, constructor: FunctionNode, owner: ast.ClassDef, depth: int) -> Node:
        arguments = constructor.args
        given = next(p.annotation for p in (*arguments.args, *arguments.kwonlyargs) if p.arg == name)
        body: list[ast.AST] = [*constructor.body]
        found = self._by_annotation(given, name, depth)
        if found is not None:
            return found
        usage = usage_of(name, body)
        stored = usage_of(f"self.{name}", list(owner.body))
        return self._by_usage(name, usage, stored, depth)

    def _by_annotation(self, annotation: ast.expr | None, name: str, depth: int) -> Node | None:
        kinds = annotations.members(annotation)
        for kind in kinds:
            last = annotations.last_name(kind)
            if last == "int":
                return conventions.number_by_name(name)
            if last in ("Module", "Callable"):
                return conventions.stand_in_callable()
            if annotations.dtype_of_tensor(kind) is not None:
                return tensor((2, FEATURES), annotations.dtype_of_tensor(kind) or "float32", annotations.SOURCE)
            found = self.object_named(last, depth + 1) or annotations.by_annotation(kind, {})
            if found is not None:
                return found
        return None

    def _by_usage(self, name: str, usage: Usage, stored: Usage, depth: int) -> Node:
        lowered = name.lower()
        attributes = [*usage.attributes, *stored.attributes]
        if conventions.CONFIGS.fullmatch(lowered) and attributes:
            return configuration.namespace(attributes, configuration.argparse_defaults(self._tree))
        known = conventions.by_name(name)
        if known is not None and known["kind"] == "text":
            return with_others(known, number(8), text("None", "search"))
        if usage.is_called or stored.is_called:
            models = self.models_for(name, depth + 1)[:2] if depth == 0 else []
            return with_others(conventions.stand_in_callable(), *models, number(8))
        several = row("tuple", [number(8), number(16)])
        if usage.items or (usage.is_sequence and lowered.endswith("s")):
            return with_others(several, number(8))
        more = row("tuple", [number(size) for size in (8, 8, 16, 16)])
        others = (text(conventions.IDENTITY, "search"), several, more, text("None", "search"), text("0.5", "search"))
        return with_others(conventions.number_by_name(name), *others)
