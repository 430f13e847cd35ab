"""In-place writes: who overwrote what autograd had kept, and who had kept it (DG101, DG102)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
import re
from collections import deque
from functools import cache
from typing import Any, ClassVar, NamedTuple, cast

import torch

from drygrad.worker import graphs
from drygrad.worker.lines import Instruction
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.spelling import spelled, text_of
from drygrad.worker.texts import function_at
from drygrad.worker.watch import Op

_STORAGES = 4096
_WRITES = 64
_BOUND = 256
_OVERWRITTEN = "modified by an inplace operation"
_VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
_functorch: Any = torch._C._functorch  # pyright: ignore
_LEAF = re.compile(
    r"(a leaf Variable|a view of a leaf Variable) that requires grad is being used in an in-place operation"
)


class Write(NamedTuple):
    """One write in place: the version of the tensor that it overwrote, and what wrote."""

    version: int
    instruction: Instruction | None
    op: str
    optimizer: str | None = None


class Inplace(Instrument):
    """Remembers which line wrote which version of a storage; when backward complains, it names saver and culprit."""

    name: ClassVar[str] = "inplace"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._writes: dict[int, list[Write]] = {}
        self._recorded: set[Instruction] = set()
        self._survived: set[Instruction] = set()
        self._backwards: list[tuple[tuple[Any, ...], Place | None, set[Instruction]]] = []
        self._known: tuple[BaseException, Fault] | None = None
        self._bound: deque[tuple[int, Instruction]] = deque(maxlen=_BOUND)
        """The numbers of the nodes that names were bound to, and where."""

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for what writes; an optimizer's writes are remembered when it begins."""
        return phase != "optimizer" and bool(_written(func))

    def before_op(self, op: Op) -> None:
        """Remember what the operation writes to."""
        self._remember_recorded(op)
        for position in _written(op.func):
            if position < len(op.args):
                for tensor in _tensors(op.args[position]):
                    self._remember(tensor, op.instruction, op.name)

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Remember that the optimizer writes to its parameters."""
        here = self.run.lines.here()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._remember(parameter, here, "step", type(optimizer).__name__)

    def _remember(self, tensor: Any, instruction: Instruction | None, op: str, optimizer: str | None = None) -> None:
        if tensor.is_inference():
            return
        writes = self._writes.setdefault(_storage(tensor), [])
        writes.append(Write(tensor._version, instruction, op, optimizer))
        if len(writes) > _WRITES:
            del writes[0]
        if len(self._writes) > _STORAGES:
            del self._writes[next(iter(self._writes))]

    def _remember_recorded(self, op: Op) -> None:
        """Remember a write that autograd records, so that a backward that passes it can acquit it."""
        here = op.instruction
        if here is None or here in self._survived or op.phase != "forward" or not torch.is_grad_enabled():
            return
        if here.code.co_filename == self.run.lines.path and any(tensor.requires_grad for tensor in op.tensors()):
            self._recorded.add(here)

    def assigned(self, line: int, name: str, value: Any) -> None:
        """Remember which node of the graph a name is bound to."""
        if not isinstance(value, torch.Tensor) or value.grad_fn is None or name == "return":
            return
        here, node = self.run.lines.here(), cast("Any", value.grad_fn)
        if here is not None:
            self._bound.append((node._sequence_nr(), here))

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Find the writes in the graph, for the engine may free it."""
        of_node = self.run.lines.of_node
        passed: set[Instruction] = set()
        if self._recorded:
            passed = self._recorded.intersection(map(of_node, graphs.nodes(roots)))
        self._backwards.append((roots, place, passed))

    def backward_ends(self, error: BaseException | None) -> None:
        """Acquit the writes whose nodes backward has passed; explain its error while the graph is still there."""
        roots, place, passed = self._backwards.pop()
        if error is None:
            self._survived |= passed
            self._recorded -= passed
        elif _OVERWRITTEN in str(error):
            fault = self._overwritten(roots, place, str(error))
            if fault is not None:
                self._known = (error, fault)

    def explain(self, error: BaseException, place: Place | None) -> Fault | None:
        """Return the write behind autograd's error."""
        if self._known is not None and error is self._known[0]:
            return self._known[1]
        leaf = _LEAF.match(str(error)) if isinstance(error, RuntimeError) else None
        return self._leaf(leaf.group(1), str(error), place) if leaf and place is not None else None

    def finish(self) -> None:
        """Tell the lines of writes that backward had no objection to."""
        places = map(self.run.lines.place, self._survived)
        self.run.result["inplace"] = sorted({place.line for place in places if place is not None})

    def _overwritten(self, roots: tuple[Any, ...], place: Place | None, text: str) -> Fault | None:
        found = _complaint(roots, text)
        if found is None:
            return None
        node, role, tensor = found
        lines = self.run.lines
        saver, keeps = graphs.operation(node), _kept_as(role)
        saved_at = lines.place(lines.of_node(node))
        versions = _VERSIONS.search(text)
        write = self._write(tensor, int(versions.group(2)) if versions else 0)
        at = lines.place(write.instruction) if write else None
        of_shape = f"{keeps} of {saver}, of shape [{', '.join(map(str, tensor.shape))}]"
        related = [(f"{saver} saves its {keeps} for backward", saved_at)] if saved_at else []
        if write is not None and write.optimizer is not None:
            early = self._computed_early(node, write)
            if early is not None and at is not None and early.line < at.line:
                related.append((f"{self._culprit(write)} changes the weights here", at))
                at = early
        return Fault(
            "DG101",
            f"{self._culprit(write)} overwrites the {of_shape}, saved for backward"
            f"{f' on line {saved_at.line}' if saved_at else ''}; "
            f"backward(){f' on line {place.line}' if place else ''} fails",
            at or saved_at or place,
            detail=text,
            related=related + ([("backward() fails here", place)] if place else []),
            facts={"saver": saver, "keeps": keeps, "write": write.op if write else None},
        )

    def _computed_early(self, node: Any, write: Write) -> Place | None:
        """Return the statement beside an optimizer's step that has computed, before it, what needs the weights.

        None where an earlier loss goes through the same graph: then the step comes too early, not that statement.
        """
        code = write.instruction.code if write.instruction is not None else None
        source = self.run.lines.source(code.co_filename) if code is not None else None
        if code is None or source is None:
            return None
        function = function_at("\n".join(source), code.co_firstlineno)
        if "retain_graph" in (ast.unparse(function) if function is not None else "\n".join(source)):
            return None
        number = node._sequence_nr()
        beside = (pair for pair in self._bound if pair[1].code is code and pair[0] >= number)
        found = min(beside, default=None, key=lambda pair: pair[0])
        return self.run.lines.place(found[1]) if found is not None else None

    def _write(self, tensor: Any, version: int) -> Write | None:
        """Return the write that overwrote a version of a tensor: the last one, for storages are used again."""
        writes = self._writes.get(_storage(tensor), [])
        return next((write for write in reversed(writes) if write.version == version), None)

    def _culprit(self, write: Write | None) -> str:
        if write is None:
            return "something"
        if write.optimizer is not None:
            text = text_of(self.run.lines, write.instruction) or "step()"
            return f"`{text}` ({write.optimizer})"
        return spelled(self.run.lines, write.instruction, write.op)

    def _leaf(self, what: str, text: str, place: Place) -> Fault:
        written = self.run.lines.text(place)
        subject = f"`{' '.join(written.split())}` writes" if written else "a write goes"
        return Fault(
            "DG102",
            f"{subject} in place to {what.replace('Variable', 'tensor')} that requires grad while gradients are "
            "recorded; torch raises outside torch.no_grad()",
            place,
            detail=text,
        )


def _complaint(roots: tuple[Any, ...], text: str) -> tuple[Any, str, Any] | None:
    """Return the node that raised ``text``, with the name and the tensor of what it had kept.

    The engine takes ready nodes from the last created to the first.
    """
    versions = _VERSIONS.search(text)
    current = int(versions.group(1)) if versions else None
    complaints: list[tuple[int, Any, str, Any]] = []
    for node in graphs.nodes(roots):
        for role, kept in graphs.saved(node):
            if _refuses(node, role, text) and kept.data._version == current:
                complaints.append((node._sequence_nr(), node, role, kept.data))
    return max(complaints, key=lambda c: c[0])[1:] if complaints else None


def _kept_as(role: str) -> str:
    if role == "tensors":
        return "saved tensor"
    return "output" if role.startswith(("result", "out")) else "input"


def _refuses(node: Any, role: str, text: str) -> bool:
    """Say whether a node refuses to give out what it has kept, in these words."""
    try:
        getattr(
            node, f"_saved_{role}" if hasattr(node, f"_raw_saved_{role}") and role != "tensors" else "saved_tensors"
        )
    except RuntimeError as error:
        return str(error) == text
    return False


@cache
def _written(func: Any) -> tuple[int, ...]:
    """Return the positions of the arguments that an operation writes to."""
    arguments = func._schema.arguments
    return tuple(i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write)


def _tensors(value: Any) -> list[Any]:
    items = cast("list[Any]", value if isinstance(value, (list, tuple)) else [value])
    return [item for item in items if isinstance(item, torch.Tensor)]


def _storage(tensor: Any) -> int:
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor.untyped_storage()._cdata
