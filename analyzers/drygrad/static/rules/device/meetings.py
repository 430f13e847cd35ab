"""Where the methods of a module let tensors that stay on the CPU meet its inputs and parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from drygrad.static.context import Context
from drygrad.static.facts.operations import FACTORIES, MODULE_OPERATIONS, PARAMETERLESS, TENSOR_METHODS
from drygrad.static.facts.transfer import KEEPS_DEVICE_APART
from drygrad.static.facts.values import Object, Tensor, TorchCall
from drygrad.static.rules.device.placement import is_plain_factory
from drygrad.static.syntax import bound_names, last_assignment
from drygrad.static.tree import walk

_ABOUT = frozenset({"shape", "size", "dim", "ndim", "device", "dtype", "numel", "ndimension", "is_cuda", "item"})
"""Attributes that tell of a tensor without being one."""
_TENSOR_ATTRIBUTES = TENSOR_METHODS | frozenset(
    "shape size dim ndim device view reshape transpose squeeze flatten mean sum".split()
)
"""What a value of unknown type has if it is a tensor of one dimension or more."""
_MOVES = frozenset({"to", "cuda", "cpu", "type_as", "type", "tensor", "as_tensor", "new_tensor"})
_LENGTHS = re.compile(r"len|size", re.IGNORECASE)
"""Inputs that may stay on the CPU."""
_LONGEST = 8


@dataclass(frozen=True)
class Meeting:
    """A tensor ``made`` by ``factory`` on the CPU and an input or parameter ``other`` are operands of ``place``."""

    place: ast.expr
    factory: TorchCall
    other: ast.expr
    made: ast.expr


def meetings(function: ast.FunctionDef, ctx: Context) -> tuple[Meeting, ...]:
    """Return the operations of a module's method where a tensor of the CPU meets an input or a parameter."""
    return ctx.noted(_meetings, function)


def _meetings(function: ast.FunctionDef, ctx: Context) -> tuple[Meeting, ...]:
    return tuple(_read_meetings(function, ctx))


def _read_meetings(function: ast.FunctionDef, ctx: Context) -> Iterator[Meeting]:
    if ctx.facts.default_device is None:
        return
    inputs = input_names(function, ctx)
    for node in walk(function):
        operands = operands_of_one_device(node, ctx) if isinstance(node, ast.expr) else []
        others = [operand for operand in operands if is_input(operand, inputs, ctx)]
        if not others or not isinstance(node, ast.expr):
            continue
        made = [(operand, _factory(operand, operand in others, ctx)) for operand in operands]
        met = next((operand for operand, factory in made if factory is None and operand in others), None)
        for operand, factory in made if met is not None else ():
            if factory is not None and met is not None and not _compares_lengths(node, factory, met):
                yield Meeting(node, factory, met, operand)


def _factory(operand: ast.expr, is_given: bool, ctx: Context) -> TorchCall | None:
    """Return the factory that keeps an operand on the CPU, in the first pass of a loop at least."""
    found = None if is_given else factory_of(ctx.tensor(operand))
    return found or factory_of(_before_loop(operand, ctx))


def _before_loop(operand: ast.expr, ctx: Context) -> Tensor | None:
    """Return what a name stands for in the first pass of a loop that gives it another value further down."""
    statement = ctx.statement(operand)
    loop = next((above for above in ctx.ancestors(operand) if isinstance(above, (ast.For, ast.While))), None)
    if not isinstance(operand, ast.Name) or loop is None or statement not in loop.body:
        return None
    first = next((s for s in loop.body if operand.id in bound_names(s)), None)
    if first is None or loop.body.index(first) < loop.body.index(statement):
        return None
    value = last_assignment(ctx, operand.id, loop)
    return ctx.tensor(value) if value is not None else None


def _compares_lengths(node: ast.expr, factory: TorchCall, other: ast.expr) -> bool:
    """``arange(n)[None] < counts[:, None]`` makes a mask of lengths, which may well be kept on the CPU."""
    base = other.value if isinstance(other, ast.Subscript) else other
    return isinstance(node, ast.Compare) and factory.operation == "arange" and isinstance(base, ast.Name)


def factory_of(tensor: Tensor | None, longest: int = _LONGEST) -> TorchCall | None:
    """Return the factory call that keeps a tensor with dimensions on the CPU.

    It was computed from that alone, or with tensors that have to be on the CPU as well: else an operation before it
    has raised.
    """
    if tensor is None or tensor.shape == () or tensor.parameter or tensor.buffer or not longest:
        return None
    origin = tensor.origin
    if origin is None or tensor.device not in ("cpu", None):
        return None
    if origin.call is not None and tensor.device == "cpu" and _is_factory(origin.call, tensor):
        return origin.call
    operands = [value for value in origin.operands if isinstance(value, Tensor)]
    if origin.operation in _MOVES or not operands:
        return None
    if tensor.device == "cpu" or origin.operation in KEEPS_DEVICE_APART:
        known = tensor.device == "cpu" and (origin.operation == "setitem" or _are_on_cpu(operands))
        return factory_of(operands[0], longest - 1) if known else None
    return next((found for operand in operands if (found := factory_of(operand, longest - 1)) is not None), None)


def _are_on_cpu(operands: list[Tensor]) -> bool:
    return all(operand.device == "cpu" for operand in operands)


def _is_factory(call: TorchCall, made: Tensor) -> bool:
    literal = call.operation == "tensor" and made.shape is not None and made.shape != ()
    return is_plain_factory(call) or (literal and "device" not in call.keywords and made.cut is None)


# -- inputs -----------------------------------------------------------------------------------------------------


def input_names(function: ast.FunctionDef, ctx: Context) -> list[str]:
    """Return the parameters of a method that are tensors for certain, and the names computed from them."""
    names = [name for name in tensor_parameters(function, ctx) if not _LENGTHS.search(name)]
    for node in walk(function):
        if isinstance(node, ast.Assign) and is_input(node.value, names, ctx):
            bound = (n for target in node.targets for n in walk(target) if isinstance(n, ast.Name))
            names += [n.id for n in bound if isinstance(n.ctx, ast.Store) and isinstance(ctx.value(n), Tensor)]
    return names


def tensor_parameters(function: ast.FunctionDef, ctx: Context) -> list[str]:
    """Return the parameters of a function, ``self`` left out, that it uses as only tensors can be used."""
    shown = _shown_tensors(function, ctx)
    arguments = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return [name for name in arguments if name in shown and name != "self"]


def _shown_tensors(function: ast.FunctionDef, ctx: Context) -> set[str]:
    """Return the names that a function uses as only tensors can be used."""
    found: set[str] = set()
    for node in walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute in _TENSOR_ATTRIBUTES:
                found.add(name)
            case ast.Call(args=[ast.Name(id=name), *_]) if _has_parameters(ctx.value(node.func)):
                found.add(name)
            case ast.Call(args=[first, *_]) if _takes_tensor(ctx.call(node)) and isinstance(ctx.value(node), Tensor):
                parts = [first.left, first.right] if isinstance(first, ast.BinOp) else [first]
                found |= {part.id for part in parts if isinstance(part, ast.Name)}
            case ast.Name(id=name) if isinstance(ctx.value(node), Tensor):
                found.add(name)
            case _:
                pass
    return found


def _takes_tensor(call: TorchCall | None) -> bool:
    return call is not None and call.form == "function" and call.operation not in FACTORIES


def _has_parameters(value: object) -> bool:
    if not isinstance(value, Object):
        return False
    package, _, name = value.type.rpartition(".")
    return package == "torch.nn" and name in MODULE_OPERATIONS and name not in PARAMETERLESS


def is_input(node: ast.expr, inputs: list[str], ctx: Context) -> bool:
    """Say whether an expression's tensor comes from an input or a parameter, not from a size or a device alone."""
    tensor = ctx.tensor(node)
    if tensor is not None and (tensor.parameter or tensor.buffer):
        return True
    if _has_parameters(ctx.value(node)) or (isinstance(node, ast.Call) and _has_parameters(ctx.value(node.func))):
        return True
    match node:
        case ast.Name(id=name):
            return name in inputs and (tensor is None or tensor.device != "cpu")
        case ast.Attribute(value=value, attr=attribute):
            return attribute not in _ABOUT and is_input(value, inputs, ctx)
        case ast.Subscript(value=value):
            return is_input(value, inputs, ctx)
        case ast.BinOp(left=left, right=right):
            return is_input(left, inputs, ctx) or is_input(right, inputs, ctx)
        case ast.UnaryOp(operand=operand):
            return is_input(operand, inputs, ctx)
        case ast.Call(func=function, args=arguments):
            call = ctx.call(node)
            if call is None or call.operation in ("to", "cuda", "cpu", *_ABOUT) or is_plain_factory(call):
                return False
            receiver = [function.value] if call.form == "method" and isinstance(function, ast.Attribute) else []
            return any(is_input(argument, inputs, ctx) for argument in (*receiver, *arguments[:1]))
        case _:
            return False


def operands_of_one_device(node: ast.expr, ctx: Context) -> list[ast.expr]:
    """Return the expressions that an operation needs on one device; for a module, the module itself as well."""
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.Call(func=function, args=arguments):
            call = ctx.call(node)
            if call is None or call.operation in KEEPS_DEVICE_APART | _MOVES or not call.receiver_known:
                return []
            if call.form == "module":
                given = [part for argument in arguments for part in _parts(argument)]
                return [function, *given] if _has_parameters(ctx.value(function)) else []
            if not re.match(r"torch\.(\w+|nn\.functional\.\w+|linalg\.\w+|special\.\w+)$|Tensor\.", call.target):
                return []
            return [part for operand in call.operands for part in _parts(operand)]
        case _:
            return []


def _parts(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, (ast.List, ast.Tuple)) else [node]
