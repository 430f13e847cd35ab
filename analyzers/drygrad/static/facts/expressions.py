"""Expressions: what each is worth, given what holds where it stands."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from drygrad.static.facts import calls, quantities, tensors
from drygrad.static.facts.canonical import canonical
from drygrad.static.facts.frame import Frame, dotted_text
from drygrad.static.facts.interval import Range
from drygrad.static.facts.iteration import element
from drygrad.static.facts.operations import DTYPES, OPERATORS
from drygrad.static.facts.ranges import range_of_result
from drygrad.static.facts.values import (
    UNKNOWN,
    Class,
    Constant,
    Device,
    Dtype,
    Function,
    Mapped,
    Method,
    Number,
    Object,
    Quantity,
    Reference,
    Sequence,
    Super,
    Tensor,
    Value,
    element_of,
    is_unknown,
    join,
    join_all,
    options_of,
)


def evaluate(frame: Frame, node: ast.expr) -> Value:
    """Return and note the value of an expression."""
    evaluator = _EVALUATORS.get(type(node))
    if evaluator is None:
        return _children(frame, node)
    return frame.record(node, evaluator(frame, node))


def _children(frame: Frame, node: ast.AST) -> Value:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            evaluate(frame, child)
        else:
            _children(frame, child)
    return UNKNOWN


def _constant(frame: Frame, node: ast.Constant) -> Value:
    return Constant(node.value)


def _name(frame: Frame, node: ast.Name) -> Value:
    return frame.look_up(node.id)


def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    base = evaluate(frame, node.value)
    text = dotted_text(node)
    if text is not None and text in frame.state.names:
        return frame.state.names[text]
    return attribute(frame, base, node.attr, node)


def attribute(frame: Frame, base: Value, name: str, node: ast.expr) -> Value:
    """Return an attribute of a value."""
    match base:
        case Reference(name=owner):
            return _of_reference(canonical(f"{owner}.{name}"))
        case Tensor():
            return tensors.attribute(frame, base, name, node)
        case Object():
            found = frame.module.attribute(base, name)
            if found is None or (name == "device" and is_unknown(found)):
                return _unknown_attribute(base, name, node)
            return found
        case Super(cls=cls, receiver=receiver):
            return _of_super(cls, receiver, name)
        case Class():
            return _of_class(base, name)
        case Mapped():
            return Method(base, name)
        case Sequence(kind="tuple", items=(first, second)) if name in _OF_PAIRS:  # torch's, Python's have no such names
            return first if name == "values" else second
        case Sequence() | Function() | Constant() | Number() | Device():
            return Method(base, name)
        case _:
            options = options_of(base)
            if len(options) > 1:
                return join_all(attribute(frame, option, name, node) for option in options)
            return _unknown_attribute(base, name, node)


_OF_PAIRS = ("values", "indices")


def _unknown_attribute(base: Value, name: str, node: ast.expr) -> Value:
    """Return a method; ``args.device`` and ``self.device`` are devices, known by their text."""
    return Device(f"${ast.unparse(node)}") if name == "device" else Method(base, name)


def _of_reference(name: str) -> Value:
    package, _, last = name.rpartition(".")
    if package == "torch" and last in DTYPES:
        return Dtype(DTYPES[last])
    if name == "torch.pi" or (name.startswith("math.") and last in ("pi", "e", "tau")):
        return Number()
    return Reference(name)


def _of_super(cls: Class, receiver: Value, name: str) -> Value:
    for base in list(cls.lineage())[1:]:
        member = base.members.get(name)
        if isinstance(member, Function):
            return replace(member, receiver=receiver)
    return Method(Super(cls, receiver), name)


def _of_class(cls: Class, name: str) -> Value:
    member = cls.member(name)
    return UNKNOWN if member is None else member


def _call(frame: Frame, node: ast.Call) -> Value:
    return calls.call(frame, node)


def _bin_op(frame: Frame, node: ast.BinOp) -> Value:
    left, right = evaluate(frame, node.left), evaluate(frame, node.right)
    operation = OPERATORS[type(node.op).__name__]
    frame.begin(node)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return tensors.operator(frame, node, operation, (node.left, node.right), (left, right))
    return _python_arithmetic(node, operation, left, right)


def _python_arithmetic(node: ast.BinOp, operation: str, left: Value, right: Value) -> Value:
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _fold(operation, left.value, right.value)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and operation == "add":
        return _concatenated(left, right)
    if isinstance(left, Sequence) and operation == "mul":
        return _repeated(left, right)
    numeric = (Number, Constant)
    if isinstance(left, numeric) and isinstance(right, numeric):
        cut = next((v.cut for v in (left, right) if isinstance(v, Number) and v.cut), None)
        return Number(cut=cut, range=range_of_result(operation, (left, right), None))
    return quantities.operator(node, operation, (node.left, node.right), (left, right))


def _concatenated(left: Sequence, right: Sequence) -> Value:
    if left.items is not None and right.items is not None and len(left.items) + len(right.items) <= MAX_ITEMS:
        return Sequence(left.kind, left.items + right.items)
    return Sequence(left.kind, None, join(element_of(left), element_of(right)))


def _repeated(left: Sequence, times: Value) -> Value:
    count = times.value if isinstance(times, Constant) and isinstance(times.value, int) else 0
    if left.items is not None and 0 < len(left.items) * count <= MAX_ITEMS:
        return Sequence(left.kind, left.items * count)
    return Sequence(left.kind, None, element_of(left))


MAX_ITEMS = 64
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floor_divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
}


def _fold(operation: str, left: object, right: object) -> Value:
    """Compute on two literals; powers only of small numbers, so that no text can make the server compute for long."""
    if isinstance(left, str) and isinstance(right, str) and operation == "add" and len(left) + len(right) < 1000:
        return Constant(left + right)
    if not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        return UNKNOWN
    try:
        if operation == "pow" and abs(left) <= 1000 and abs(right) <= 20:
            return Constant(left**right)
        if operation in _ARITHMETIC:
            return Constant(_ARITHMETIC[operation](left, right))
    except (ArithmeticError, ValueError):
        return UNKNOWN
    return Number()


def _unary_op(frame: Frame, node: ast.UnaryOp) -> Value:
    value = evaluate(frame, node.operand)
    if isinstance(node.op, ast.Not):
        return Constant(not value.value) if isinstance(value, Constant) else UNKNOWN
    if isinstance(value, Tensor):
        return tensors.operator(frame, node, OPERATORS[type(node.op).__name__], (node.operand,), (value,))
    if isinstance(value, Constant) and isinstance(value.value, (int, float)):
        if isinstance(node.op, ast.USub):
            return Constant(-value.value)
        return value if isinstance(node.op, ast.UAdd) else UNKNOWN
    if isinstance(value, Number):
        return value
    return quantities.operator(node, OPERATORS[type(node.op).__name__], (node.operand,), (value,))


def _bool_op(frame: Frame, node: ast.BoolOp) -> Value:
    return join_all([evaluate(frame, value) for value in node.values])


def _compare(frame: Frame, node: ast.Compare) -> Value:
    values = [evaluate(frame, node.left), *(evaluate(frame, other) for other in node.comparators)]
    operator = type(node.ops[0]).__name__
    frame.begin(node)
    if len(values) == 2 and operator in OPERATORS and any(isinstance(v, Tensor) for v in values):
        expressions = (node.left, node.comparators[0])
        return tensors.operator(frame, node, OPERATORS[operator], expressions, tuple(values))
    if len(values) == 2 and operator in OPERATORS:
        return quantities.operator(node, OPERATORS[operator], (), tuple(values))
    return UNKNOWN


def _if_exp(frame: Frame, node: ast.IfExp) -> Value:
    test = evaluate(frame, node.test)
    body, other = evaluate(frame, node.body), evaluate(frame, node.orelse)
    if isinstance(test, Constant):
        return body if test.value else other
    return automatic_device(node.test, body, other) or join(body, other)


def asks_for_gpu(test: ast.expr) -> bool:
    """Say whether a test asks whether there is a GPU: ``torch.cuda.is_available()``, or a flag named so."""
    named = (getattr(node, "attr", None) or getattr(node, "id", "") for node in ast.walk(test))
    return any("is_available" in name for name in named)


def automatic_device(test: ast.expr, body: Value, other: Value) -> Device | None:
    """Recognise ``"cuda" if torch.cuda.is_available() else "cpu"``, as an expression or over an if statement."""
    if not asks_for_gpu(test):
        return None
    names = [tensors.device_name(value) for value in (body, other)]
    accelerators = [name for name in names if name and name.split(":")[0] in ("cuda", "mps", "xpu", "auto")]
    return Device("auto") if len(accelerators) >= 1 and all(names) else None


def _tuple(frame: Frame, node: ast.Tuple | ast.List | ast.Set) -> Value:
    kind = {ast.Tuple: "tuple", ast.List: "list", ast.Set: "set"}[type(node)]
    values = [evaluate(frame, element) for element in node.elts]
    if len(values) > MAX_ITEMS or any(isinstance(element, ast.Starred) for element in node.elts):
        return Sequence(kind, None, join_all(values[:MAX_ITEMS]))  # pyright: ignore[reportArgumentType]
    return Sequence(kind, tuple(values))  # pyright: ignore[reportArgumentType]


def _dict(frame: Frame, node: ast.Dict) -> Value:
    entries: dict[str, Value] = {}
    complete = True
    for key, value_node in zip(node.keys, node.values, strict=True):
        value = evaluate(frame, value_node)
        name = evaluate(frame, key) if key is not None else UNKNOWN
        if isinstance(name, Constant) and isinstance(name.value, str):
            entries[name.value] = value
        else:
            complete = False
    return Mapped(entries) if complete else UNKNOWN


def _starred(frame: Frame, node: ast.Starred) -> Value:
    value = evaluate(frame, node.value)
    return element_of(value) if isinstance(value, Sequence) else UNKNOWN


def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    base, index = evaluate(frame, node.value), evaluate(frame, node.slice)
    frame.begin(node)
    return subscript(frame, base, index, node)


def subscript(frame: Frame, base: Value, index: Value, node: ast.Subscript) -> Value:
    """Return ``base[index]``."""
    match base:
        case Tensor():
            return tensors.index(frame, base, node)
        case Sequence():
            return _item(base, index, node.slice)
        case Mapped(entries=entries) if isinstance(index, Constant) and isinstance(index.value, str):
            return entries.get(index.value, UNKNOWN)
        case Object():
            return frame.module.item(base, index)
        case Quantity(range=Range()):
            return quantities.computed(node, "getitem", (base,))
        case _:
            return UNKNOWN


def _item(sequence: Sequence, index: Value, node: ast.expr) -> Value:
    items = sequence.items
    if isinstance(node, ast.Slice):
        if items is None:
            return sequence
        bounds = [_bound(part) for part in (node.lower, node.upper, node.step)]
        return Sequence(sequence.kind, items[slice(*bounds)]) if ... not in bounds else UNKNOWN
    if items is not None and isinstance(index, Constant) and isinstance(index.value, int):
        return items[index.value] if -len(items) <= index.value < len(items) else UNKNOWN
    return element_of(sequence)


def _bound(node: ast.expr | None) -> Any:
    """Return a slice bound as a number, None where absent, ``...`` where it is no literal."""
    if node is None:
        return None
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return ...
    if value == 0:
        return 0
    return value if isinstance(value, int) else ...


def _lambda(frame: Frame, node: ast.Lambda) -> Value:
    function = Function(node, scope=frame)
    frame.module.add_function(function, frame)
    return function


def _comprehension(frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
    element = _in_generators(frame, node.generators, node.elt)
    kind = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "iterator"}[type(node)]
    return Sequence(kind, None, element)  # pyright: ignore[reportArgumentType]


def _dict_comprehension(frame: Frame, node: ast.DictComp) -> Value:
    _in_generators(frame, node.generators, node.key, node.value)
    return UNKNOWN


def _in_generators(frame: Frame, generators: list[ast.comprehension], *elements: ast.expr) -> Value:
    outer = frame.state
    frame.state = outer.copy()
    for generator in generators:
        iterable = evaluate(frame, generator.iter)
        calls.bind_target(frame, generator.target, element(frame, iterable, generator.iter))
        for condition in generator.ifs:
            evaluate(frame, condition)
    values = [evaluate(frame, element) for element in elements]
    frame.state = outer
    return values[0]


def _await(frame: Frame, node: ast.Await) -> Value:
    evaluate(frame, node.value)
    return UNKNOWN


def _yield(frame: Frame, node: ast.Yield) -> Value:
    if node.value is not None:
        evaluate(frame, node.value)
    frame.leave(UNKNOWN)
    return UNKNOWN


def _named_expr(frame: Frame, node: ast.NamedExpr) -> Value:
    value = evaluate(frame, node.value)
    calls.bind_target(frame, node.target, value)
    return value


def _joined_str(frame: Frame, node: ast.JoinedStr) -> Value:
    _children(frame, node)
    return UNKNOWN


_EVALUATORS: dict[type[ast.expr], Callable[[Frame, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.BinOp: _bin_op,
    ast.UnaryOp: _unary_op,
    ast.BoolOp: _bool_op,
    ast.Compare: _compare,
    ast.IfExp: _if_exp,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.Set: _tuple,
    ast.Dict: _dict,
    ast.Starred: _starred,
    ast.Subscript: _subscript,
    ast.Lambda: _lambda,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _dict_comprehension,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.NamedExpr: _named_expr,
    ast.JoinedStr: _joined_str,
}
