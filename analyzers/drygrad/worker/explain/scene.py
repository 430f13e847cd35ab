"""What an error came out of: the user's call, the tensors that met there, and the module they were meant for."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, NamedTuple, cast

import torch

from drygrad.worker.explain.blame import put_together
from drygrad.worker.lines import Instruction
from drygrad.worker.naming import Call, locals_of, tensors_in
from drygrad.worker.reading import share_storage
from drygrad.worker.run import Fault, Place, Run
from drygrad.worker.watch import Op, Watch

_DEVICES = "drygrad.worker.devices"


class Operand(NamedTuple):
    """A tensor that met others: the role that torch gives it, the user's name of it, and words for it in a sentence."""

    role: str
    tensor: torch.Tensor
    name: str | None
    text: str
    is_parameter: bool


class Scene:
    """One error in the user's code, with all that its text leaves out."""

    def __init__(self, run: Run, error: BaseException, place: Place | None, calls: list[Call]) -> None:
        call = calls[0]
        self.calls = calls
        """The user's calls that the error has left, the innermost first."""
        self.run = run
        self.error = error
        self.text = str(error)
        self.place = place
        self.call = call
        self.op = _op_of(error)
        self.module = call.module()

    @property
    def what(self) -> str:
        """The module or function that refused: `` `self.fc` ``, ``cross_entropy``, ``cat``."""
        if self.module:
            return self.module[1]
        name = self.call.function() or (self.op.name.rpartition("::")[2] if self.op else self.call.written_function())
        return {"mm": "the matrix product", "addmm": "linear", "convolution": "conv"}.get(name, name.strip("_"))

    def operands(self) -> list[Operand]:
        """Return the tensors that met: the operation's, else those that torch's function was given, else the text's.

        What a module was given met the module's parameters.
        """
        if self.op is not None:
            return [self._operand(role, tensor) for role, tensor in _of_op(self.op)]
        given = _distinct(self.call.given()) or _distinct(self._written())
        own = self.module[0].named_parameters(recurse=False) if self.module else ()
        return [self._operand(role, tensor) for role, tensor in (*given, *own)]

    def begun_with(self, index: int) -> list[Operand]:
        """Return a result that a backward pass begins at, and the gradient that it is given for that."""
        for frame in reversed(self.call.inner):
            given = locals_of(frame)
            if frame.f_code.co_name == "_engine_run_backward":
                results = cast("tuple[object, ...]", given["t_outputs"])
                gradients = cast("tuple[tuple[object, ...], ...]", given["args"])[0]
                met = [*tensors_in("result", results[index]), *tensors_in("gradient", gradients[index])]
                return [self._operand(role, tensor) for role, tensor in met]
        return []

    def operand(self, *roles: str) -> list[Operand]:
        """Return the operands of these roles, as torch's innermost function that has them all calls them."""
        values = self.call.local(*roles)
        if values and all(isinstance(value, torch.Tensor) for value in values):
            return [self._operand(role, value) for role, value in zip(roles, values)]
        return []

    def input(self) -> Operand | None:
        """Return what the module was called with, or else the first operand that is no parameter."""
        given = self.operand("input") or self.operand("x") or self.operand("query")
        if given:
            return given[0]
        return next((operand for operand in self.operands() if not operand.is_parameter), None)

    def fault(self, code: str, message: str, blamed: Operand | None = None, **facts: Any) -> Fault:
        """Return the fault behind this error, related to where the operand that is wrong, and the module, were made."""
        made = [(blamed.text, self.made_at(blamed))] if blamed is not None else []
        if self.module:
            made.append((self.module[1], self.elsewhere(self.run.made_at(self.module[0]))))
        related = {place.line: (f"{text} is created here", place) for text, place in reversed(made) if place}
        return Fault(code, message, self.place, self.text, related=[*related.values()][::-1], facts=facts)

    def moved(self, fault: Fault, at: Place | None) -> Fault:
        """Move a fault to the line that is to be changed, where that is known: the error comes from a later one."""
        if at is not None and self.place is not None:
            fault.related = [r for r in fault.related if r[1].line != at.line] + [("it fails here", self.place)]
            fault.at = at
        return fault

    def put_together(self, operands: list[Operand]) -> tuple[Place | None, list[Operand]]:
        """Return the place that has put operands together, if it is not the error's, and how they are called there."""
        call = put_together(self.calls, [operand.tensor for operand in operands])
        if call is self.call:
            return None, operands
        named = ((operand, call.name(operand.tensor)) for operand in operands)
        return call.place, [o._replace(name=name, text=f"`{name}`") if name else o for o, name in named]

    def made_at(self, operand: Operand) -> Place | None:
        """Return where a tensor's values were made, if it was in another line than the error came from."""
        origin = self.run.origin_of(operand.tensor)
        return self.elsewhere(origin.instruction) if origin else None

    def elsewhere(self, instruction: Instruction | None) -> Place | None:
        """Return the place of an instruction, if it is in another line than the error came from."""
        place = self.run.lines.place(instruction)
        same = place and self.place and (place.path, place.line) == (self.place.path, self.place.line)
        return None if same else place

    @property
    def is_loss(self) -> bool:
        """Whether a loss refused, as a module or as a function."""
        if self.module:
            return isinstance(self.module[0], torch.nn.modules.loss._Loss)
        return self.what.endswith(("_loss", "cross_entropy", "cross_entropy_with_logits", "kl_div"))

    def _operand(self, role: str, tensor: torch.Tensor) -> Operand:
        own = self._own_parameter(tensor)
        if own and self.module:
            return Operand(role, tensor, None, f"the {own} of {self.module[1]}", True)
        name, written = self.call.find(tensor)
        name = name or self._name_of_origin(role, tensor)
        is_parameter = isinstance(written, torch.nn.Parameter) or isinstance(tensor, torch.nn.Parameter)
        return Operand(role, tensor, name, f"`{name}`" if name else f"the {role} of {self.what}", is_parameter)

    def _name_of_origin(self, role: str, tensor: torch.Tensor) -> str | None:
        """Name what torch has computed a tensor from, where its function was given one for the same role."""
        given = next((value for name, value in self.call.given() if name == role), None)
        return self.call.name(given) if given is not None and given.shape == tensor.shape else None

    def _own_parameter(self, tensor: torch.Tensor) -> str | None:
        if self.module is None:
            return None
        module = self.module[0]
        own = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
        return next((name for name, held in own if share_storage(held, tensor)), None)

    def _written(self) -> Iterator[tuple[str, torch.Tensor]]:
        expression = self.call.expression()
        if expression is None:
            return
        named = {name: value for name, value in self.call.visible() if isinstance(value, torch.Tensor)}
        for node in ast.walk(expression):
            if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and ast.unparse(node) in named:
                yield ast.unparse(node), named[ast.unparse(node)]


def raised_by_torch(error: BaseException) -> bool:
    """Say whether an error is torch's own (or the simulated device's): not of a ``raise`` anywhere else."""
    traces = list(_traces(error))
    if not traces:
        return False
    frame, instruction = traces[-1].tb_frame, traces[-1].tb_lasti
    if _module(frame).partition(".")[0] == "torch" or _module(frame).startswith(_DEVICES):
        return True
    return dis.opname[frame.f_code.co_code[instruction]] != "RAISE_VARARGS"


def _op_of(error: BaseException) -> Op | None:
    """Return the operation that raised: then the watch's is the innermost frame, but for the device's.

    Others may have followed since, as where a trainer cleans up before it passes the error on.
    """
    frames = [trace.tb_frame for trace in _traces(error)]
    while frames and _module(frames[-1]).startswith((_DEVICES, "torch._ops")):
        frames.pop()
    op = frames[-1].f_locals.get("op") if frames and _module(frames[-1]) == Watch.__module__ else None
    return op if isinstance(op, Op) else None


def _traces(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _module(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "")


def _of_op(op: Op) -> Iterator[tuple[str, torch.Tensor]]:
    values: dict[str, object] = {a.name: value for a, value in zip(op.func._schema.arguments, op.args)}
    for role, value in {**values, **op.kwargs}.items():
        yield from tensors_in("input" if role == "self" else role, value)


def _distinct(found: Iterator[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Tensor]]:
    by_identity = {id(tensor): (role, tensor) for role, tensor in found}
    return list(by_identity.values())
