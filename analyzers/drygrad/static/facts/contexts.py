"""Context managers and decorators that change the grad mode or autocast."""

from __future__ import annotations

import ast

from drygrad.static.facts.frame import Frame
from drygrad.static.facts.state import Autocast
from drygrad.static.facts.values import Arguments, Constant, Dtype, Object, Reference, Value

NO_GRAD = frozenset({"torch.no_grad", "torch.inference_mode"})
AUTOCAST = frozenset({"torch.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast"})


def enter(frame: Frame, manager: Value) -> None:
    """Change the modes as entering a context manager does; the with statement restores them."""
    if isinstance(manager, Object):
        _apply(frame, manager.type, manager.arguments)
    elif isinstance(manager, Reference):
        _apply(frame, manager.name, Arguments())


def enter_decorators(frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
    """Change the modes as a function's decorators do: ``@torch.no_grad()``, ``@torch.no_grad``."""
    if isinstance(node, ast.Lambda):
        return
    recorder, frame.recording = frame.recording, None
    for decorator in node.decorator_list:
        enter(frame, frame.evaluate(decorator))
    frame.recording = recorder


def set_grad_enabled(frame: Frame, arguments: Arguments) -> None:
    """Apply ``torch.set_grad_enabled(flag)``, as a call or as a context manager."""
    flag = arguments.get("mode", 0)
    frame.state.grad = bool(flag.value) if isinstance(flag, Constant) else None


def _apply(frame: Frame, name: str, arguments: Arguments) -> None:
    if name in NO_GRAD:
        mode = arguments.get("mode", 0)
        known_on = mode is None or not isinstance(mode, Constant) or mode.value is not False
        frame.state.grad = False if known_on else frame.state.grad
    elif name == "torch.enable_grad":
        frame.state.grad = True
    elif name == "torch.set_grad_enabled":
        set_grad_enabled(frame, arguments)
    elif name in AUTOCAST:
        frame.state.autocast = _autocast(name, arguments)


def _autocast(name: str, arguments: Arguments) -> Autocast:
    enabled = arguments.get("enabled", 2 if name == "torch.autocast" else 0)
    if isinstance(enabled, Constant):
        if not enabled.value:
            return "off"
    elif enabled is not None:
        return None
    dtype = arguments.get("dtype", 1)
    if isinstance(dtype, Dtype):
        return "float16" if dtype.name == "float16" else "bfloat16"
    if dtype is not None:
        return "on"
    device = arguments.get("device_type", 0) if name == "torch.autocast" else Constant("cuda")
    if name == "torch.cpu.amp.autocast" or (isinstance(device, Constant) and device.value == "cpu"):
        return "bfloat16"
    return "float16" if isinstance(device, Constant) and device.value == "cuda" else "on"
