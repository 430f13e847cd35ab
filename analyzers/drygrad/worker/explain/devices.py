"""Tensors on different devices: which one has to move."""

from __future__ import annotations

import ast
import re

import torch

from drygrad.worker.explain.scene import Operand, Scene
from drygrad.worker.reading import device_text
from drygrad.worker.run import Fault
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
    code = _MODEL if (wrong.is_parameter or right.is_parameter) and not scene.is_loss else _TENSORS
    mine, wanted = device_text(wrong.tensor.device), device_text(right.tensor.device)
    whole = f"{wrong.text} is on {mine}, {right.text} on {wanted}"
    owner = "the loss" if scene.is_loss else "the model"
    advice = f"{owner} has to move to {wanted}" if wrong.is_parameter else f"move {wrong.text} to {wanted}"
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
    return _at_culprit(scene, fault, wrong)


def _at_culprit(scene: Scene, fault: Fault, wrong: Operand) -> Fault:
    """Move a fault to the line that is to be changed, where that is known: the error comes from a later one."""
    at = scene.made_at(wrong)
    if wrong.is_parameter:
        at = scene.elsewhere(scene.run.made_at(scene.module[0])) if scene.is_loss and scene.module else None
    elif at is not None:
        code = _code_of_factory(scene, wrong)
        at, fault.code = (at, code) if code else (None, fault.code)
    if at is not None and scene.place is not None:
        fault.related = [r for r in fault.related if r[1].line != at.line] + [("it fails here", scene.place)]
        fault.at = at
    return fault


def _code_of_factory(scene: Scene, wrong: Operand) -> str | None:
    """Return the rule for a tensor that a method of the module in question has made of nothing, and with no device."""
    module, origin = scene.call.receiver(), scene.run.origin_of(wrong.tensor)
    if not isinstance(module, torch.nn.Module) or not origin or not origin.from_nothing or origin.instruction is None:
        return None
    code, written = origin.instruction.code, text_of(scene.run.lines, origin.instruction) or ""
    kinds = type(module).__mro__
    if "device" in written or all(getattr(vars(k).get(code.co_name), "__code__", None) is not code for k in kinds):
        return None
    if code.co_name != "__init__":
        return _IN_METHOD
    return _ATTRIBUTE if any(value is wrong.tensor for value in vars(module).values()) else None


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
