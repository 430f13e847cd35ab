"""One function's body as it is gone through: what its names stand for, statement by statement."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from drygrad.dryrun.inputs import conventions, foreign_calls, torch_uses
from drygrad.dryrun.inputs.forwarding import is_super
from drygrad.dryrun.inputs.usage import MOST_ELEMENTS, Usage, Value
from drygrad.dryrun.names import blocks

if TYPE_CHECKING:
    from drygrad.dryrun.inputs.tracing import Tracer

_SAME = frozenset(
    "to cuda cpu float long half double int bool detach clone contiguous requires_grad_ train eval squeeze_ tolist "
    "pin_memory apply copy type_as bfloat16 type numpy relu tanh sigmoid abs clamp clamp_ share_memory softmax "
    "log_softmax transpose".split()
)
"""Methods that give back their object, or one of the same form."""
_COMPUTING = (ast.Add, ast.Sub, ast.Mult, ast.Pow, ast.MatMult)
_ADDING = frozenset("append appendleft extend add".split())
_SAME_ATTRIBUTES = frozenset(("data", "grad", "real"))
_SHAPES = frozenset(("shape", "size"))

Environment = dict[str, Value]


class Frame:
    """One function's body as it is gone through."""

    def __init__(self, tracer: Tracer, environment: Environment, names: Mapping[str, Value]) -> None:
        """``names`` are the definitions that the code can refer to."""
        self.environment = environment
        self._names = names
        self.returned: Value = None
        self._tracer = tracer

    # -- statements ----------------------------------------------------------------------------------------------

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Go through statements."""
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign():
                value = self.value(node.value)
                for target in node.targets:
                    self.bind(target, value, node.value)
            case ast.AnnAssign() if node.value is not None:
                self.bind(node.target, self.value(node.value), node.value)
            case ast.For() | ast.AsyncFor():
                self.bind(node.target, self.item_of(node.iter), None)
                self.run(node.body)
                self.run(node.orelse)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    value = self.value(item.context_expr)
                    _kind(value, "context")
                    if item.optional_vars is not None:
                        self.bind(item.optional_vars, value, None)
                self.run(node.body)
            case ast.Return():
                value = self.value(node.value) if node.value is not None else None
                self.returned = self.returned if self.returned is not None else value
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.environment[node.name] = node
            case ast.ClassDef():
                pass
            case ast.If():
                self._condition(node.test)
                self.run(node.body)
                self.run(node.orelse)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child)
                for block in blocks(node):
                    self.run(block)

    def _condition(self, test: ast.expr) -> None:
        """Note what a branch tells of the truth values that it asks for."""
        parts = test.values if isinstance(test, ast.BoolOp) else [test]
        for part in parts:
            inner = part.operand if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not) else part
            value = self.value(inner)
            if isinstance(inner, (ast.Name, ast.Attribute, ast.Subscript)):
                _kind(value, "flag")

    def bind(self, target: ast.expr, value: Value, source: ast.expr | None) -> None:
        """Bind the names of a target."""
        match target:
            case ast.Name():
                self.environment[target.id] = value.called(target.id) if isinstance(value, Usage) else value
            case ast.Tuple() | ast.List():
                self._unpack(target, self.columns(source, len(target.elts)) or value)
            case ast.Attribute():
                owner = self.value(target.value)
                if isinstance(owner, Usage) and isinstance(value, Usage) and owner.owner is not None:
                    owner.attributes[target.attr] = value.called(target.attr)
            case ast.Subscript():
                owner = self.value(target.value)
                if isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
                    _kind(owner, "mapping")
            case ast.Starred():
                self.bind(target.value, None, source)
            case _:
                pass

    def columns(self, source: ast.expr | None, count: int) -> Value:
        """Return what ``zip(*rows)`` gives for so many names: the first parts of all rows, their second ones."""
        match source:
            case ast.Call(func=ast.Name(id="zip"), args=[ast.Starred(value=rows)]):
                several = self.value(rows)
            case _:
                return None
        if not isinstance(several, Usage):
            return None
        several.kinds.add("iterated")
        return tuple(
            Usage(item=part if isinstance(part, Usage) else None) for part in unpacked(several.any_item(), count)
        )

    def _unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        starred = any(isinstance(e, ast.Starred) for e in target.elts)
        if isinstance(value, Usage) and value.shape_of is not None:
            tensor = value.shape_of
            if starred:
                tensor.least_rank = max(tensor.least_rank, len(target.elts))
            else:
                tensor.ranks.append(len(target.elts))
            tensor.kinds.add("tensor")
            parts: Sequence[Value] = [None] * len(target.elts)
        else:
            count = len(target.elts) - starred
            if isinstance(value, Usage):
                value.tell_apart()
            if isinstance(value, Usage) and value.item is None:
                value.width = max(value.width, count)
            parts = [*unpacked(value, len(target.elts))]
        for one, part in zip(target.elts, parts, strict=False):
            self.bind(one, part, None)

    # -- expressions ---------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """Return what an expression gives."""
        reader = _READERS.get(type(node))
        if reader is not None:
            return reader(self, node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr) and not isinstance(node, ast.Lambda):
                self.value(child)
        return None

    def read_several(self, node: ast.Tuple | ast.List) -> Value:
        """Return the elements of a display."""
        return tuple(self.value(e) for e in node.elts)

    def read_inner(self, node: ast.Await | ast.Starred | ast.YieldFrom) -> Value:
        """Return what stands inside."""
        return self.value(node.value)

    def read_unary(self, node: ast.UnaryOp) -> Value:
        """Return what a sign gives."""
        value = self.value(node.operand)
        if isinstance(node.op, ast.Invert):
            _kind(value, "mask")
        return value if isinstance(node.op, ast.USub) else None

    def read_chosen(self, node: ast.IfExp) -> Value:
        """Return one of two values."""
        self.value(node.test)
        found = [self.value(node.body), self.value(node.orelse)]
        return next((value for value in found if value is not None), None)

    def read_any(self, node: ast.BoolOp) -> Value:
        """Return one of several values."""
        return next((v for v in [self.value(e) for e in node.values] if isinstance(v, Usage)), None)

    def read_bound(self, node: ast.NamedExpr) -> Value:
        """Return a value that gets a name on the way."""
        value = self.value(node.value)
        self.bind(node.target, value, node.value)
        return value

    def read_formatted(self, node: ast.FormattedValue) -> Value:
        """Note what a format tells of its value."""
        value = self.value(node.value)
        if node.format_spec is not None:
            _kind(value, "number")
        return None

    def read_named(self, node: ast.Name) -> Value:
        """Return what a name stands for."""
        if node.id in self.environment:
            return self.environment[node.id]
        return self._names.get(node.id)

    def read_attribute(self, node: ast.Attribute) -> Value:
        """Return an attribute of something."""
        owner = self.value(node.value)
        if not isinstance(owner, Usage):
            return None
        if node.attr == "grad":
            owner.kinds.add("gradient")
        if node.attr in _SAME_ATTRIBUTES and not any(conventions.CONFIGS.fullmatch(name) for name in owner.names):
            return owner
        found = owner.attribute(node.attr)
        if node.attr in _SHAPES:
            found.shape_of = owner
        return found

    def read_subscript(self, node: ast.Subscript) -> Value:
        """Return an element."""
        owner, index = self.value(node.value), node.slice
        inside = self.value(index)
        if isinstance(inside, Usage) and isinstance(owner, (Usage, type(None))) and not isinstance(node.ctx, ast.Del):
            inside.kinds.add("index")
        if isinstance(owner, tuple):
            return _part(owner, index)
        if not isinstance(owner, Usage):
            return None
        if owner.shape_of is not None:
            owner.shape_of.reach([index.lower] if isinstance(index, ast.Slice) and index.lower else [index])
            return None
        match index:
            case ast.Constant(value=str(key)):
                return owner.key(key)
            case ast.Constant(value=int(number)) if 0 <= number < MOST_ELEMENTS:
                owner.kinds.add("sequence")
                return owner.element(number)
            case ast.Tuple():
                plain = [e for e in index.elts if not (isinstance(e, ast.Constant) and e.value is None)]
                if not any(isinstance(e, ast.Constant) and e.value is ... for e in plain):
                    owner.least_rank = max(owner.least_rank, len(plain))
                return None
            case ast.Slice():
                return owner
            case _:
                return owner.any_item() if not owner.keys else None

    def read_operation(self, node: ast.BinOp) -> Value:
        """Return what arithmetic gives, where it has the form of one side."""
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and not isinstance(node.left, (ast.Constant, ast.JoinedStr)):
            for side in (left, right):
                if isinstance(side, Usage):
                    side.kinds.add("number")
        if isinstance(node.op, _COMPUTING):
            _kind(left, "computed")
            _kind(right, "computed")
        if isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            for side in (left, right):
                if isinstance(side, Usage):
                    side.kinds.add("mask")
        if isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant) and isinstance(node.right.value, str):
            _kind(left, "path")
        if isinstance(left, Usage) and "path" in left.kinds:
            return left
        return left if isinstance(left, Usage) and not isinstance(right, Usage) else None

    def read_compare(self, node: ast.Compare) -> Value:
        """Note what a comparison tells of its sides."""
        sides = [node.left, *node.comparators]
        values = [self.value(side) for side in sides]
        for value in values:
            if isinstance(value, Usage):
                for side in sides:
                    written = side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else [side]
                    value.choices += [
                        ast.unparse(e) for e in written if isinstance(e, ast.Constant) and e.value is not None
                    ]
                if isinstance(node.ops[0], (ast.Lt, ast.Gt, ast.LtE, ast.GtE)) and value.shape_of is None:
                    value.kinds.add("ordered")
        return None

    def read_comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> Value:
        """Return what a comprehension gives."""
        outer = self.environment
        self.environment = {**outer}
        first = None
        for generator in node.generators:
            iterated = self._items_of(generator) or self.value(generator.iter)
            first = first if first is not None else iterated
            self.bind(generator.target, self.item_of(generator.iter), None)
            for test in generator.ifs:
                self.value(test)
        given = self.value(node.value if isinstance(node, ast.DictComp) else node.elt)
        if isinstance(node, ast.DictComp):
            self.value(node.key)
        self.environment = outer
        if isinstance(first, Usage) and given is not None and (given is first.item or given in first.keys.values()):
            return first
        several = Usage()
        several.item = given if isinstance(given, Usage) else None
        return several if several.item is not None else None

    def _items_of(self, generator: ast.comprehension) -> Value:
        """Return the mapping whose items are gone through."""
        match generator.iter:
            case ast.Call(func=ast.Attribute(value=owner, attr="items" | "values")):
                return self.value(owner)
            case _:
                return None

    def item_of(self, iterable: ast.expr) -> Value:
        """Return what a loop over an expression binds its target to."""
        if isinstance(iterable, ast.Call):
            called = ast.unparse(iterable.func).rpartition(".")[2]
            if called == "enumerate" and iterable.args:
                return (None, self.item_of(iterable.args[0]))
            if called == "zip":
                return tuple(self.item_of(a.value if isinstance(a, ast.Starred) else a) for a in iterable.args)
            if called in ("items", "values") and isinstance(iterable.func, ast.Attribute):
                owner = self.value(iterable.func.value)
                item = owner.any_item() if isinstance(owner, Usage) else None
                _kind(owner, "mapping")
                return (None, item) if called == "items" else item
            if called == "range":
                self.value(iterable)
                return None
            if called in foreign_calls.SAME or "tqdm" in called or "progress" in called or "track" in called:
                return self.item_of(iterable.args[0]) if iterable.args else None
        value = self.value(iterable)
        if isinstance(value, tuple):
            return next((v for v in value if v is not None), None)
        if isinstance(value, Usage):
            value.kinds.add("iterated")
            return value.any_item()
        return None

    # -- calls ---------------------------------------------------------------------------------------------------

    def read_call(self, node: ast.Call) -> Value:
        """Return what a call gives."""
        function = node.func
        if isinstance(function, ast.Attribute) and is_super(function.value):
            base = self._tracer.of_base(self, function.attr)
            if base is not None:
                return self._tracer.called(base[0], self, node, base[1])
        if isinstance(function, ast.Attribute):
            owner = self.value(function.value)
            if isinstance(owner, Usage):
                return self._method(owner, function.attr, node)
        target = self.value(function) if not isinstance(function, ast.Attribute) else None
        if (
            target is None
            and isinstance(function, (ast.Attribute, ast.Name))
            and (not isinstance(function, ast.Name) or function.id not in self.environment)
        ):
            target = self._names.get(ast.unparse(function))
        match target:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._tracer.called(target, self, node)
            case ast.ClassDef():
                return self._tracer.object_of(target, self, node)
            case Usage():
                return self._called(target, node)
            case _:
                return self._foreign(node)

    def _arguments(self, node: ast.Call) -> list[Value]:
        positional = [self.value(argument) for argument in node.args]
        return positional + [self.value(keyword.value) for keyword in node.keywords]

    def _method(self, owner: Usage, name: str, node: ast.Call) -> Value:
        if owner.owner is not None:
            method = self._tracer.member(owner.owner, name)
            if method is not None:
                owner.entered.append(method)
                return self._tracer.called(method, self, node, None if has_no_self(method) else owner)
            if name in owner.attributes:
                return self._called(owner.attributes[name], node)
        values = self._arguments(node)
        for keyword in node.keywords:
            if keyword.arg is None:
                _kind(self.value(keyword.value), "mapping")
        torch_uses.read_method(name, owner, node, values)
        if name == "load_state_dict" and values and isinstance(values[0], Usage):
            values[0].state_of = owner
        given = owner.method(name)
        if name == "size":
            if node.args:
                owner.reach(node.args)
                return None
            given.shape_of = owner
            return given
        first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        if (name == "get" and first is not None) or (name in ("pop", "setdefault") and isinstance(first, str)):
            return owner.key(str(first))
        if name in ("pop", "popleft") and owner.item is not None:
            return owner.item
        if name in _ADDING and owner.owner is None and values and isinstance(values[0], Usage):
            owner.item = owner.item or (values[0] if name != "extend" else None)
            return None
        return owner if name in _SAME and owner.owner is None else given

    def _called(self, target: Usage, node: ast.Call) -> Value:
        """Return what a call of a value gives."""
        if target.owner is not None:
            for name in ("forward", "__call__"):
                method = self._tracer.member(target.owner, name)
                if method is not None:
                    return self._tracer.called(method, self, node, target)
        values = self._arguments(node)
        if target.made:
            torch_uses.read_module(target.made, values)
            return None
        for value in values:
            _kind(value, "passed")
        given = target.call(node)
        if id(node) in self._tracer.whole_calls:
            given.kinds.add("whole")
        model = self._tracer.model_for(target)
        if model is not None:
            found = self._tracer.forward_of(model, self, node)
            return found if found is not None and not isinstance(found, Usage) else given
        return given

    def known_class(self, node: ast.expr) -> bool:
        """Say whether an expression is a class that the project defines."""
        return isinstance(self._names.get(ast.unparse(node)), ast.ClassDef)

    def _foreign(self, node: ast.Call) -> Value:
        """Return what a call of something that the file does not define gives."""
        values = self._arguments(node)
        for keyword in node.keywords:
            if keyword.arg is None:
                _kind(self.value(keyword.value), "mapping")
        if isinstance(node.func, ast.Attribute) and self._is_value(node.func.value):
            torch_uses.read_method(node.func.attr, Usage(), node, values)
        return foreign_calls.read(node, values, self._tracer.full_name, self.known_class)

    def _is_value(self, node: ast.expr) -> bool:
        """Say whether an expression is something computed here of which nothing is known: no module, no class."""
        return isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id in self.environment)


_Reader: TypeAlias = Callable[[Frame, Any], Value]
_READERS: dict[type[ast.expr], _Reader] = {
    ast.Name: Frame.read_named,
    ast.Attribute: Frame.read_attribute,
    ast.Call: Frame.read_call,
    ast.Subscript: Frame.read_subscript,
    ast.Tuple: Frame.read_several,
    ast.List: Frame.read_several,
    ast.BinOp: Frame.read_operation,
    ast.Compare: Frame.read_compare,
    ast.UnaryOp: Frame.read_unary,
    ast.IfExp: Frame.read_chosen,
    ast.BoolOp: Frame.read_any,
    ast.NamedExpr: Frame.read_bound,
    ast.FormattedValue: Frame.read_formatted,
    **dict.fromkeys((ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp), Frame.read_comprehension),
    **dict.fromkeys((ast.Await, ast.Starred, ast.YieldFrom), Frame.read_inner),
}


def _kind(value: Value, kind: str) -> None:
    if isinstance(value, Usage):
        value.kinds.add(kind)


def _part(values: tuple[Value, ...], index: ast.expr) -> Value:
    if isinstance(index, ast.Constant) and isinstance(index.value, int) and index.value < len(values):
        return values[index.value]
    return values if isinstance(index, ast.Slice) else next((v for v in values if v is not None), None)


def unpacked(value: Value, count: int) -> Iterator[Value]:
    """Yield the parts that something is unpacked into."""
    if isinstance(value, tuple):
        yield from value
    elif isinstance(value, Usage):
        value.width = max(value.width, count if value.item is None else 0)
        yield from (value.element(index) for index in range(min(count, MOST_ELEMENTS)))
    else:
        yield from (None for _ in range(count))


def has_no_self(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Say whether a method is called without its object."""
    return any(ast.unparse(decorator) == "staticmethod" for decorator in function.decorator_list)
