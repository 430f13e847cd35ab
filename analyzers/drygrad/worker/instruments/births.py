"""Where NaN and infinity are born: the first operation that makes them of finite values, if they reach what matters.

Each operation's result is measured: its length is finite if all values are. Nothing is measured where the bounds of
the operands leave no room for an overflow. What is not finite is traced by its memory from the operation where it was
born to a loss, a gradient or a returned value; what never gets there (a mask of -inf, the logarithm of a zero that
`logsumexp` takes in) is the user's intention.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import torch

from drygrad.worker import graphs
from drygrad.worker.bounding import Rule, rule_of
from drygrad.worker.bounds import LIMITS, UNKNOWN, Bounds
from drygrad.worker.explain.births import HALF, OTHER, Reason, backward_reason, came_in, forward_reason, kind_of
from drygrad.worker.infinities import WRITING, Infinities
from drygrad.worker.lines import Instruction
from drygrad.worker.listening import Heard, Listening
from drygrad.worker.naming import call_here, within
from drygrad.worker.reading import address_of, at_hand, is_plain, is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.spelling import text_of
from drygrad.worker.watch import Op

_FINITE, _INFINITE, _NAN = 0, 1, 2
_BIRTHS = 100
_REFUSING = frozenset(f"aten::{name}" for name in "binary_cross_entropy multinomial bernoulli".split())
"""Operations that want probabilities, and raise where their first operand is not finite."""
_UNSCALE = "aten::_amp_foreach_non_finite_check_and_unscale_"
_CLIP = "aten::_foreach_mul_"
_PASS_ON = frozenset(
    f"aten::{name}"
    for name in (
        "_reshape_alias _unsafe_view cat clone constant_pad_nd copy_ detach embedding empty empty_like empty_strided "
        "fill fill_ fill_diagonal_ flip full full_like gather index_copy index_copy_ index_fill index_fill_ index_put "
        "index_put_ index_select isfinite isinf isnan masked_fill masked_fill_ masked_scatter masked_scatter_ "
        "masked_select neg neg_ new_empty new_full new_zeros ones ones_like relu relu_ repeat roll scatter scatter_ "
        "select_backward select_scatter slice_backward slice_scatter sort stack threshold_backward topk tril tril_ "
        "triu triu_ where zero_ zeros zeros_like"
    ).split()
)
"""Operations that hand on or overwrite values, and make none of their own that are not finite by an accident."""
_SAME_MEMORY = frozenset({"aten::_unsafe_view", "aten::_reshape_alias"})
_FROM_NUMBERS = "aten::lift_fresh"
"""Its result may be an array of NumPy's."""
_STATISTICS = frozenset({"running_mean", "running_var"})
"""What some operations write to without a word of it in their schema."""


@dataclass
class Birth:
    """The operation that first made a value that is not finite, and why."""

    at: Instruction | None
    reason: Reason
    op: str
    backward: bool
    cause: Instruction | None = None
    """The line that has written the infinity which NaN was made of."""


class Look(NamedTuple):
    """What there is to know of an operation in order to look at what it makes."""

    func: Any
    """Kept, so that its identity stays its own."""
    handle: Callable[[Op], None] | None
    """What is done in place of looking at the results."""
    checked: bool
    """Whether results without a bound are measured also before anything was born."""
    rule: Rule | None
    written: tuple[tuple[int, str], ...]
    """The positions and names of the arguments that it writes to."""
    in_place: bool
    owned: bool
    """Whether its results have memory of their own."""
    writes: bool
    """Whether it puts numbers where the user wants them."""


class Births(Instrument):
    """Checks every operation of the forward and backward pass that can make NaN or infinity of finite values."""

    name: ClassVar[str] = "births"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._count = 0
        self._births: dict[int, Birth] = {}
        self._infinities = Infinities()
        self._overwritten = _FINITE
        self._backwards: list[tuple[tuple[Any, ...], Place | None, bool]] = []
        self._overflows: list[Fault] = []
        self._told = self._spoilt = self._scaled = self._is_tried = False
        self._first: Fault | None = None
        self._inputs: dict[str, Any] = {}
        self._simulated = run.device == "sim"
        self._looks: dict[int, Look] = {}
        self._bounds = Bounds(run.device)
        self._listening = Listening(run)

    def start(self) -> None:
        """Listen to what gives memory to NumPy, and to what scales a loss."""
        self._listening.after(torch.Tensor, "numpy", self._given_to_numpy)
        self._listening.after(torch.amp.GradScaler, "scale", self._loss_scaled)

    def _given_to_numpy(self, heard: Heard) -> None:
        if is_plain(heard.args[0]):
            self._bounds.share(heard.args[0])

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Leave out views and optimizers; ahead of an operation, all but those that compute in place.

        Views make no values.
        """
        if phase == "optimizer":
            return False
        if hook == "before_op":
            return func._schema.is_mutable and func._schema.name not in _PASS_ON
        return not func.is_view and func._schema.name not in _SAME_MEMORY

    def before_op(self, op: Op) -> None:
        """Remember how bad the values are that the operation is about to overwrite."""
        target: Any = op.args[0] if op.args else None
        if _is_float(target):
            known = self._bounds.known(target) < UNKNOWN or math.isfinite(_sum(target))
            self._overwritten = _FINITE if known else _level(target)

    def after_op(self, op: Op, result: Any) -> None:
        """Look at what the operation has made."""
        look = self._looks.get(id(op.func)) or self._learn(op)
        if look.handle is not None:
            look.handle(op)
        if look.written:
            self._look_at_written(op, result, look)
        elif type(result) is torch.Tensor:
            bound = self._bound(op, look, result) if look.rule is not None else UNKNOWN
            self._look(op, result, look, bound)
        elif isinstance(result, (tuple, list)):
            self._look_at_each(op, result, look)

    def passed_over(self) -> None:
        """Know nothing after an operation that may have written anywhere."""
        self._bounds.clear()

    def _learn(self, op: Op) -> Look:
        schema = op.func._schema
        arguments = enumerate(schema.arguments)
        writes = [(i, a.name, a.alias_info is not None and a.alias_info.is_write) for i, a in arguments]
        look = self._looks[id(op.func)] = Look(
            op.func,
            {_UNSCALE: self._unscaled, _CLIP: self._clipped}.get(op.name),
            op.name not in _PASS_ON,
            rule_of(op.name) if self._bounds.hold else None,
            tuple((place, name) for place, name, written in writes if written or name in _STATISTICS),
            schema.is_mutable,
            op.name != _FROM_NUMBERS,
            op.name in WRITING,
        )
        return look

    def _bound(self, op: Op, look: Look, result: torch.Tensor) -> Any:
        """Return what the bounds of the operands say of the results, by the operation's rule."""
        # An operand is measured where that may spare measuring the result; what has been overwritten is gone.
        self._bounds.most = 2 * result.numel() if look.checked and not look.in_place else 0
        try:
            return look.rule(self._bounds.operand, op.args, op.kwargs) if look.rule is not None else UNKNOWN
        except (AttributeError, IndexError, OverflowError, RuntimeError, TypeError, ValueError):
            return UNKNOWN  # a signature of another version, or tensors without memory of their own

    def _look_at_each(self, op: Op, results: Any, look: Look) -> None:
        first = next((result for result in results if isinstance(result, torch.Tensor)), None)
        bounds = self._bound(op, look, first) if first is not None else UNKNOWN
        each = cast("tuple[float, ...]", bounds if isinstance(bounds, tuple) else (bounds,) * len(results))
        for result, bound in zip(results, each):
            if isinstance(result, torch.Tensor):
                self._look(op, result, look, bound)

    def _look_at_written(self, op: Op, result: Any, look: Look) -> None:
        alone = isinstance(result, torch.Tensor) and is_plain(result)
        bound = self._bound(op, look, result) if alone and look.in_place else UNKNOWN
        before = self._bounds.known(result) if alone else UNKNOWN
        for place, name in look.written:
            given = op.args[place] if place < len(op.args) else op.kwargs.get(name)
            for tensor in cast("list[Any]", given if isinstance(given, (tuple, list)) else [given]):
                if is_plain(tensor):
                    self._bounds.forget(tensor)
        if alone:
            self._look(op, result, look, bound, before)
        elif look.handle is None and isinstance(result, (tuple, list)):
            self._look_at_each(op, result, look)

    def _look(self, op: Op, tensor: Any, look: Look, bound: float, before: float = UNKNOWN) -> None:
        limit = LIMITS.get(tensor.dtype)
        if limit is None or (not (tensor.is_cuda if self._simulated else _is_usual(tensor)) and not _is_float(tensor)):
            return
        if not bound <= limit:
            if not look.checked and not self._births:
                if look.owned:
                    self._bounds.own(tensor)
                self._infinities.follow(op, tensor, writes=look.writes)
                return
            bound = self._bounds.measured(tensor)
            if bound == UNKNOWN and not math.isfinite(_sum(tensor)):
                self._not_finite(op, tensor, look)
                return
        if look.in_place:
            self._bounds.overwritten(tensor, bound, before)
        elif look.owned:
            self._bounds.keep(tensor, bound)
        self._infinities.forget(tensor)
        if self._births:
            self._births.pop(address_of(tensor), None)

    def _not_finite(self, op: Op, result: Any, look: Look) -> None:
        level = _level(result)
        if level == _FINITE:
            return
        birth = self._inherited(op)
        if birth is not None and birth.op == "aten::exp" and op.name == "aten::div":
            birth.reason = birth.reason._replace(code="DG405")
        if birth is None and self._count < _BIRTHS and not _is_wanted(op, level):
            birth = self._new(op, result, level, self._worst(op, result))
        if birth is None and level == _INFINITE:
            self._infinities.follow(op, result, writes=look.writes)
        if birth is not None:
            self._births[address_of(result)] = birth

    def _new(self, op: Op, result: Any, level: int, given: int) -> Birth | None:
        """Return the birth of what is worse than the operands, and of NaN that was there before."""
        if level <= given < _NAN or (level == given and self._spoilt):
            return None
        self._count += 1
        reason = self._reason(op, result) if level > given else came_in(op, self._name())
        cause = self._infinities.behind(op.tensors()) if given == _INFINITE else None
        return Birth(op.instruction, reason, op.name, op.phase == "backward", cause)

    def _worst(self, op: Op, result: Any) -> int:
        """Return how bad the operands were; the operation has overwritten the one that it works in place on."""
        memory = address_of(result)
        others = (_level(t) for t in op.tensors() if _is_float(t) and address_of(t) != memory)
        return max(others, default=_FINITE) if not op.func._schema.is_mutable else max((self._overwritten, *others))

    def _loss_scaled(self, heard: Heard) -> None:
        """Expect gradients that overflow: the scaler begins too high on purpose, and leaves such a step out."""
        if heard.args[0].is_enabled():
            self._is_tried = True

    def _unscaled(self, op: Op) -> None:
        self._scaled = True
        self._overflows.clear()

    def _clipped(self, op: Op) -> None:
        """Look at the number that clipping scales all gradients by: it is NaN if one of them is, 0 if one is infinite.

        A gradient scaler leaves such a step out; and what a backward pass was blamed for is not told again.
        """
        factor = op.args[1]
        if (
            op.phase != "forward"
            or self._told
            or self._scaled
            or not _is_float(factor)
            or factor.dim()
            or "clip" not in self._text(op)
        ):
            return
        scale = float(factor)
        if not scale > 0.0:
            norm, becomes = ("NaN", "NaN") if math.isnan(scale) else ("infinite", "0, or NaN where it was infinite")
            sentence = f"the total norm of the gradients is {norm}; clipping makes every gradient {becomes}"
            self.run.report(Fault(OTHER, sentence, self.run.lines.place(op.instruction), severity="error"))
            self._told = True

    def _text(self, op: Op) -> str:
        return text_of(self.run.lines, op.instruction) or "clip"

    def _inherited(self, op: Op) -> Birth | None:
        """Return the birth that an operand comes from."""
        if self._births:
            for tensor in op.tensors():
                birth = self._births.get(address_of(tensor)) if _is_float(tensor) else None
                if birth is not None:
                    return birth
        return None

    def _reason(self, op: Op, result: Any) -> Reason:
        lines = self.run.lines
        if op.phase == "backward":
            return backward_reason(op, result, lines, op.node is not None and self._is_masked(op.node))
        return forward_reason(op, result, lines, self._name())

    def _name(self) -> Callable[[Any], str | None]:
        call = call_here(self.run)
        return call.name if call else lambda _: None

    def _is_masked(self, node: Any) -> bool:
        """Say whether a ``where`` chooses between the result of a node and something else."""
        roots = self._backwards[-1][0] if self._backwards else ()
        return any(
            graphs.operation(later) in ("where", "masked_fill", "nan_to_num")
            and any(earlier is node for earlier, _ in later.next_functions)
            for later in graphs.nodes(roots)
        )

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Look whether the loss is finite."""
        lost = [r for r in roots if is_readable(r) and _is_float(r) and not math.isfinite(_sum(r))]
        for root in lost if not self._spoilt else ():
            birth = self._births.get(address_of(root)) or self._written(root)
            if birth is not None or not self.run.probing:  # a mask that is returned has its infinity on purpose
                self._report(birth, f"the loss is {kind_of(root)}", place, "error")
        self._backwards.append((roots, place, bool(lost)))

    def _written(self, root: torch.Tensor) -> Birth | None:
        """Return as its birth where the infinity was written that a loss has come to."""
        cause = self._infinities.behind([root]) if not self.run.probing else None
        if cause is None:
            return None
        return Birth(cause, Reason(OTHER, "inf is written here"), "", backward=False, cause=cause)

    def backward_ends(self, error: BaseException | None) -> None:
        """Look whether the gradients of leaves are finite, if anything was born that is not."""
        roots, place, lost = self._backwards.pop()
        if lost or error is not None or not self._births:
            return
        call = call_here(self.run)
        names = call.parameters() if call else {}
        for leaf in graphs.leaves(roots):
            gradient = leaf.grad
            birth = self._births.get(address_of(gradient)) if _is_float(gradient) else None
            if birth is not None:
                name = f"`{names[id(leaf)]}`" if id(leaf) in names else "a leaf"
                self._report(birth, f"the gradient of {name} is {kind_of(gradient)}", place, "error")

    def step_ends(self, optimizer: Any) -> None:
        """Expect no finite parameters after a step that was told to go wrong; look at those of half precision.

        There an epsilon may be 0.
        """
        self._bounds.clear()
        self._spoilt = self._told
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            if parameter.dtype is torch.float16 and _level(parameter) != _FINITE and _level(parameter.grad) == _FINITE:
                at = self.run.lines.caller()
                reason = Reason(HALF, f"{type(optimizer).__name__}.step() overflows: its state is float16 too")
                self.run.report(_fault(reason, f"a parameter is {kind_of(parameter)}", at, "error"))

    def begins(self, names: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        """Remember what may be kept from call to call: the caller holds the inputs as long as the target runs."""
        self._inputs = {name: value for name, value in inputs.items() if not isinstance(value, torch.optim.Optimizer)}

    def returned(self, value: Any, place: Place | None) -> None:
        """Look whether what the target returns is finite, and what it has left in its inputs."""
        for tensor in _tensors(value):
            birth = self._births.get(address_of(tensor)) if _is_float(tensor) and _level(tensor) != _FINITE else None
            if birth is not None:
                known = "NaN" if kind_of(tensor) == "NaN" else "an infinite value"
                self._report(birth, f"{known} is returned", place, "warning" if _is_lost(tensor) else "info")

        for name, held in self._inputs.items() if self._births else ():
            self._look_at_kept(name, held)

    def _look_at_kept(self, name: str, held: Any) -> None:
        """Look whether what the next call meets is finite: an attribute, a buffer, an element of a list."""
        owned = {id(tensor) for tensor in _owned(held)}
        for path, tensor in within(name, held):
            birth = self._births.get(address_of(tensor)) if _is_float(tensor) else None
            if birth is not None and isinstance(tensor, torch.Tensor) and _level(tensor) != _FINITE:
                known = kind_of(tensor)
                is_state = known == "NaN" and (id(tensor) in owned or tensor.requires_grad)
                outcome = f"`{path}` is {known} from then on"
                self._report(birth, outcome, None, "warning" if is_state else "info")

    def explain(self, error: BaseException, place: Place | None) -> Fault | None:
        """Take a refusal of NaN for what it is: the end of what was told before, or began where it was born."""
        if isinstance(error, ValueError) and "to satisfy the constraint" in str(error) and "nan" in str(error):
            return self._first
        op = self.run.op
        if not isinstance(error, RuntimeError) or op is None or op.name not in _REFUSING or place is None:
            return None
        birth = self._births.get(address_of(op.args[0])) if op.args and _is_float(op.args[0]) else None
        if birth is None or birth.at is None:
            return None
        refused = f"{op.name.rpartition('::')[2]} refuses it"
        fault = _fault(birth.reason, refused, self.run.lines.place(birth.at), "error")
        fault.related.append((refused, place))
        return fault

    def finish(self) -> None:
        """Report the overflows of gradients that no scaler has taken care of."""
        self._listening.end()
        for fault in self._overflows if not self._is_tried else ():
            self.run.report(fault)

    def _report(self, birth: Birth | None, outcome: str, place: Place | None, severity: str) -> None:
        reason = birth.reason if birth else Reason(OTHER, "NaN or inf came from outside")
        at = self.run.lines.place(birth.at) if birth else None
        fault = _fault(reason, outcome, at or place, severity)
        if place is not None and at is not None:
            fault.related.append((outcome, place))
        cause = self.run.lines.place(birth.cause) if birth else None
        if cause is not None and at is not None and (cause.path, cause.line) != (at.path, at.line):
            fault.message = f"{reason.sentence}, and inf is written here; {outcome}"
            fault.at, fault.related = cause, [("it becomes NaN here", at), *fault.related]
        if birth is not None and cause is not None:
            fault.facts["infinity_meets"] = birth.op.rpartition("::")[2]
        if birth is not None and birth.backward and birth.reason.code == HALF:
            self._overflows.append(fault)
        else:
            self._told = self._told or severity == "error"
            self._first = self._first or fault
            self.run.report(fault)


def _fault(reason: Reason, outcome: str, at: Place | None, severity: str) -> Fault:
    return Fault(reason.code, f"{reason.sentence}; {outcome}", at, severity=severity)


def _sum(tensor: torch.Tensor) -> float:
    return at_hand(tensor).sum().item()


def _is_float(value: Any) -> bool:
    """Say whether a value is a tensor of real numbers that can be read.

    This stands on the path of every operation: what is usual is recognised by its type.
    """
    return isinstance(value, torch.Tensor) and value.is_floating_point() and (_is_usual(value) or is_readable(value))


def _is_usual(tensor: torch.Tensor) -> bool:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return False
    return (tensor.is_cpu or tensor.is_cuda) and not tensor.is_nested


def _level(tensor: torch.Tensor) -> int:
    """Say how bad a tensor is: finite, infinite, or NaN."""
    with quietly():
        if bool(torch.isnan(tensor).any()):
            return _NAN
        return _INFINITE if bool(torch.isinf(tensor).any()) else _FINITE


def _is_lost(tensor: torch.Tensor) -> bool:
    """Say whether nothing of a result is of use; where a part of mere numbers is NaN, it may tell of no answer.

    One infinite number may be the answer: of a ratio of two that are equal.
    """
    with quietly():
        unknown = torch.isnan(tensor)
        if tensor.requires_grad or tensor.numel() > 1:
            return bool((tensor.requires_grad and unknown.any()) or not torch.isfinite(tensor).any())
        return bool(unknown.all())


def _is_wanted(op: Op, level: int) -> bool:
    """Say whether the user has given infinity as a number, or NaN where it is NaN that was made."""
    numbers = (value for value in (*op.args, *op.kwargs.values()) if isinstance(value, float))
    return any(math.isnan(number) or (math.isinf(number) and level < _NAN) for number in numbers)


def _owned(value: Any) -> list[torch.Tensor]:
    """Return the parameters and buffers of a module."""
    return [*value.parameters(), *value.buffers()] if isinstance(value, torch.nn.Module) else []


def _tensors(value: Any, depth: int = 3) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value, those in its lists and mappings included."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (list, tuple, Mapping)):
        items = cast("Iterable[Any]", value.values() if isinstance(value, Mapping) else value)
        for item in items:
            yield from _tensors(item, depth - 1)
