"""Tensors on different devices: which one has to move."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

import torch

from drygrad.worker.explain.scene import Operand, Scene
from drygrad.worker.ledger import Origin
from drygrad.worker.naming import binding_in
from drygrad.worker.reading import device_text, share_storage
from drygrad.worker.run import Fault, Place
from drygrad.worker.spelling import text_of

_MODEL, _IN_METHOD, _ATTRIBUTE, _TENSORS, _NUMPY = "DG201", "DG203", "DG204", "DG205", "DG207"

_MISMATCH = re.compile(
    r"on the same device|at the same device|at least two devices|but got device|device type|"
    r"torch\.(cuda\.)?\w+Tensor\) and \w+ type \(torch\.|[Ee]xpected .* to be on"
)
_GENERATOR = re.compile(r"Expected a '(\w+)' device type for generator but found '(\w+)'")
_TO_NUMPY = re.compile(r"can't convert (\S+) device type tensor to numpy")


def device_fault(scene: Scene) -> Fault | None:
    """Explain a mismatch of devices."""
    found = _GENERATOR.search(scene.text)
    if found:
        return _generator(scene, *found.groups())
    found = _TO_NUMPY.search(scene.text)
    if found:
        return _numpy(scene, found.group(1))
    if not _MISMATCH.search(scene.text):
        return None
    operands = [operand for operand in scene.operands() if not _is_scalar(operand)]
    if len({operand.tensor.device for operand in operands}) < 2:
        return None
    wrong, right = _wrong_and_right(operands)
    kept = _plain_attribute(scene, wrong)
    if kept is not None:
        wrong = wrong._replace(name=kept.name, text=f"`{kept.name}`")
    code = _MODEL if (wrong.is_parameter or right.is_parameter) and not scene.is_loss else _TENSORS
    mine, wanted = device_text(wrong.tensor.device), device_text(right.tensor.device)
    whole = f"{wrong.text} is on {mine}, {right.text} on {wanted}"
    owner = "the loss" if scene.is_loss else "the model"
    advice = f"{owner} has to move to {wanted}" if wrong.is_parameter else f"move {wrong.text} to {wanted}"
    if kept is not None:
        advice = "register it as a buffer, which moves with the module"
    fault = scene.fault(
        code,
        f"{whole}: {advice}",
        wrong,
        operand=wrong.name,
        role=wrong.role,
        device=str(wrong.tensor.device),
        wanted=str(right.tensor.device),
        other=right.name,
        is_parameter=wrong.is_parameter,
    )
    return _at_culprit(scene, fault, wrong, kept)


def _at_culprit(scene: Scene, fault: Fault, wrong: Operand, kept: _Attribute | None) -> Fault:
    """Move a fault to the line that is to be changed, where that is known: the error comes from a later one."""
    at = scene.made_at(wrong)
    if wrong.is_parameter:
        at = scene.elsewhere(scene.run.made_at(scene.module[0])) if scene.is_loss and scene.module else None
    elif kept is not None:
        at, fault.code = kept.place, _ATTRIBUTE
    elif not _is_made_in_method(scene, wrong):
        at = None
    elif at is not None:
        fault.code = _IN_METHOD
    if at is not None and scene.place is not None:
        fault.related = [r for r in fault.related if r[1].line != at.line] + [("it fails here", scene.place)]
        fault.at = at
    return fault


class _Attribute(NamedTuple):
    """An attribute of a module, and where ``__init__`` binds it."""

    name: str
    place: Place


def _plain_attribute(scene: Scene, wrong: Operand) -> _Attribute | None:
    """Return the attribute of the module in question that keeps a tensor, and is no buffer."""
    module = scene.call.receiver()
    if not isinstance(module, torch.nn.Module):
        return None
    held = (n for n, v in vars(module).items() if isinstance(v, torch.Tensor) and share_storage(v, wrong.tensor))
    name = next(held, None)
    origin = scene.run.origin_of(wrong.tensor)
    if name is None or origin is None or _names_device(scene, origin):
        return None
    inits = (getattr(vars(kind).get("__init__"), "__code__", None) for kind in type(module).__mro__)
    users = (code for code in inits if code is not None and scene.run.lines.is_user(code))
    bound = ((f"{code.co_varnames[0]}.{name}", code) for code in users)
    places = ((text, binding_in(code, text, scene.run.lines)) for text, code in bound)
    return next((_Attribute(text, place) for text, place in places if place is not None), None)


def _is_made_in_method(scene: Scene, wrong: Operand) -> bool:
    """Say whether a method of the module in question has made a tensor of nothing, and with no device."""
    module, origin = scene.call.receiver(), scene.run.origin_of(wrong.tensor)
    if not isinstance(module, torch.nn.Module) or not origin or not origin.from_nothing or origin.instruction is None:
        return False
    code = origin.instruction.code
    methods = (vars(kind).get(code.co_name) for kind in type(module).__mro__)
    return (
        code.co_name != "__init__"
        and not _names_device(scene, origin)
        and any(getattr(method, "__code__", None) is code for method in methods)
    )


def _names_device(scene: Scene, origin: Origin) -> bool:
    """Say whether the text that made a tensor says on which device."""
    return origin.instruction is None or "device" in (text_of(scene.run.lines, origin.instruction) or "")


def _is_scalar(operand: Operand) -> bool:
    return operand.tensor.dim() == 0 and operand.tensor.device.type == "cpu"


def _wrong_and_right(operands: list[Operand]) -> tuple[Operand, Operand]:
    """Return which operand has to move, and one that is in place: the model's if on an accelerator, else any there."""
    for_model = sorted((o for o in operands if o.is_parameter), key=lambda o: -o.tensor.dim())
    right = next((o for o in for_model if o.tensor.device.type != "cpu"), None)
    right = right or next(o for o in operands if o.tensor.device.type != "cpu")
    wrong = next(o for o in operands if o.tensor.device != right.tensor.device)
    return wrong, right


def _generator(scene: Scene, wanted: str, given: str) -> Fault:
    written = scene.call.expression()
    keywords = written.keywords if isinstance(written, ast.Call) else []
    name = next((f"`{ast.unparse(k.value)}`" for k in keywords if k.arg == "generator"), "the generator")
    where = "the CPU" if given == "cpu" else given
    message = f"{name} is a generator of {where}, and the values are drawn on {wanted}: `torch.Generator({wanted!r})`"
    return scene.fault(_TENSORS, f"{message} draws there")


def _numpy(scene: Scene, device: str) -> Fault:
    operands = [o for o in scene.operands() if str(o.tensor.device) == device]
    name = operands[0].text if operands else "the tensor"
    return scene.fault(_NUMPY, f"{name} is on {device}, and NumPy reads host memory only: copy it with `.cpu()` first")
