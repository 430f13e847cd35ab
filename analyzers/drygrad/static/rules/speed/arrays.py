"""What the text alone tells of NumPy arrays, and of lists that hold them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Function
from drygrad.static.syntax import parameter_names
from drygrad.static.tree import walk

_MAKERS = frozenset(
    f"numpy.{name}"
    for name in (
        "array asarray ascontiguousarray zeros ones empty full zeros_like ones_like arange linspace stack concatenate "
        "vstack hstack expand_dims pad moveaxis transpose flip load loadtxt fromfile frombuffer random.randn "
        "random.rand"
    ).split()
)
_READERS = frozenset({"cv2.imread", "imageio.imread", "skimage.io.imread"})
_NEEDS_SIZE = frozenset({"numpy.random.randn", "numpy.random.rand"})
_KEEPS = frozenset("astype copy reshape transpose flatten ravel squeeze swapaxes".split())
_ANNOTATIONS = frozenset({"ndarray", "NDArray"})
_LISTS = frozenset("list List tuple Tuple Sequence deque Deque Iterable Collection".split())
_DEEPEST = 4


class Arrays:
    """Which expressions of a file are arrays for certain, and which are lists of them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def is_array(self, node: ast.expr, depth: int = _DEEPEST) -> bool:
        """Say whether an expression is an array."""
        match node:
            case ast.Call():
                return self._is_made(node, depth)
            case ast.BinOp(left=left, right=right):
                return depth > 0 and (self.is_array(left, depth - 1) or self.is_array(right, depth - 1))
            case ast.Subscript(value=inner, slice=ast.Slice() | ast.Tuple()):
                return self.is_array(inner, depth)
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner != "self":
                return self._is_field(name)
            case ast.Name():
                return depth > 0 and self._is_named(node, depth - 1)
            case _:
                return False

    def is_list(self, node: ast.expr, depth: int = _DEEPEST) -> bool:
        """Say whether an expression is a list or the like of arrays."""
        match node:
            case ast.List(elts=[_, *_] as parts) | ast.Tuple(elts=[_, *_] as parts):
                return all(self.is_array(part, depth) or self.is_list(part, depth) for part in parts)
            case ast.ListComp(elt=part):
                return self.is_array(part, depth) or self.is_list(part, depth)
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
                return self.is_list(inner, depth)
            case ast.BinOp(left=ast.List() as inner, op=ast.Mult()):
                return self.is_list(inner, depth)
            case ast.Name() if depth > 0:
                return self._is_named_list(node, depth - 1)
            case ast.Attribute(value=ast.Name(id="self")) if depth > 0:
                owner = next((a for a in self._ctx.ancestors(node) if isinstance(a, ast.ClassDef)), None)
                return owner is not None and self._is_filled(dotted_text(node) or "", owner, depth - 1)
            case _:
                return False

    def _is_made(self, node: ast.Call, depth: int) -> bool:
        name = self._ctx.name(node.func) or ""
        if name in _MAKERS | _READERS:
            return bool(node.args) or name not in _NEEDS_SIZE
        value = self._ctx.value(node.func)
        if isinstance(value, Function) and isinstance(value.node, ast.FunctionDef):
            return _is_array_annotation(value.node.returns)
        match node.func:
            case ast.Attribute(attr="numpy"):
                return not node.args
            case ast.Attribute(value=inner, attr=method) if method in _KEEPS:
                return self.is_array(inner, depth)
            case _:
                return False

    def _is_field(self, name: str) -> bool:
        """Say whether the records of the file that have such a field declare it as an array."""
        declared = [
            member.annotation
            for cls in self._ctx.classes()
            for member in cls.node.body
            if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name) and member.target.id == name
        ]
        return bool(declared) and all(map(_is_array_annotation, declared))

    def _is_named(self, node: ast.Name, depth: int) -> bool:
        element = self._comprehended(node)
        if element is not None:
            return self.is_list(element, depth)
        function = self._ctx.function(node)
        if function is None:
            return False
        values = list(_bound(node.id, function))
        annotation = _annotation(node.id, function)
        if annotation is not None:
            return _is_array_annotation(annotation) and all(v is not None and self.is_array(v, depth) for v in values)
        return bool(values) and all(value is not None and self.is_array(value, depth) for value in values)

    def _comprehended(self, node: ast.Name) -> ast.expr | None:
        """Return what the comprehension goes through that binds a name."""
        for above in self._ctx.ancestors(node):
            for generator in above.generators if isinstance(above, (ast.ListComp, ast.GeneratorExp)) else ():
                if isinstance(generator.target, ast.Name) and generator.target.id == node.id:
                    return generator.iter
        return None

    def _is_named_list(self, node: ast.Name, depth: int) -> bool:
        function = self._ctx.function(node)
        if function is None:
            return False
        values = list(_bound(node.id, function))
        annotation = _annotation(node.id, function)
        if not values and annotation is not None:
            return _is_list_annotation(annotation)
        if not values and node.id in parameter_names(function):
            given = list(self._given(node.id, function))
            return bool(given) and all(argument is not None and self.is_list(argument, depth) for argument in given)
        if len(values) == 1 and _is_empty(values[0]):
            return self._is_filled(node.id, function, depth)
        return bool(values) and all(value is not None and self.is_list(value, depth) for value in values)

    def _given(self, name: str, function: FunctionNode) -> Iterator[ast.expr | None]:
        """Yield what the calls of a function pass for a parameter."""
        for site in self._ctx.callers(function):
            names = parameter_names(function)[1 if site.receiver is not None else 0 :]
            call = site.node if isinstance(site.node, ast.Call) else None
            if call is None or name not in names or any(isinstance(a, ast.Starred) for a in call.args):
                yield None
                continue
            place = names.index(name)
            by_name = (keyword.value for keyword in call.keywords if keyword.arg == name)
            yield call.args[place] if place < len(call.args) else next(by_name, None)

    def _is_filled(self, text: str, scope: ast.AST, depth: int) -> bool:
        """Say whether all that is appended to a list are arrays."""
        added: list[ast.expr] = []
        for node in walk(scope):
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr=method), args=arguments) if (
                    dotted_text(owner) == text
                ):
                    if method not in ("append", "clear", "popleft", "pop"):
                        return False
                    added += arguments if method == "append" else []
                case ast.Assign(targets=[target], value=value) if dotted_text(target) == text:
                    if not _is_empty(value):
                        return False
                case _:
                    pass
        return bool(added) and all(self.is_array(part, depth) for part in added)


def _is_array_annotation(node: ast.expr | None) -> bool:
    inner = node.value if isinstance(node, ast.Subscript) else node
    return inner is not None and (dotted_text(inner) or "").rpartition(".")[2] in _ANNOTATIONS


def _is_list_annotation(node: ast.expr) -> bool:
    match node:
        case ast.Subscript(value=owner, slice=inner) if (dotted_text(owner) or "").rpartition(".")[2] in _LISTS:
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            parts = [part for part in parts if not (isinstance(part, ast.Constant) and part.value is ...)]
            return bool(parts) and all(map(_is_array_annotation, parts))
        case _:
            return False


def _annotation(name: str, function: FunctionNode) -> ast.expr | None:
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return next((argument.annotation for argument in arguments if argument.arg == name), None)


def _bound(name: str, function: FunctionNode) -> Iterator[ast.expr | None]:
    """Yield what a function gives to a name; None where that is not one expression."""
    plain = {
        id(target): node.value
        for node in walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
    }  # fmt: skip
    for node in walk(function):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            yield plain.get(id(node))


def _is_empty(value: ast.expr | None) -> bool:
    match value:
        case ast.List(elts=[]):
            return True
        case ast.Call(func=function, args=[]):
            return (dotted_text(function) or "").rpartition(".")[2] in ("list", "deque")
        case _:
            return False
