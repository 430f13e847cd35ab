"""Calls into torch: functions, constructors, methods of tensors and of torch's objects."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.static.facts import containers, contexts, modules, old_constructors, quantities, ranges, shapes
from drygrad.static.facts.effects import forget_mutable
from drygrad.static.facts.frame import Frame
from drygrad.static.facts.gradients import gradients
from drygrad.static.facts.old_constructors import flag
from drygrad.static.facts.operations import (
    ALIASES,
    CASTS,
    DTYPES,
    FACTORIES,
    OTHER_SIGNATURES,
    SIGNATURES,
    TENSOR_METHODS,
)
from drygrad.static.facts.tensors import destination, device_name, forget_graph, move, set_requires_grad, write
from drygrad.static.facts.transfer import result_of, tensors_in
from drygrad.static.facts.values import (
    UNKNOWN,
    Arguments,
    Constant,
    Device,
    Dtype,
    Form,
    Number,
    Object,
    Origin,
    Reference,
    Shape,
    Tensor,
    TorchCall,
    Value,
    is_module_class,
    is_unknown,
)

_TENSOR_PACKAGES = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft", "torch.Tensor")
_NOT_TENSORS = frozenset(
    "is_tensor is_floating_point is_complex is_grad_enabled manual_seed seed initial_seed get_rng_state set_rng_state "
    "save load compile set_default_device set_default_dtype get_default_dtype set_num_threads get_num_threads "
    "finfo iinfo "
    "use_deterministic_algorithms set_float32_matmul_precision set_printoptions numel typename broadcast_shapes "
    "is_storage is_nonzero get_default_device set_grad_enabled no_grad enable_grad inference_mode autocast device "
    "set_default_tensor_type equal allclose result_type can_cast promote_types vmap".split()
)
"""Functions of these packages that return no tensor."""
_FOLLOW_THEIR_INPUT = frozenset({"tensor", "as_tensor", "normal", "bernoulli", "multinomial"})
"""Factories that make their tensor on the device of the one they are given."""
_DRAW_FROM_TENSORS = frozenset({"normal", "bernoulli"})
"""Factories that give zero gradients to the tensors they are given."""
_RETURNS_NUMBER = frozenset(
    {"item", "dim", "numel", "nelement", "ndimension", "element_size", "storage_offset", "size"}
)

_OF_ITSELF = frozenset(
    "exp log log2 log10 log1p sqrt rsqrt sigmoid tanh relu erf erfinv reciprocal square sign abs neg floor ceil".split()
)
"""Methods that a tensor has without any argument."""
_BY_NUMBERS = frozenset(
    "softmax log_softmax logsumexp unsqueeze permute expand chunk unbind narrow cumprod amax amin movedim".split()
)
"""Methods whose first argument is a number, or several."""

_BY_KEYWORD = ("dtype", "device", "requires_grad", "out")
"""What many operations take beyond their signatures."""


def torch_call(
    node: ast.Call,
    target: str,
    form: Form,
    arguments: Arguments,
    *,
    receiver: tuple[ast.expr, Value] | None = None,
    receiver_known: bool = True,
) -> TorchCall:
    """Describe a call of a torch function or method in the one form that rules read."""
    last = target.rpartition(".")[2]
    plain = last[:-1] if last.endswith("_") and not last.endswith("__") and form == "method" else last
    if form == "function" and last.endswith("_") and f"{last[:-1]}_" in TENSOR_METHODS:
        plain = last[:-1]
    operation = ALIASES.get(plain, plain)
    before = (receiver[0],) if receiver else ()
    values = (receiver[1],) if receiver else ()
    positional = [a for a in node.args if not isinstance(a, ast.Starred)][: len(arguments.positional)]
    keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
    signature = OTHER_SIGNATURES.get(target) or SIGNATURES.get(operation) or ("input",)
    values = (*values, *arguments.positional)
    inplace = plain != last or _is_true(arguments.keywords.get("inplace"))
    return TorchCall(
        node,
        operation,
        target,
        form,
        (*before, *positional),
        values,
        keywords,
        {**_hidden(node, signature[len(values) :]), **arguments.keywords},
        signature,
        inplace=inplace,
        receiver_known=receiver_known,
    )


def _hidden(node: ast.Call, open_names: tuple[str, ...]) -> dict[str, Value]:
    """Return what ``**kwargs`` may pass: any argument that is not given otherwise, and nobody knows which."""
    if all(keyword.arg is not None for keyword in node.keywords):
        return {}
    return dict.fromkeys((*open_names, *_BY_KEYWORD), UNKNOWN)


def _is_true(value: Value | None) -> bool:
    return isinstance(value, Constant) and value.value is True


# -- functions and constructors ---------------------------------------------------------------------------------


def dtype_or_reference(name: str) -> Value:
    """Return what an imported name stands for: ``from torch import float32`` is a dtype."""
    package, _, last = name.rpartition(".")
    return Dtype(DTYPES[last]) if package == "torch" and last in DTYPES else Reference(name)


def call_reference(frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    """Return the value of a call of something imported from torch."""
    package, _, last = name.rpartition(".")
    call = torch_call(node, name, "function", _with_comparison(node, arguments))
    frame.record_call(call)
    if name in ("torch.autograd.backward", "torch.autograd.grad"):
        forget_graph(frame)
    if name == "torch.autograd.grad":
        return gradients(node, arguments)
    if name == "torch.device":
        return Device(_device_argument(arguments, node))
    if name in ("torch.nn.Parameter", "torch.nn.Buffer"):
        return _parameter(frame, node, arguments, buffer=last == "Buffer")
    if name == "torch.autograd.Variable":
        return old_constructors.variable(node, arguments)
    if is_module_class(name):
        return modules.construct(frame, node, name, arguments)
    if name.startswith("torch.nn.init."):
        return arguments.positional[0] if arguments.positional else UNKNOWN
    if last[:1].isupper() or last in ("autocast", "no_grad", "inference_mode", "enable_grad", "set_grad_enabled"):
        return _object(frame, node, name, arguments)
    if package in _TENSOR_PACKAGES and last not in _NOT_TENSORS:
        return _function_result(frame, call, arguments)
    return UNKNOWN


def _with_comparison(node: ast.Call, arguments: Arguments) -> Arguments:
    """``torch.sum(x > 0)`` compares tensors whatever x is: its result has no gradient."""
    if not any(map(is_unknown, arguments.positional[:1])) or not isinstance(node.args[0], ast.Compare):
        return arguments
    known = quantities.as_tensor(arguments.positional[0])
    assert isinstance(known, Tensor)
    compared = replace(known, dtype="bool", requires_grad=False, leaf=True, cut=node.args[0])
    return replace(arguments, positional=(compared, *arguments.positional[1:]))


def _object(frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    if name == "torch.set_grad_enabled":
        contexts.set_grad_enabled(frame, arguments)
    last = name.rpartition(".")[2]
    if last == "Tensor":
        return old_constructors.typed_tensor(node, arguments, frame.module.default_dtype, frame.module.default_device)
    if name.startswith("torch.cuda.") and last in DTYPES:
        return old_constructors.typed_tensor(node, arguments, DTYPES[last], "cuda")
    if name == "torch.nn.parallel.DistributedDataParallel" and arguments.positional:
        return arguments.positional[0]
    return Object(name, node, arguments)


def _device_argument(arguments: Arguments, node: ast.Call) -> str:
    value = arguments.positional[0] if arguments.positional else UNKNOWN
    name = device_name(value)
    index = arguments.get("index", 1)
    if name is not None and isinstance(index, Constant):
        return f"{name}:{index.value}"
    return name or f"$device@{node.lineno}:{node.col_offset}"


def _parameter(frame: Frame, node: ast.Call, arguments: Arguments, *, buffer: bool) -> Tensor:
    data = arguments.get("data", 0)
    base = data if isinstance(data, Tensor) else Tensor(device=frame.module.default_device)
    return replace(
        base,
        requires_grad=False if buffer else flag(arguments.get("requires_grad", 1), default=True),
        leaf=True,
        storage=node,
        cut=None,
        parameter=not buffer,
        buffer=buffer,
        origin=Origin("parameter", node, (base,)),
    )


def _function_result(frame: Frame, call: TorchCall, arguments: Arguments) -> Value:
    operation = call.operation
    if operation in FACTORIES:
        return _factory(frame, call)
    if any(map(is_unknown, call.values[:1])) and call.target.startswith("torch.nn.functional."):
        call = _with_tensor_first(call)
    if call.inplace and call.values and isinstance(call.values[0], Tensor):
        return write(frame, call.node, call.operands[0], operation, call.values[0], call.values[1:], call)
    return result_of(frame, call)


def _with_tensor_first(call: TorchCall) -> TorchCall:
    """The functional forms take nothing but a tensor first: an unknown value is one."""
    return replace(call, values=(quantities.as_tensor(call.values[0]), *call.values[1:]))


def _factory(frame: Frame, call: TorchCall) -> Tensor:
    if call.operation == "as_tensor" and call.values and isinstance(call.values[0], Tensor):
        return move(frame, call, call.values[0], Arguments(keywords=call.keyword_values))
    frame.state.saved.pop(call.node, None)
    like = call.values[0] if call.values and isinstance(call.values[0], Tensor) else None
    inherits = like if call.operation.endswith("_like") or call.operation.startswith("new_") else None
    copies = call.operation in ("tensor", "as_tensor", "new_tensor")
    return Tensor(
        shape=_factory_shape(call),
        dtype=_factory_dtype(frame, call, inherits),
        device=_factory_device(frame, call, inherits),
        requires_grad=_factory_requires_grad(call),
        leaf=True,
        origin=Origin(call.operation, call.node, call.values, call),
        storage=call.node,
        range=ranges.range_of_result(call.operation, call.values, call),
        cut=old_constructors.copied(call.node, call.values[-1:]) if copies else None,
    )


def _factory_shape(call: TorchCall) -> Shape | None:
    """Return the shape that a factory gives its tensor."""
    try:
        return shapes.factory_shape(call)
    except shapes.Mismatch:
        return None


def _factory_dtype(frame: Frame, call: TorchCall, inherits: Tensor | None) -> str | None:
    given = call.keyword_values.get("dtype")
    if given is not None:
        return given.name if isinstance(given, Dtype) else None
    operation = call.operation
    if inherits is not None:
        return inherits.dtype
    if operation in ("randint", "randperm", "tril_indices", "triu_indices", "multinomial"):
        return "int64"
    if operation in ("zeros", "ones", "rand", "randn", "empty", "eye", "linspace", "logspace", "hann_window", "range"):
        return frame.module.default_dtype
    if operation in _DRAW_FROM_TENSORS:
        return _drawn_dtype(frame, call)
    if operation in ("tensor", "as_tensor", "full", "arange", "from_numpy"):
        return _literal_dtype(frame, call)
    return None


def _drawn_dtype(frame: Frame, call: TorchCall) -> str | None:
    """Return the dtype of ``torch.normal`` and the like: the tensors' that they are given, else the default one."""
    given = (*call.values, *call.keyword_values.values())
    dtypes = {tensor.dtype for tensor in tensors_in(given)}
    if any(map(is_unknown, given)):
        return None
    return frame.module.default_dtype if not dtypes else dtypes.pop() if len(dtypes) == 1 else None


def _factory_requires_grad(call: TorchCall) -> bool | None:
    """Say whether a new tensor requires grad: as asked for; one that is drawn from tensors as they do."""
    asked = flag(call.keyword_values.get("requires_grad"), default=False)
    if asked is not False or call.operation not in _DRAW_FROM_TENSORS:
        return asked
    given = [*tensors_in((*call.values, *call.keyword_values.values()))]
    return (
        False
        if all(tensor.requires_grad is False for tensor in given) and not any(map(is_unknown, call.values))
        else None
    )


def _literal_dtype(frame: Frame, call: TorchCall) -> str | None:
    values = call.values[1:2] if call.operation == "full" else call.values
    if call.operation in ("tensor", "as_tensor") and values:
        if isinstance(values[0], Tensor):
            return values[0].dtype
        kinds = set(containers.element_types(values[0]))
    else:
        kinds = {type(v.value) if isinstance(v, Constant) else None for v in values}
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        return "int64"
    return frame.module.default_dtype if kinds and kinds <= {int, float} else None


def _factory_device(frame: Frame, call: TorchCall, inherits: Tensor | None) -> str | None:
    if "out" in call.keyword_values:
        out = call.keyword_values["out"]
        return out.device if isinstance(out, Tensor) else None
    given = call.keyword_values.get("device")
    if given is not None and not (isinstance(given, Constant) and given.value is None):
        return device_name(given)
    if inherits is not None:
        return inherits.device
    if call.operation.endswith("_like") or (call.operation == "as_tensor" and any(map(is_unknown, call.values[:1]))):
        return None
    first = call.values[0] if call.values else None
    if call.operation in _FOLLOW_THEIR_INPUT and isinstance(first, Tensor):
        return first.device
    return frame.module.default_device


# -- methods ----------------------------------------------------------------------------------------------------


def call_tensor_method(frame: Frame, node: ast.Call, receiver: Tensor, name: str, arguments: Arguments) -> Value:
    """Return the value of a method call on a tensor."""
    expression = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    call = torch_call(node, f"Tensor.{name}", "method", arguments, receiver=(expression, receiver))
    frame.record_call(call)
    special = _special_method(frame, call, receiver, name, arguments)
    if special is not None:
        return special
    if call.inplace:
        return write(frame, node, expression, call.operation, receiver, arguments.positional, call)
    if call.operation in FACTORIES and name.startswith("new_"):
        return _factory(frame, call)
    return result_of(frame, call)


def _special_method(frame: Frame, call: TorchCall, receiver: Tensor, name: str, arguments: Arguments) -> Value | None:
    match name:
        case "backward":
            forget_graph(frame)
            return Constant(None)
        case "tolist" if receiver.shape != ():
            return containers.nested(receiver.shape)
        case "item" | "tolist":
            return quantities.number(receiver, Origin("item", call.node, (receiver,), call), call.node)
        case "size" if arguments.positional or arguments.keywords:
            return containers.size_at(receiver.shape, arguments)
        case "size":
            return containers.sizes(receiver.shape)
        case "dim" | "ndimension":
            return Number() if receiver.shape is None else Constant(len(receiver.shape))
        case _ if name in _RETURNS_NUMBER:
            return Number()
        case "numpy":
            return UNKNOWN
        case "requires_grad_":
            return _set_requires_grad(frame, call, receiver, arguments)
        case "detach" | "detach_":
            return replace(
                receiver,
                requires_grad=False,
                leaf=True,
                cut=call.node,
                origin=Origin("detach", call.node, (receiver,), call),
            )
        case "register_hook" | "retain_grad" | "register_post_accumulate_grad_hook" | "get_device" | "is_contiguous":
            return UNKNOWN
        case "to" | "cuda" | "cpu" | "type_as" | "type" | "pin_memory":
            return move(frame, call, receiver, arguments)
        case _ if name in CASTS:
            made = result_of(frame, call)
            return replace(made, dtype=CASTS[name]) if isinstance(made, Tensor) else made
        case _:
            return None


def _set_requires_grad(frame: Frame, call: TorchCall, receiver: Tensor, arguments: Arguments) -> Value:
    wanted = arguments.get("requires_grad", 0)
    return set_requires_grad(frame, call.operands[0], receiver, Constant(True) if wanted is None else wanted)


def call_unknown_method(frame: Frame, node: ast.Call, receiver: Value, name: str, arguments: Arguments) -> Value:
    """Return the value of a method call on an unknown value: a tensor's, if only tensors have such a method."""
    expression = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    compared = name in CASTS and _is_comparison(expression)
    reduces = name in _REDUCTIONS and _names_dimension(arguments)
    if not (compared or reduces) and (name not in TENSOR_METHODS or _is_given_a_tensor(name, arguments)):
        forget_mutable(frame, node)
        return _method_of_arrays(frame, node, (expression, receiver), name, arguments)
    unknown = quantities.as_tensor(receiver) if is_unknown(receiver) else Tensor()
    assert isinstance(unknown, Tensor)
    if compared:
        unknown = replace(unknown, dtype="bool", requires_grad=False, leaf=True, cut=expression)
    call = torch_call(node, f"Tensor.{name}", "method", arguments, receiver=(expression, unknown), receiver_known=False)
    frame.record_call(call)
    if name == "cuda":
        return quantities.moved(node, receiver, destination(name, arguments, Tensor())[0])
    if name == "requires_grad_" and node.args + node.keywords:
        return UNKNOWN  # modules have it, too, and give back themselves
    special = _special_method(frame, call, unknown, name, arguments)
    if special is not None:
        return special
    if call.inplace:
        return write(frame, node, expression, call.operation, unknown, arguments.positional, call)
    return result_of(frame, call)


def _method_of_arrays(
    frame: Frame, node: ast.Call, receiver: tuple[ast.expr, Value], name: str, arguments: Arguments
) -> Value:
    if name == "to" and is_unknown(receiver[1]):
        before = quantities.as_tensor(receiver[1])
        assert isinstance(before, Tensor)
        device = destination(name, arguments, before)[0]
        if device is not None:
            return quantities.moved(node, receiver[1], device)
    call = torch_call(node, f"Tensor.{name}", "method", arguments, receiver=receiver, receiver_known=False)
    made = quantities.method(node, receiver[1], name, arguments.positional, call)
    if made is not UNKNOWN and call.operation in _SINGULAR_OF_ARRAYS:
        frame.record_call(call)
    return made


_REDUCTIONS = frozenset("sum mean std var max min prod any all argmax argmin cumsum softmax median".split())


def _names_dimension(arguments: Arguments) -> bool:
    """Say whether a reduction is told its dimension as torch alone calls it, by a number."""
    dim = arguments.keywords.get("dim")
    return isinstance(dim, Constant) and isinstance(dim.value, int) and not {"axis", "skipna"} & {*arguments.keywords}


_SINGULAR_OF_ARRAYS = frozenset({"div", "pow", "sqrt"})


def _is_comparison(node: ast.expr) -> bool:
    """Say whether an expression compares values, so that what has a method to convert its dtype is a tensor."""
    match node:
        case ast.Compare(ops=operators):
            return not any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in operators)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return _is_comparison(left) or _is_comparison(right)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _is_comparison(operand)
        case _:
            return False


def _is_given_a_tensor(name: str, arguments: Arguments) -> bool:
    """Say whether a call gives a tensor to what takes none as a tensor's method: a layer ``norm``, ``ops.exp(x)``."""
    given = arguments.positional[:1]
    if name.removesuffix("_") in _OF_ITSELF:
        return bool(given)
    if name in _BY_NUMBERS:
        return any(isinstance(value, Tensor) for value in given)
    return name == "norm" and any(not isinstance(value, (Constant, Number)) for value in given)


# -- objects ----------------------------------------------------------------------------------------------------


def call_object_method(frame: Frame, node: ast.Call, receiver: Object, name: str, arguments: Arguments) -> Value:
    """Return the value of a method of a library object, noting the call under its class's name."""
    expression = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    if receiver.type.startswith("torch.") or receiver.is_module:
        call = torch_call(node, f"{receiver.type}.{name}", "method", arguments, receiver=(expression, receiver))
        frame.record_call(call)
    return modules.method(frame, node, expression, receiver, name, arguments)
