"""Calls, and the binding of values to names: what is called with what, and where the result goes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace

from drygrad.parsing import parsed_expression
from drygrad.static.facts import builtin_calls, modules, old_constructors, quantities, tensors, torch_calls
from drygrad.static.facts.effects import forget_mutable
from drygrad.static.facts.frame import Event, Frame, dotted_text
from drygrad.static.facts.iteration import unpacked
from drygrad.static.facts.values import (
    UNKNOWN,
    Arguments,
    Choice,
    Class,
    Device,
    Dtype,
    Function,
    Mapped,
    Method,
    Number,
    Object,
    Partial,
    Quantity,
    Reference,
    Sequence,
    Super,
    Tensor,
    TorchCall,
    Value,
    element_of,
    is_unknown,
    join_all,
)


def call(frame: Frame, node: ast.Call) -> Value:
    """Return the value of a call."""
    target = frame.evaluate(node.func)
    arguments = _arguments(frame, node)
    frame.begin(node)
    return apply(frame, node, target, arguments)


def _arguments(frame: Frame, node: ast.Call) -> Arguments:
    positional: list[Value] = []
    complete = True
    for argument in node.args:
        value = frame.evaluate(argument.value if isinstance(argument, ast.Starred) else argument)
        if not isinstance(argument, ast.Starred):
            positional.append(value)
        elif isinstance(value, Sequence) and value.items is not None:
            positional.extend(value.items)
        else:
            complete = False
            break
    keywords: dict[str, Value] = {}
    for keyword in node.keywords:
        value = frame.evaluate(keyword.value)
        if keyword.arg is None:
            complete = False
        else:
            keywords[keyword.arg] = value
    return Arguments(tuple(positional), keywords, complete)


def apply(frame: Frame, node: ast.Call, target: Value, arguments: Arguments) -> Value:
    """Return what calling a value gives."""
    match target:
        case Reference(name=name):
            return _call_reference(frame, node, name, arguments)
        case Class():
            return frame.module.construct(target, arguments, node)
        case Function():
            return _call_function(frame, node, target, arguments)
        case Method(receiver=receiver, name=name):
            return _call_method(frame, node, receiver, name, arguments)
        case Object():
            return modules.call(frame, node, target, arguments)
        case Dtype(name=name):  # torch.FloatTensor names a dtype, and when called makes a tensor of it
            return old_constructors.typed_tensor(node, arguments, name, frame.module.default_device)
        case Choice(options=options):
            return _of_each(frame, node, options, lambda option: apply(frame, node, option, arguments))
        case Partial(function=function, arguments=given) if _takes(function, given):
            return apply(frame, node, function, _together(given, arguments))
        case _:
            forget_mutable(frame, node)
            return UNKNOWN


def _takes(function: Value, given: Arguments) -> bool:
    """Say whether a call that adds to given arguments can be read: torch's are read where the call writes them."""
    return not given.positional or isinstance(function, (Function, Class))


def _together(given: Arguments, added: Arguments) -> Arguments:
    keywords = {**given.keywords, **added.keywords}
    return Arguments((*given.positional, *added.positional), keywords, given.complete and added.complete)


def _of_each(frame: Frame, node: ast.Call, options: tuple[Value, ...], call_it: Callable[[Value], Value]) -> Value:
    """Return what calling one of several values gives: what is wrong in one is wrong only if it is in all."""
    results: list[Value] = []
    found: list[list[Event]] = []
    made: list[TorchCall | None] = []
    for option in options:
        results.append(call_it(option))
        found.append(frame.take_events(node))
        made.append(frame.take_call(node))
    for event in found[-1] if all(found) else []:
        frame.emit(event)
    call = _same_call(made)
    if call is not None:
        frame.record_call(call)
    return join_all(results)


def _same_call(made: list[TorchCall | None]) -> TorchCall | None:
    """Return the one operation that is called, whichever option is; None where they differ."""
    first = made[0]
    if first is None or any(call is None or _kind(call) != _kind(first) for call in made):
        return None
    module = join_all(call.module for call in made if call is not None and call.module is not None)
    return replace(first, module=module) if isinstance(module, Object) else first


def _kind(call: TorchCall) -> tuple[object, ...]:
    return call.operation, call.target, call.form, call.inplace


def _call_reference(frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    if name.startswith("torch."):
        return torch_calls.call_reference(frame, node, name, arguments)
    if name.startswith("builtins."):
        return builtin_calls.call(frame, node, name.removeprefix("builtins."), arguments)
    if name == "copy.deepcopy" and arguments.positional:
        original = arguments.positional[0]
        return replace(original, node=node) if isinstance(original, Object) and original.is_module else original
    if name == "functools.partial" and arguments.positional:
        return Partial(arguments.positional[0], replace(arguments, positional=arguments.positional[1:]))
    linked = frame.module.linked(name)
    if linked is not None:
        return apply(frame, node, linked, arguments)
    ancestry = frame.module.ancestry(name)
    if ancestry:
        return Object(ancestry[0], node, arguments, bases=ancestry[1:])
    forget_mutable(frame, node)
    return UNKNOWN


def _call_function(frame: Frame, node: ast.Call, function: Function, arguments: Arguments) -> Value:
    result = frame.module.follow(frame, function, arguments, node)
    forget_mutable(frame, node)
    return result


def _call_method(frame: Frame, node: ast.Call, receiver: Value, name: str, arguments: Arguments) -> Value:
    expression = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    if "backward" in name:  # also accelerator.backward(loss), self.manual_backward(loss)
        tensors.forget_graph(frame)
    match receiver:
        case Tensor():
            return torch_calls.call_tensor_method(frame, node, receiver, name, arguments)
        case Object():
            return torch_calls.call_object_method(frame, node, receiver, name, arguments)
        case Sequence():
            return builtin_calls.sequence_method(frame, expression, receiver, name, arguments)
        case Mapped():
            return builtin_calls.dict_method(frame, expression, receiver, name, arguments)
        case Super():
            return UNKNOWN
        case Choice(options=options):
            return _of_each(frame, node, options, lambda option: _call_method(frame, node, option, name, arguments))
        case _ if is_unknown(receiver) or isinstance(receiver, Number):
            return torch_calls.call_unknown_method(frame, node, receiver, name, arguments)
        case _:
            forget_mutable(frame, node)
            return UNKNOWN


def bind_target(frame: Frame, target: ast.expr, value: Value) -> None:
    """Assign a value to a target of any form."""
    match target:
        case ast.Name(id=name):
            frame.bind(name, value)
            frame.record(target, value)
        case ast.Attribute():
            _bind_attribute(frame, target, value)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            _unpack(frame, elements, value)
        case ast.Starred(value=inner):
            bind_target(frame, inner, UNKNOWN)
        case ast.Subscript():
            tensors.assign_item(frame, target, value)
        case _:
            frame.evaluate(target)


def _bind_attribute(frame: Frame, target: ast.Attribute, value: Value) -> None:
    name, owner = dotted_text(target), frame.evaluate(target.value)
    if isinstance(owner, Tensor) and target.attr == "requires_grad":
        tensors.set_requires_grad(frame, target.value, owner, value)
    elif name is not None:
        frame.attribute_owners.add(name.split(".")[0])
        frame.bind(name, value)
    frame.record(target, value)


def _unpack(frame: Frame, targets: list[ast.expr], value: Value) -> None:
    items: tuple[Value, ...] | None = None
    if isinstance(value, Sequence) and value.items is not None and len(value.items) == len(targets):
        items = value.items
    elif isinstance(value, Sequence):
        items = tuple(element_of(value) for _ in targets)
    elif isinstance(value, (Object, Tensor)):
        items = tuple(unpacked(value) for _ in targets)
    for index, target in enumerate(targets):
        bind_target(frame, target, items[index] if items is not None else UNKNOWN)


def bind_parameters(frame: Frame, function: Function, arguments: Arguments) -> None:
    """Give the parameters of a function their values: from the call, else from defaults and annotations."""
    node = function.node.args
    positional = [*node.posonlyargs, *node.args]
    given = list(arguments.positional)
    if function.receiver is not None and positional and not _is_class_method(function):
        given.insert(0, function.receiver)
    elif _is_class_method(function) and positional:
        given.insert(0, function.owner or UNKNOWN)
    defaults = dict(
        zip([a.arg for a in positional[len(positional) - len(node.defaults) :]], node.defaults, strict=True)
    )
    defaults |= {a.arg: d for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d is not None}
    names = frame.state.names
    for index, parameter in enumerate((*positional, *node.kwonlyargs)):
        if index < len(given) and index < len(positional):
            value = given[index]
        elif parameter.arg in arguments.keywords:
            value = arguments.keywords[parameter.arg]
        elif arguments.complete and parameter.arg in defaults:
            value = frame.evaluate(defaults[parameter.arg])
        else:
            value = UNKNOWN
        names[parameter.arg] = _declared(frame, parameter, value) if is_unknown(value) else value
    for rest in (node.vararg, node.kwarg):
        if rest is not None:
            names[rest.arg] = UNKNOWN


def _declared(frame: Frame, parameter: ast.arg, value: Value) -> Value:
    """Return what a parameter's annotation makes of a value of unknown type."""
    declared = annotated(frame, parameter.annotation, parameter)
    if isinstance(declared, Tensor) and isinstance(value, Quantity):
        return quantities.as_tensor(value)
    if declared is not UNKNOWN:
        return declared
    return quantities.parameter(parameter) if value is UNKNOWN else value


def _is_class_method(function: Function) -> bool:
    if isinstance(function.node, ast.Lambda):
        return False
    return any(isinstance(d, ast.Name) and d.id == "classmethod" for d in function.node.decorator_list)


def annotated(frame: Frame, annotation: ast.expr | None, parameter: ast.arg | None) -> Value:
    """Return what an annotation says of a value; for a parameter its name may say that it is a device."""
    if annotation is None:
        return Device(f"${parameter.arg}") if parameter is not None and parameter.arg == "device" else UNKNOWN
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = parsed_expression(annotation.value)
        except SyntaxError:
            return UNKNOWN
    recorder, frame.recording = frame.recording, None
    declared = frame.evaluate(annotation) if isinstance(annotation, (ast.Name, ast.Attribute)) else UNKNOWN
    frame.recording = recorder
    match declared:
        case Reference(name="torch.Tensor"):
            return Tensor(storage=parameter)
        case Reference(name="torch.device"):
            return Device(f"${parameter.arg}" if parameter is not None else "$device")
        case Reference(name="builtins.int" | "builtins.float"):
            return Number()
        case Reference(name=name) if name.startswith("torch."):
            return Object(name, None, Arguments(complete=False))
        case Class():
            return Object(declared.name, None, Arguments(complete=False), declared)
        case _:
            return UNKNOWN


def join_arguments(given: Iterable[Arguments]) -> Arguments:
    """Return what holds of the arguments at every call."""
    arguments = list(given)
    positional = tuple(join_all(values) for values in zip(*(a.positional for a in arguments), strict=False))
    shared = {name for name in arguments[0].keywords if all(name in a.keywords for a in arguments)}
    keywords = {name: join_all(a.keywords[name] for a in arguments) for name in sorted(shared)}
    same = all(len(a.positional) == len(positional) and set(a.keywords) == shared for a in arguments)
    return Arguments(positional, keywords, same and all(a.complete for a in arguments))
