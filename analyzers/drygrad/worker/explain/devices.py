"""Tensors on different devices: which one has to move."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch

from drygrad.worker.explain.blame import (
    COMPREHENSIONS,
    Owned,
    comes_from,
    function_moves,
    is_delivered,
    made_too_early,
    made_unaware,
    moves,
    of_device,
    owner,
)
from drygrad.worker.explain.generators import ELSEWHERE, generator_fault
from drygrad.worker.explain.scene import Operand, Scene
from drygrad.worker.explain.unregistered import unregistered
from drygrad.worker.ledger import Origin
from drygrad.worker.lines import Instruction
from drygrad.worker.naming import Call, binding_in
from drygrad.worker.reading import device_text, share_storage
from drygrad.worker.run import Fault, Place
from drygrad.worker.spelling import text_of

_MODEL, _IN_METHOD, _ATTRIBUTE, _TENSORS, _NUMPY = "DG201", "DG203", "DG204", "DG205", "DG207"
_MOVED_AFTER_STATE, _IN_PLAIN_LIST = "DG211", "DG741"

_ITEMS = 64
_MISMATCH = re.compile(
    r"on the same device|at the same device|at least two devices|but got device|device type|"
    r"torch\.(cuda\.)?\w+Tensor\) and \w+ type \(torch\.|[Ee]xpected .* to be on"
)
_LENGTHS = re.compile(r"'lengths' argument should be a 1D CPU int64 tensor, but got 1D (?!cpu)\w+")
_GRADIENT = re.compile(r"invalid gradient at index (\d+) - expected device")
_TO_NUMPY = re.compile(r"can't convert (\S+) device type tensor to numpy")


def device_fault(scene: Scene) -> Fault | None:
    """Explain a mismatch of devices."""
    found = ELSEWHERE.search(scene.text)
    if found:
        return generator_fault(scene, _TENSORS, *found.groups())
    found = _TO_NUMPY.search(scene.text)
    if found:
        return _numpy(scene, found.group(1))
    if _LENGTHS.search(scene.text):
        return _lengths(scene)
    operands = [operand for operand in _met(scene) if not _is_scalar(operand)]
    if len({operand.tensor.device for operand in operands}) < 2:
        return None
    wrong, right = _wrong_and_right(operands)
    known = _moved_after_state(scene, wrong, right) or _in_plain_list(scene, wrong, right)
    if known is not None:
        return known
    culprit = _culprit(scene, wrong)
    inner = {"inner": wrong.name} if culprit.name is not None and culprit.code is None else {}
    if culprit.name is not None:
        wrong = wrong._replace(name=culprit.name, text=f"`{culprit.name}`")
    of_model = (wrong.is_parameter or right.is_parameter) and not scene.is_loss and _is_in_model(scene)
    code = _MODEL if of_model else _TENSORS
    mine, wanted = device_text(wrong.tensor.device), device_text(right.tensor.device)
    whole = f"{wrong.text} is on {mine}, {right.text} on {wanted}"
    owner = "the loss" if scene.is_loss else "the model"
    advice = f"move {owner} to {wanted}" if wrong.is_parameter else f"move {wrong.text} to {wanted}"
    if culprit.code == _ATTRIBUTE:
        advice = "register it as a buffer so that it moves with the module"
    fault = scene.fault(
        culprit.code or code,
        f"{whole}: {advice}",
        wrong,
        operand=wrong.name,
        role=wrong.role,
        device=str(wrong.tensor.device),
        wanted=str(right.tensor.device),
        other=right.name,
        is_parameter=wrong.is_parameter,
        **inner,
    )
    return scene.moved(fault, culprit.place)


def _met(scene: Scene) -> list[Operand]:
    """Return the tensors that met, if the error says that their devices do not fit."""
    found = _GRADIENT.search(scene.text)
    if found:
        return scene.begun_with(int(found[1]))
    return scene.operands() if _MISMATCH.search(scene.text) else []


def _moved_after_state(scene: Scene, wrong: Operand, right: Operand) -> Fault | None:
    """Explain a step whose optimizer has its state where the parameters were before they moved."""
    optimizers = (value for value in scene.call.local("self") if isinstance(value, torch.optim.Optimizer))
    optimizer = next(optimizers, None)
    if optimizer is None:
        return None
    states = ((parameter, state.values()) for parameter, state in optimizer.state.items())
    mine = (p for p, values in states if any(value is wrong.tensor for value in values))
    parameter = next((p for p in mine if p.device != wrong.tensor.device), None)
    held = scene.run.held_of(parameter) if parameter is not None else None
    if parameter is None or held is None or held.source is None:
        return None
    there, here = device_text(parameter.device), device_text(wrong.tensor.device)
    message = f"the parameters moved to {there} after the optimizer's state was created on {here}; move the model first"
    fault = scene.fault(_MOVED_AFTER_STATE, message, device=str(wrong.tensor.device), wanted=str(parameter.device))
    return scene.moved(fault, scene.elsewhere(scene.run.allocated_at(parameter)))


def _in_plain_list(scene: Scene, wrong: Operand, right: Operand) -> Fault | None:
    """Explain a layer that stayed behind because its module keeps it where `.to()` does not look."""
    hidden = unregistered(scene, wrong, right) if wrong.is_parameter else None
    if hidden is None:
        return None
    wanted = device_text(right.tensor.device)
    message = (
        f"`{hidden.name}` is a plain {hidden.kind}, so moving the module to {wanted} leaves its layers on "
        f"{device_text(wrong.tensor.device)}; use `{hidden.remedy}`"
    )
    return scene.moved(scene.fault(_IN_PLAIN_LIST, message, wrong), hidden.place)


def _is_in_model(scene: Scene) -> bool:
    """Say whether a module was at work, its own or the user's."""
    return scene.module is not None or any(isinstance(call.receiver(), torch.nn.Module) for call in scene.calls)


class _Culprit(NamedTuple):
    """The place that is to be changed, if it is not where the error came from; what it calls the operand; a code."""

    place: Place | None = None
    name: str | None = None
    code: str | None = None


def _culprit(scene: Scene, wrong: Operand) -> _Culprit:
    """Say whose line it is that an operand is not on the device."""
    if wrong.is_parameter:
        of_loss = scene.run.made_at(scene.module[0]) if scene.is_loss and scene.module else None
        return _Culprit(scene.elsewhere(of_loss or _copied_early(scene, wrong) or _never_moved(scene, wrong)))
    kept = _plain_attribute(scene, wrong)
    if kept is not None:
        is_module = isinstance(_receiver(scene), torch.nn.Module)
        return _Culprit(kept.place, kept.name, _ATTRIBUTE if is_module else None)
    if _is_made_in_method(scene, wrong):
        place = scene.made_at(wrong)
        return _Culprit(place, None if place or wrong.name else _written(scene, wrong), _IN_METHOD)
    owned = owner(_up_to_a_mover(scene), wrong.tensor, of_device(scene.run, wrong.tensor))
    made = _left_behind(scene, wrong, owned)
    made = made or scene.elsewhere(_made_unaware(scene, wrong, owned) or _copied_early(scene, wrong))
    if made is not None:
        return _Culprit(made)
    if owned.call is scene.call or owned.call.place is None:
        return _Culprit()
    return _Culprit(owned.call.place, owned.name)


def _up_to_a_mover(scene: Scene) -> Sequence[Call]:
    """Return the calls up to the first whose function moves what it has: what it was handed it has to move, too."""
    movers = (place for place, call in enumerate(scene.calls) if moves(call, scene.run.lines))
    return scene.calls[: next(movers, len(scene.calls)) + 1]


def _made_unaware(scene: Scene, wrong: Operand, owned: Owned) -> Instruction | None:
    """Return the line that let a tensor be made of nothing and on no device, where there was one to make it on."""
    held = scene.run.held_of(wrong.tensor)
    if held is None or is_delivered(owned.call, owned.name, scene.run.lines):
        return None
    origin = held.roots.device
    return made_unaware(origin, owned.call) if origin.from_nothing and not _names_device(scene, origin) else None


def _left_behind(scene: Scene, wrong: Operand, owned: Owned) -> Place | None:
    """Return the line of a function that has moved what came together with the operand, and handed both on."""
    left = scene.run.left_behind(wrong.tensor)
    if left is None or any(left.code is call.code for call in scene.calls):
        return None
    for call in scene.calls[: scene.calls.index(owned.call) + 1]:
        names = call.written(owned.tensor if call is owned.call else wrong.tensor)
        if any(comes_from(call, name, left.code, scene.run.lines) for name in names):
            return scene.elsewhere(left)
    return None


def _copied_early(scene: Scene, wrong: Operand) -> Instruction | None:
    """Return the line that had a tensor copied from one that was moved only later."""
    held = scene.run.held_of(wrong.tensor)
    if held is None or held.source is None or not held.source.moved:
        return None
    return made_too_early(held.origin, scene.calls)


def _never_moved(scene: Scene, wrong: Operand) -> Instruction | None:
    """Return the line that has made the whole module that a weight is of, where its function moves others."""
    whole: torch.nn.Module | None = None
    for call in scene.calls:
        receiver = call.receiver()
        if isinstance(receiver, torch.nn.Module) and any(p is wrong.tensor for p in receiver.parameters()):
            whole = receiver
    if whole is None or len({p.device for p in whole.parameters()}) != 1:
        return None
    made = scene.run.built_at(whole)
    return made if made is not None and function_moves(made.code, scene.run.lines) else None


class _Attribute(NamedTuple):
    """An attribute of an object, and where ``__init__`` binds it."""

    name: str
    place: Place


def _plain_attribute(scene: Scene, wrong: Operand) -> _Attribute | None:
    """Return the attribute that keeps a tensor, of the module in question, or of an object that knows its device."""
    module = _receiver(scene)
    if not isinstance(module, torch.nn.Module) and not _knows_device(module):
        return None
    held = (n for n, v in vars(module).items() if not n.startswith("_") and _keeps(v, wrong.tensor))
    name = next(held, None)
    origin = scene.run.origin_of(wrong.tensor)
    if name is None or origin is None or _names_device(scene, origin):
        return None
    inits = (getattr(vars(kind).get("__init__"), "__code__", None) for kind in type(module).__mro__)
    users = (code for code in inits if code is not None and scene.run.lines.is_user(code))
    bound = ((f"{code.co_varnames[0]}.{name}", code) for code in users)
    places = ((text, binding_in(code, text, scene.run.lines)) for text, code in bound)
    return next((_Attribute(text, place) for text, place in places if place is not None), None)


def _receiver(scene: Scene) -> object:
    """Return the object whose method the error came from, or a comprehension in it."""
    call = next((call for call in scene.calls if call.code.co_name not in COMPREHENSIONS), scene.call)
    return call.receiver()


def _keeps(value: object, tensor: torch.Tensor) -> bool:
    """Say whether a value is a tensor, or a list, dict or distribution that holds it."""
    if isinstance(value, torch.Tensor):
        return share_storage(value, tensor)
    if isinstance(value, torch.distributions.Distribution):
        value = list(vars(value).values())
    if isinstance(value, dict):
        value = list(cast("dict[object, object]", value).values())
    items = cast("list[object]", value)[:_ITEMS] if isinstance(value, (list, tuple)) else []
    return any(isinstance(item, torch.Tensor) and share_storage(item, tensor) for item in items)


def _knows_device(value: object) -> bool:
    """Say whether an object of the user's keeps the name of an accelerator."""
    kept = getattr(value, "__dict__", {}).values() if type(value).__module__ != "builtins" else ()
    return any(
        (isinstance(item, torch.device) and item.type != "cpu") or (isinstance(item, str) and item.startswith("cuda"))
        for item in kept
    )


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


def _written(scene: Scene, wrong: Operand) -> str | None:
    """Return the text that made a tensor which has no name."""
    origin = scene.run.origin_of(wrong.tensor)
    return text_of(scene.run.lines, origin.instruction) if origin and origin.instruction else None


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


def _numpy(scene: Scene, device: str) -> Fault:
    operands = [o for o in scene.operands() if str(o.tensor.device) == device]
    name = operands[0].text if operands else "the tensor"
    return scene.fault(_NUMPY, f"{name} is on {device}, but NumPy reads host memory only; call `.cpu()` first")


def _lengths(scene: Scene) -> Fault | None:
    """Explain lengths that were moved with their batch."""
    found = scene.operand("lengths")
    if not found:
        return None
    lengths = found[0]
    message = f"{lengths.text} is on {device_text(lengths.tensor.device)}, but packing needs lengths on the CPU"
    return scene.fault(_TENSORS, message, lengths, operand=lengths.name, role="lengths", wanted="cpu")
