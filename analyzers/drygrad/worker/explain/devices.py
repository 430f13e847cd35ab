"""Tensors on different devices: which one has to move."""

from __future__ import annotations

import re

from drygrad.worker.explain.scene import Operand, Scene
from drygrad.worker.reading import device_text
from drygrad.worker.run import Fault

_MODEL, _TENSORS, _NUMPY = "DG201", "DG205", "DG207"

_MISMATCH = re.compile(
    r"on the same device|at the same device|at least two devices|but got device|device type|"
    r"torch\.(cuda\.)?\w+Tensor\) and \w+ type \(torch\.|[Ee]xpected .* to be on"
)
_TO_NUMPY = re.compile(r"can't convert (\S+) device type tensor to numpy")


def device_fault(scene: Scene) -> Fault | None:
    """Explain a mismatch of devices."""
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
    return scene.fault(
        code,
        f"{whole}: {advice}",
        operand=wrong.name,
        role=wrong.role,
        device=str(wrong.tensor.device),
        wanted=str(right.tensor.device),
        other=right.name,
        is_parameter=wrong.is_parameter,
    )


def _is_scalar(operand: Operand) -> bool:
    return operand.tensor.dim() == 0 and operand.tensor.device.type == "cpu"


def _wrong_and_right(operands: list[Operand]) -> tuple[Operand, Operand]:
    """Return which operand has to move, and one that is in place: the model's if on an accelerator, else any there."""
    for_model = sorted((o for o in operands if o.is_parameter), key=lambda o: -o.tensor.dim())
    right = next((o for o in for_model if o.tensor.device.type != "cpu"), None)
    right = right or next(o for o in operands if o.tensor.device.type != "cpu")
    wrong = next(o for o in operands if o.tensor.device != right.tensor.device)
    return wrong, right


def _numpy(scene: Scene, device: str) -> Fault:
    operands = [o for o in scene.operands() if str(o.tensor.device) == device]
    name = operands[0].text if operands else "the tensor"
    return scene.fault(_NUMPY, f"{name} is on {device}, and NumPy reads host memory only: copy it with `.cpu()` first")
