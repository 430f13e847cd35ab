"""Shapes that do not meet: whose sizes, and what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from drygrad.worker.descent import was_flattened
from drygrad.worker.explain.collating import collating_fault
from drygrad.worker.explain.scene import Operand, Scene
from drygrad.worker.reading import size_text
from drygrad.worker.run import Fault, Place

_LOSS, _CLASS_DIMENSION, _SHAPE, _FLATTEN = "DG301", "DG313", "DG314", "DG315"


def size_fault(scene: Scene) -> Fault | None:
    """Explain shapes that an operation, a layer or a loss refuses."""
    for pattern, explain in _BY_TEXT:
        found = pattern.search(scene.text)
        if found:
            fault = explain(scene, found)
            if fault:
                return fault
    about_values = "to satisfy the constraint" in scene.text
    return _general(scene) if _ANY.search(scene.text) and not about_values else None


def _shown(operand: Operand) -> str:
    return f"{operand.text} {size_text(operand.tensor.shape)}"


def _count(number: object, noun: str) -> str:
    return f"{number} {noun[:-1] if str(number) == '1' else noun}"


def _fault(scene: Scene, code: str, message: str, operand: Operand | None, **facts: Any) -> Fault:
    if operand is not None:
        facts = {"operand": operand.name, "shape": list(operand.tensor.shape), **facts}
    return scene.fault(code, message, operand, **facts)


def _product(scene: Scene, found: re.Match[str]) -> Fault | None:
    given = scene.input()
    if scene.module and isinstance(scene.module[0], torch.nn.Linear) and given is not None:
        features, expected = given.tensor.shape[-1], scene.module[0].in_features
        flat = _was_flattened(scene, given.tensor)
        message = (
            f"{given.text} has {features} features{' after flatten' if flat else ''}, {scene.what} expects {expected}"
        )
        fault = _fault(scene, _FLATTEN if flat else _SHAPE, message, given, wanted=expected, found=features)
        joined = _wrongly_joined(scene, given.tensor, expected)
        at = scene.elsewhere(scene.run.made_at(scene.module[0])) if flat and joined is None else joined
        return scene.moved(fault, at)
    matrices = [o for o in scene.operands() if o.tensor.dim() and o.role != "bias"][-2:]
    if len(matrices) < 2:
        return None
    left, right = matrices
    inner = (left.tensor.shape[-1], right.tensor.shape[-2] if right.tensor.dim() > 1 else right.tensor.shape[0])
    if inner[0] == inner[1]:
        message = f"{_shown(left)} @ {_shown(right)}: batches of {left.tensor.shape[0]} and {right.tensor.shape[0]}"
        return _fault(scene, _SHAPE, message, left) if left.tensor.dim() == right.tensor.dim() == 3 else None
    return _fault(
        scene,
        _SHAPE,
        f"{_shown(left)} @ {_shown(right)}: {inner[0]} columns do not match {inner[1]} rows",
        left,
        other=right.name,
        other_shape=list(right.tensor.shape),
    )


def _was_flattened(scene: Scene, tensor: torch.Tensor) -> bool:
    held = scene.run.held_of(tensor)
    return was_flattened(tensor) or (held is not None and held.flat)


def _wrongly_joined(scene: Scene, tensor: torch.Tensor, expected: int) -> Place | None:
    """Return the concatenation that would have made the features expected along the last dimension."""
    held = scene.run.held_of(tensor)
    joined = held.joined if held is not None else None
    if joined is None or joined.dim == tensor.dim() - 1 or any(len(shape) != tensor.dim() for shape in joined.shapes):
        return None
    fits = sum(shape[-1] for shape in joined.shapes) == expected and len({shape[:-1] for shape in joined.shapes}) == 1
    return scene.elsewhere(joined.instruction) if fits else None


_EXPECTED: list[tuple[type[torch.nn.Module], str, str, int]] = [
    (torch.nn.modules.conv._ConvNd, "in_channels", "channels", 1),  # pyright: ignore[reportPrivateUsage]
    (torch.nn.modules.batchnorm._NormBase, "num_features", "channels", 1),  # pyright: ignore[reportPrivateUsage]
    (torch.nn.GroupNorm, "num_channels", "channels", 1),
    (torch.nn.RNNBase, "input_size", "features", -1),
    (torch.nn.MultiheadAttention, "embed_dim", "features", -1),
    (torch.nn.LayerNorm, "normalized_shape", "", -1),
]


def _layer(scene: Scene, found: re.Match[str]) -> Fault | None:
    """A layer whose number of channels or features is not the input's."""
    given = scene.input()
    if given is None or scene.module is None:
        return None
    for kind, attribute, noun, axis in _EXPECTED:
        if isinstance(scene.module[0], kind):
            expected: Any = getattr(scene.module[0], attribute)
            shape = given.tensor.shape
            if noun == "":
                message = (
                    f"{_shown(given)} does not end in {size_text(expected)}, the shape that {scene.what} "
                    "normalizes over"
                )
                return _fault(scene, _SHAPE, message, given, wanted=list(expected), attribute=attribute)
            if given.tensor.dim() > axis and shape[axis] != expected:
                message = f"{_shown(given)} has {_count(shape[axis], noun)}, {scene.what} expects {expected}"
                return _fault(scene, _SHAPE, message, given, wanted=expected, found=shape[axis], attribute=attribute)
    return None


def _convolution(scene: Scene, found: re.Match[str]) -> Fault | None:
    expected, channels = found.groups()
    given = scene.input()
    if given is None:
        return None
    message = f"{_shown(given)} has {_count(channels, 'channels')}, {scene.what} expects {expected}"
    return _fault(scene, _SHAPE, message, given, wanted=int(expected), found=int(channels))


def _batches(scene: Scene, found: re.Match[str]) -> Fault | None:
    given = scene.operand("input", "target")
    if not given:
        return None
    rows, wanted = int(found.group(1)), int(found.group(2))
    return _loss(scene, given, f"{rows} rows of scores for {wanted} targets")


def _several_targets(scene: Scene, found: re.Match[str]) -> Fault | None:
    given = scene.operand("input", "target")
    if not given:
        return None
    return _loss(scene, given, f"class indices need one entry per row of scores, {[given[0].tensor.shape[0]]}")


def _target_size(scene: Scene, found: re.Match[str]) -> Fault | None:
    given = scene.operand("input", "target")
    if not given:
        return None
    scores, target = given
    shape, wanted = scores.tensor.shape, target.tensor.shape
    if len(shape) == len(wanted) + 1 and shape[:-1] == wanted:
        message = (
            f"{scene.what} expects classes in dimension 1; {_shown(scores)} has {shape[1]} there, and "
            f"{_shown(target)} matches its last dimension as the classes ({shape[-1]})"
        )
        return _fault(scene, _CLASS_DIMENSION, message, scores, other=target.name, wanted=1, found=-1)
    return _loss(scene, given, f"targets of the shape {found.group(1)} are expected")


def _equal(scene: Scene, found: re.Match[str]) -> Fault | None:
    given = scene.operand("input", "target")
    return _loss(scene, given, f"{scene.what} needs equal shapes and does not broadcast") if given else None


def _loss(scene: Scene, given: list[Operand], why: str) -> Fault:
    at, (scores, target) = scene.put_together(given)
    fault = _fault(
        scene,
        _LOSS,
        f"{_shown(scores)} and {_shown(target)}: {why}",
        target,
        other=scores.name,
        other_shape=list(scores.tensor.shape),
    )
    return scene.moved(fault, at)


def _broadcast(scene: Scene, found: re.Match[str]) -> Fault | None:
    operands = [o for o in scene.operands() if o.tensor.dim()]
    if len(operands) < 2:
        return None
    dim = int(found.group(3))
    pair = next(
        ((a, b) for a in operands for b in operands if a is not b and _size_from_end(a, b, dim) == _sizes(found)), None
    )
    at, (first, second) = scene.put_together([*(pair or operands[:2])])
    here, there = _sizes(found)
    message = f"{_shown(first)} and {_shown(second)} do not broadcast: dimension {dim} has {here} and {there}"
    code = _LOSS if scene.is_loss else _SHAPE
    fault = _fault(scene, code, message, first, other=second.name, other_shape=list(second.tensor.shape))
    return scene.moved(fault, at)


def _sizes(found: re.Match[str]) -> tuple[int, int]:
    return int(found.group(1)), int(found.group(2))


def _size_from_end(first: Operand, second: Operand, dim: int) -> tuple[int, int] | None:
    from_end = dim - max(first.tensor.dim(), second.tensor.dim())
    if min(first.tensor.dim(), second.tensor.dim()) < -from_end:
        return None
    return first.tensor.shape[from_end], second.tensor.shape[from_end]


def _expansion(scene: Scene, found: re.Match[str]) -> Fault | None:
    wanted, given, dim = found.group(1), found.group(2), found.group(3)
    shape = f"[{found.group(5)}]"
    name = next((o.text for o in scene.operands() if size_text(o.tensor.shape) == shape), "a tensor of shape")
    message = f"{name} {shape} does not fit in [{found.group(4)}]: dimension {dim} has {given}, not {wanted}"
    return scene.fault(_SHAPE, message, shape=found.group(5), wanted=found.group(4))


def _view(scene: Scene, found: re.Match[str]) -> Fault | None:
    given = next(iter(scene.operands()), None)
    text, count = found.groups()
    wanted = [int(size) for size in text.split(",") if size.strip()]
    known = 1
    for size in wanted:
        known *= size if size != -1 else 1
    need = f"a multiple of {known}" if -1 in wanted else f"{known}"
    name = _shown(given) if given else "the tensor"
    code = _FLATTEN if given and given.tensor.dim() > 2 and len(wanted) == 2 and wanted[0] == -1 else _SHAPE
    return _fault(scene, code, f"{name} has {count} elements; the shape {wanted} needs {need}", given, wanted=wanted)


def _joined(scene: Scene, found: re.Match[str]) -> Fault | None:
    operands = scene.operands()
    if len(operands) < 2:
        return None
    collated = collating_fault(scene, _SHAPE)
    if collated is not None:
        return collated
    shown = ", ".join(map(_shown, operands[:6]))
    tail = scene.text.split(". ", 1)[0].rstrip(".")
    number = int(found.groupdict().get("number") or 1)
    odd = operands[number] if number < len(operands) else operands[-1]
    if found.groupdict().get("dim"):
        tail = f"all dimensions except {found.group('dim')} must be equal"
    elif "stack" in tail:
        tail = "stack needs equal shapes"
    return _fault(scene, _SHAPE, f"{shown}: {tail}", odd, wanted=list(operands[0].tensor.shape))


def _general(scene: Scene) -> Fault | None:
    """Fall back on torch's own text, with the operands' names and shapes."""
    operands = [o for o in scene.operands() if not o.is_parameter or scene.module is None][:4]
    shown = ", ".join(map(_shown, operands))
    first = scene.text.split("\n", 1)[0].rstrip(".")
    code = _LOSS if scene.is_loss else _SHAPE
    message = f"{shown}: {first}" if shown else f"{scene.what}: {first}"
    return _fault(scene, code, message, operands[0] if operands else None)


_Explain = Callable[[Scene, "re.Match[str]"], "Fault | None"]
_BY_TEXT: list[tuple[re.Pattern[str], _Explain]] = [
    (re.compile(text), explain)
    for text, explain in (
        (r"shapes cannot be multiplied|^size mismatch, got|Expected size for first two dimensions", _product),
        (r"to have (\d+) channels, but got (\d+) channels", _convolution),
        (
            r"running_mean should contain|input\.size\(-1\) must be equal|expecting embedding dimension|"
            r"channels in input to be divisible|Given normalized_shape=|[Ee]xpected.*num_channels",
            _layer,
        ),
        (r"input batch_size \((\d+)\) to match target batch_size \((\d+)\)", _batches),
        (r"multi-target not supported", _several_targets),
        (r"Expected target size (\[.*?\]), got", _target_size),
        (r"Using a target size|[Tt]arget size .* must be the same as input size", _equal),
        (
            r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at .*dimension (\d+)",
            _broadcast,
        ),
        (
            r"expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\) at non-singleton dimension "
            r"(\d+)\.\s+Target sizes: \[(.*?)\]\.\s+Tensor sizes: \[(.*?)\]",
            _expansion,
        ),
        (r"shape '\[(.*?)\]' is invalid for input of size (\d+)", _view),
        (r"must match except in dimension (?P<dim>\d+).*tensor number (?P<number>\d+)", _joined),
        (r"stack expects each tensor|must have same number of dimensions", _joined),
    )
]

_ANY = re.compile(
    r"doesn't match the broadcast shape|same number of elements|inconsistent tensor size|must be equal|"
    r"[Ee]xpected .*(\bsize|\bshape|\dD|dimension|channels|more than 1 value)|"
    r"[Ss]izes? .*(mismatch|must match|too small)|"
    r"(must be|is not|to be) a \dD|Kernel size can't be greater|shape of the mask|dimension out of range|"
    r"Dimension out of range|does not match the length of|exceeds dimension size|einsum\(\)|"
    r"weight tensor should be defined|split_sizes|unflatten|view size is not compatible|[Ss]hape mismatch|"
    r"Size does not match|selected index k out of range|source < number of ones in mask|does not broadcast",
    re.DOTALL,
)
