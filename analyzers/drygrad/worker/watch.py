"""Tells the instruments of every operation, every backward pass and every optimizer step."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple, cast

import torch
from torch._ops import HigherOrderOperator as _HigherOrderOperator
from torch._ops import OpOverload as _OpOverload
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, _pop_mode, _push_mode

from drygrad.worker.lines import Instruction, Lines
from drygrad.worker.reading import dispatch_themselves
from drygrad.worker.run import Hook, Instrument, Run, Stop
from drygrad.worker.transforms import counted

_MARKS = "profiler::"
_current_node: Any = torch._C._current_autograd_node
_modes_below: Any = torch._C._len_torch_dispatch_stack
_mode_at: Any = torch._C._get_dispatch_stack_at
_EXACT = (torch.Tensor, torch.nn.Parameter)
_HIGHER: Any = _HigherOrderOperator
_NOTHING: dict[str, Any] = {}
_KERNELS = "drygrad.worker.devices.sim.registration"
_PINNING = "drygrad.worker.devices.sim.cuda_api.pinning"


class Op:
    """One operation in flight.

    ``name`` is ``aten::add``; ``phase`` is ``forward``, ``backward``, ``recompute`` (the code of a checkpoint or of a
    custom function inside a backward pass) or ``optimizer``; ``node`` the autograd node that it serves in backward.
    """

    __slots__ = ("_at", "_tensors", "args", "func", "kwargs", "name", "node", "phase")

    def __init__(
        self,
        func: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        phase: str,
        node: Any,
        at: Instruction | Lines | None,
    ) -> None:
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.name = name
        self.phase = phase
        self.node = node
        self._at = at
        self._tensors: list[torch.Tensor] | None = None

    @property
    def instruction(self) -> Instruction | None:
        """The instruction of the user's that it serves: in backward that of its node, looked up once asked for."""
        if isinstance(self._at, Lines):
            self._at = self._at.of_node(self.node)
        return self._at

    def tensors(self) -> list[torch.Tensor]:
        """Return the tensors among the arguments, those in lists included."""
        found = self._tensors
        if found is None:
            found = self._tensors = []
            for value in (*self.args, *self.kwargs.values()):
                if isinstance(value, torch.Tensor):
                    found.append(value)
                elif isinstance(value, (list, tuple)):
                    found += [item for item in cast("list[object]", value) if isinstance(item, torch.Tensor)]
        return found

    def argument(self, name: str) -> Any:
        """Return an argument by the name that the operation's schema gives it; its default if it was left out."""
        for position, argument in enumerate(self.func._schema.arguments):
            if argument.name == name:
                if not argument.kwarg_only and position < len(self.args):
                    return self.args[position]
                return self.kwargs.get(name, argument.default_value)
        return None


class _Heard(NamedTuple):
    """What there is to do for one operation in one phase: its name, and the hooks that want to hear of it."""

    func: Any
    """Kept, so that its identity stays its own."""
    name: str
    before: tuple[Hook, ...]
    after: tuple[Hook, ...]
    kernel: Callable[..., Any] | None
    """What torch's dispatcher would come to where the first argument is a tensor on the simulated device."""
    call: Callable[..., Any]
    """What executes the operation: the function in C++ that ``func`` calls."""
    instead: Callable[[Any, Any, Any], Any] | None
    """What is done in place of all that."""


class Watch(TorchDispatchMode):
    """The dispatch mode that carries each operation to the instruments."""

    supports_higher_order_operators = True

    def __init__(self, run: Run) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._run = run
        self._lines = run.lines
        self._heard: defaultdict[str, dict[int, _Heard]] = defaultdict(dict)
        """By phase, and the identity of the operation: its hash is computed in Python, which costs more than that."""
        self._left = 0
        """How many modes there were below when this one was left."""
        run.on_change.append(self._heard.clear)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Do without the guard against torch's compiler, which is not at work: it would cost as much as the rest."""
        return False

    def leave(self) -> bool:
        """Let operations pass untold; False where another mode is above, or nothing is told in this thread."""
        depth = _modes_below()
        if depth == 0 or _mode_at(depth - 1) is not self:
            return False
        self._left = depth - 1
        _pop_mode()
        return True

    def come_back(self) -> None:
        """Hear of operations again, below the modes that were entered since."""
        modes: list[Any] = [_pop_mode() for _ in range(_modes_below() - self._left)]
        for mode in (self, *reversed(modes)):
            _push_mode(mode)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Execute one operation between the instruments' hooks; in peace where tensors stand for others."""
        run = self._run
        if run.transforms or (types and dispatch_themselves(types)):
            return self._pass_over(func, args, kwargs)
        node = _current_node()
        if node is None or run.phase == "optimizer":  # hooks take steps in the midst of a backward pass
            phase, here = run.phase, run.step_call or self._lines.here(1)
        else:
            here = self._lines.here(1)
            phase = "backward" if here is None else "recompute"
        heard = self._heard[phase].get(id(func)) or self._learn(func, phase)
        if heard.instead is not None:
            return heard.instead(func, args, kwargs)
        named = kwargs or _NOTHING
        if phase == "backward":
            op = Op(func, heard.name, args, named, phase, node, self._lines)
        else:
            self._lines.created(here, heard.name)
            op = Op(func, heard.name, args, named, phase, node, here)
        run.op = op
        if run.resting is not None and phase == "forward" and run.resting(here, func, args):
            return self._unheard(op, heard)
        for hook in heard.before:
            try:
                hook(op)
            except Stop:
                raise
            except Exception as error:  # noqa: BLE001 - as in Run.tell; a call for each operation would cost too much
                run.switch_off(hook, error)
        kernel = heard.kernel
        if kernel is None or not args or not _is_on_device(args[0]) or _modes_below():
            kernel = heard.call
        try:
            result = kernel(*args, **named)
        except RuntimeError as error:
            if run.forgive is None:
                raise
            result = run.forgive(op, error)
        for hook in heard.after:
            try:
                hook(op, result)
            except Exception as error:  # noqa: BLE001 - as above
                run.switch_off(hook, error)
        return result

    def _unheard(self, op: Op, heard: _Heard) -> Any:
        """Execute an operation that nobody has to hear of; one that records a graph ends that."""
        number, kernel = self._lines.last_number(), heard.kernel
        if kernel is None or not op.args or not _is_on_device(op.args[0]) or _modes_below():
            kernel = heard.call
        result = kernel(*op.args, **op.kwargs)
        if self._lines.last_number() != number:
            self._lines.created(op.instruction, op.name)
            if torch.is_grad_enabled():
                self._run.resting = None
        return result

    def _pass_over(self, func: Any, args: Any, kwargs: Any) -> Any:
        self._run.op = None
        result = func(*args, **(kwargs or {}))
        for hook in self._run.hooks("passed_over"):
            hook()
        return result

    def _learn(self, func: Any, phase: str) -> _Heard:
        if isinstance(func, _HIGHER):
            return _Heard(func, "", (), (), None, func, self._pass_over)
        name: str = func._schema.name
        if name.startswith(_MARKS):  # they end while an error passes, which is about another operation
            heard = _Heard(func, name, (), (), None, func, _call)
        else:
            before, after = (
                tuple(hook for hook in self._run.hooks(kind) if cast("Any", hook).__self__.wants(kind, func, phase))
                for kind in ("before_op", "after_op")
            )
            simulation: Any = sys.modules.get(_KERNELS) if self._run.device == "sim" else None
            kernel = simulation.KERNELS.get(func) if simulation is not None else None
            call = func._op if type(func) is _OpOverload else func
            if simulation is not None and any(argument.name == "pin_memory" for argument in func._schema.arguments):
                call = sys.modules[_PINNING].remembering(call)
            heard = _Heard(func, name, before, after, kernel, call, None)
        self._heard[phase][id(func)] = heard
        return heard


def _call(func: Any, args: Any, kwargs: Any) -> Any:
    return func(*args, **(kwargs or {}))


def _is_on_device(value: Any) -> bool:
    return type(value) in _EXACT and value.is_cuda


@contextmanager
def watching(run: Run, instruments: list[Instrument]) -> Generator[None]:
    """Let the instruments hear of everything that happens inside the block."""
    run.listen(instruments)
    removals = _hear_of_steps(run)
    restore = _hear_of_backward(run)
    try:
        with counted(run), Watch(run) as mode:
            run.leave, run.come_back = mode.leave, mode.come_back
            try:
                yield
            finally:
                run.wake()
    finally:
        restore()
        for handle in removals:
            handle.remove()


def _hear_of_steps(run: Run) -> list[Any]:
    def before(optimizer: Any, args: Any, kwargs: Any) -> Any:
        run.tell("step_begins", optimizer, run.lines.caller())
        run.phase, run.step_call = "optimizer", _call_of(optimizer, run)
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": _forward(run, kwargs["closure"])}
        if len(args) > 1 and callable(args[1]):
            return (args[0], _forward(run, args[1]), *args[2:]), kwargs
        return None

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        run.phase, run.step_call = "forward", None
        run.tell("step_ends", optimizer)

    return [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]


def _call_of(optimizer: Any, run: Run) -> Instruction | None:
    """Return the user's call of an optimizer's step, where no other code of the user's has a part in the step."""
    steps = (inspect.unwrap(vars(kind)["step"]) for kind in type(optimizer).__mro__ if "step" in vars(kind))
    codes = [getattr(step, "__code__", None) for step in steps]
    hooks = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    if hooks or any(code is None or run.lines.is_user(code) for code in codes):
        return None
    return run.lines.here()


def _unrecorded(gradients: Any) -> tuple[Any, ...]:
    """Return those of the gradients that have no graph."""
    found = cast("tuple[Any, ...]", gradients or ())
    return tuple(g for g in found if isinstance(g, torch.Tensor) and not g.requires_grad)


def _forward(run: Run, closure: Any) -> Any:
    """Return the closure of an optimizer's step, whose operations are the model's and no optimizer's."""

    @wraps(closure)
    def forward(*args: Any, **kwargs: Any) -> Any:
        step_call = run.step_call
        run.phase, run.step_call = "forward", None
        try:
            return closure(*args, **kwargs)
        finally:
            run.phase, run.step_call = "optimizer", step_call

    return forward


def _hear_of_backward(run: Run) -> Any:
    engine: Any = torch.autograd._engine_run_backward

    def run_backward(roots: tuple[Any, ...], *args: Any, **kwargs: Any) -> Any:
        if run.transforms:
            return engine(roots, *args, **kwargs)
        # Behind drygrad's own pass are the frames of a program that is in the middle of its call of the target.
        run.tell("backward_begins", roots, None if run.probing else run.lines.caller())
        error: BaseException | None = None
        try:
            gradients = engine(roots, *args, **kwargs)
            run.tell("differentiated", _unrecorded(gradients), roots)
            return gradients
        except BaseException as raised:
            error = raised
            raise
        finally:
            run.tell("backward_ends", error)

    def restore() -> None:
        torch.autograd._engine_run_backward = engine

    torch.autograd._engine_run_backward = run_backward
    return restore
