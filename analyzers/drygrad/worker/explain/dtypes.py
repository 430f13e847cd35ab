"""Tensors whose dtypes do not meet, or that an operation does not take: which one has to be converted."""

from __future__ import annotations

import re

import torch

from drygrad.worker.explain.blame import is_loop, of_dtype, owner
from drygrad.worker.explain.samples import part_of_sample, table_of
from drygrad.worker.explain.scene import Operand, Scene
from drygrad.worker.naming import binding_in
from drygrad.worker.reading import dtype_text
from drygrad.worker.run import Fault, Place

_CLASSES, _BCE, _DTYPE, _OVERFLOW = "DG309", "DG310", "DG317", "DG409"

MISMATCH = re.compile(
    r"same dtype|scalar types?|dtype|input data types|desired output type|\w+ type \([\w. ]+\) and \w+ type"
)
_NO_KERNEL = re.compile(r"\"([^\"]+)\" not implemented for '(\w+)'")
_INDICES = re.compile(
    r"argument #\d+ '(indices|index)'|tensors used as indices must be|Expected dtype int\S* .*for index"
    r"|index tensor of type LongTensor"
)
_CONVERSIONS = frozenset({"aten::lift_fresh", "aten::_to_copy"})
_TOO_LARGE = re.compile(r"cannot be converted to type (?:at|c10)::Half without overflow")
_PROBABILITIES = "floating point type for target with class probabilities"
_TARGET = re.compile(r"expected target dtype|expected scalar type Long but found")


def dtype_fault(scene: Scene) -> Fault | None:
    """Explain a mismatch of dtypes."""
    text = scene.text
    if _TOO_LARGE.search(text):
        return scene.fault(_OVERFLOW, "a number above 65504, the maximum of float16, for a float16 tensor")
    if _TARGET.search(text):
        return _index_target(scene)
    if _PROBABILITIES in text:
        return _probabilities(scene)
    if scene.what.startswith("binary_cross_entropy") or _is_bce(scene):
        return _float_target(scene)
    if _INDICES.search(text):
        return _index(scene)
    if _NO_KERNEL.search(text) or "could not infer output dtype" in text:
        return _unsupported(scene)
    return _different(scene) if MISMATCH.search(text) else None


def _is_bce(scene: Scene) -> bool:
    return scene.module is not None and type(scene.module[0]).__name__ in ("BCELoss", "BCEWithLogitsLoss")


def _target(scene: Scene) -> Operand | None:
    given = scene.operand("input", "target")
    return given[1] if given else next((o for o in scene.operands() if o.role == "target"), None)


def _index_target(scene: Scene) -> Fault | None:
    target = _target(scene)
    if target is None:
        return None
    return _conversion(scene, _CLASSES, target, torch.int64, f"{scene.what} expects class indices as int64")


def _probabilities(scene: Scene) -> Fault | None:
    target = _target(scene)
    if target is None:
        return None
    why = f"{scene.what} expects probabilities as floats if the target has the input's shape"
    return _conversion(scene, _DTYPE, target, torch.float32, why)


def _float_target(scene: Scene) -> Fault | None:
    given = scene.operand("input", "target")
    if not given or given[1].tensor.is_floating_point():
        return None
    return _conversion(scene, _BCE, given[1], given[0].tensor.dtype, f"{scene.what} expects it as a float")


def _index(scene: Scene) -> Fault | None:
    operands = [o for o in scene.operands() if not o.is_parameter]
    named = [o for o in operands if o.role.startswith(("ind", "tensor"))] or operands[1:] or operands
    wrong = next((o for o in named if o.tensor.dtype not in (torch.int64, torch.int32)), None)
    if wrong is None:
        return scene.fault(_DTYPE, f"{scene.what}: an index must be int64")
    return _conversion(scene, _DTYPE, wrong, torch.int64, "an index must be int64")


def _unsupported(scene: Scene) -> Fault | None:
    found = _NO_KERNEL.search(scene.text)
    operand = scene.input()
    if operand is None:
        return None
    dtype = operand.tensor.dtype
    if dtype.is_floating_point or dtype.is_complex:
        where = "the CPU" if operand.tensor.device.type == "cpu" else "this device"
        kernel = found.group(1) if found else scene.what
        return scene.fault(_DTYPE, f"{operand.text} is {dtype_text(dtype)}, which {kernel} does not support on {where}")
    return _conversion(scene, _DTYPE, operand, torch.float32, f"{scene.what} supports floats only")


def _different(scene: Scene) -> Fault | None:
    operands = [o for o in scene.operands() if o.tensor.numel() or o.tensor.dim()]
    if len({o.tensor.dtype for o in operands}) < 2:
        return None
    right = max(operands, key=_weight)
    wrong = next(o for o in operands if o.tensor.dtype != right.tensor.dtype)
    return _conversion(
        scene, _DTYPE, wrong, right.tensor.dtype, f"{right.text} {dtype_text(right.tensor.dtype)}", joined=", "
    )


def _weight(operand: Operand) -> tuple[bool, int, int]:
    """Prefer the model's weights, then float32, the dtype that models are made of, then other floats."""
    dtype, own = operand.tensor.dtype, operand.is_parameter
    return own, operand.tensor.dim() if own else 0, 2 if dtype is torch.float32 else int(dtype.is_floating_point)


_METHODS = {torch.float32: "float", torch.int64: "long", torch.float64: "double", torch.float16: "half"}


def _conversion(
    scene: Scene, code: str, wrong: Operand, wanted: torch.dtype, why: str, joined: str = ", and "
) -> Fault:
    method = _METHODS.get(wanted)
    call = f".{method}()" if method else f".to(torch.{dtype_text(wanted)})"
    mine = dtype_text(wrong.tensor.dtype)
    owned = owner(scene.calls, wrong.tensor, of_dtype(scene.run, wrong.tensor))
    made = _converted(scene, wrong)
    converted = {"made": True} if made is not None else {}
    sampled = _sampled(scene, wrong)
    if sampled is not None:
        made, converted = sampled, {}
    elif made is None and owned.call is not scene.call and not wrong.is_parameter:
        made = owned.call.place
        wrong = wrong._replace(name=owned.name, text=f"`{owned.name}`") if owned.name else wrong
    advice = f"convert {wrong.text} with `{call}`" if not wrong.is_parameter else f"convert it with `{call}`"
    if sampled is not None:
        advice += " where the sample is created"
    fault = scene.fault(
        code,
        f"{wrong.text} is {mine}{joined}{why}: {advice}",
        wrong,
        operand=wrong.name,
        role=wrong.role,
        dtype=mine,
        wanted=dtype_text(wanted),
        **converted,
    )
    return scene.moved(fault, made)


def _sampled(scene: Scene, wrong: Operand) -> Place | None:
    """Return where a dataset makes the part of a sample that has its dtype with the others, or with its table."""
    delivered = scene.run.delivered(wrong.tensor) if not wrong.is_parameter else None
    held = scene.run.held_of(wrong.tensor)
    if delivered is None or held is None:
        return None
    root = held.roots.dtype
    written = root.op in _CONVERSIONS and root.instruction is not None and not is_loop(root.instruction)
    if written and all(other.roots.dtype is not root for other in delivered.others):
        return None
    part = part_of_sample(delivered, scene.run.lines)
    place = part.place if part is not None else _bound(scene, table_of(delivered))
    same = place is not None and scene.place is not None and place.line == scene.place.line
    return None if same else place


def _bound(scene: Scene, table: torch.Tensor | None) -> Place | None:
    """Return the line of a function under way that binds the name of a table."""
    if table is None:
        return None
    for call in scene.calls:
        name, written = call.find(table)
        if name is not None and written is table and name.isidentifier():
            return binding_in(call.code, name, scene.run.lines)
    return None


def _converted(scene: Scene, wrong: Operand) -> Place | None:
    """Return the line that made numbers a tensor of this dtype, or converted one to it."""
    held = scene.run.held_of(wrong.tensor)
    origin = held.roots.dtype if held is not None and not wrong.is_parameter else None
    if origin is None or origin.op not in _CONVERSIONS or origin.instruction is None:
        return None
    place = scene.elsewhere(origin.instruction)
    return None if place is None or is_loop(origin.instruction) else place
