"""The graph that backward goes through: where it was cut, when it was freed, and which parameters it never reached."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
import re
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, cast

import torch

from drygrad.worker import graphs
from drygrad.worker.departures import Departure, Departures, visible_tensors
from drygrad.worker.explain.carrying import carried_names, first_kept
from drygrad.worker.lines import Instruction
from drygrad.worker.naming import call_here, call_of_error, tensors_in
from drygrad.worker.reading import address_of, at_hand, is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.spelling import operands, spelled, whole_text_of
from drygrad.worker.texts import scope_of, tree_of, used_before
from drygrad.worker.watch import Op

_NUMBER = re.compile(r"\[\d+\]$")
_CUTS = 512
_NAMES = 5
_STEPS = 16
_NO_GRAPH = "does not require grad"
_FROM_NUMBERS = "aten::lift_fresh"
_LEAVING = frozenset({_FROM_NUMBERS, "aten::detach"})
GRADIENT = "autograd::grad"
"""What an ``autograd.grad`` is called where operations are named."""
_COPIES = ("torch.tensor(", "Tensor(", "new_tensor(", "as_tensor(")
_MEANT = (".item(", ".detach(", "float(")
_BY_TEXT = {
    "Can't call numpy() on Tensor that requires grad": (
        "DG107",
        "a tensor that requires grad cannot be converted to NumPy; call `.detach()` before `.numpy()`",
    ),
}
_is_grad_enabled = torch.is_grad_enabled
_NON_LEAF = "can't optimize a non-leaf Tensor"


class Cut(NamedTuple):
    """An operation whose result has no graph although its operands have one; a copy of numbers may have had none."""

    instruction: Instruction | None
    op: str
    recording: bool
    lost_at: Instruction | None = None
    """Where the graph of what was computed ended, other than that of the parameters of a model."""


class Missing(NamedTuple):
    """The parameters of an optimizer that have had no gradient at any step so far, by identity, with their names."""

    place: Place | None
    names: dict[int, str]
    total: int


class Done(NamedTuple):
    """A backward that has run: the newest node that it went through, the newest when it ended, what it began with."""

    number: int
    ended: int
    place: Place | None
    roots: list[weakref.ref[Any]]


class Graph(Instrument):
    """Follows tensors that have left their graph; explains backward's complaints about a graph that is not there."""

    name: ClassVar[str] = "graph"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._cuts: dict[int, Cut] = {}
        self._likely: set[Any] = set()
        """The instructions that made a tensor of a list with the values of tensors that have a graph."""
        self._number: Cut | None = None
        self._asked: str | None = None
        """The first input that asks for a gradient."""
        self._departures = Departures(run.lines)
        self._backwards: list[tuple[tuple[Any, ...], Place | None]] = []
        self._done: list[Done] = []
        self._stepped: deque[tuple[int, set[int]]] = deque(maxlen=_STEPS)
        self._missing: dict[int, Missing] = {}
        self._known: tuple[BaseException, Fault] | None = None
        run.cut_of, run.left_at = self._cut_of, self._departures.at
        run.departure_of, run.only_end_of = self._departures.of, self._departures.only

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for the forward pass."""
        return phase == "forward"

    def after_op(self, op: Op, result: Any) -> None:
        """Remember results that have left the graph, and what is computed from them."""
        # On the path of every operation.
        recording, known = _is_grad_enabled(), self._cuts
        tensor: Any = result if type(result) is torch.Tensor else _first(result)
        is_tensor = isinstance(tensor, torch.Tensor)
        if recording and type(result) is tuple:
            self._indices(op, cast("tuple[Any, ...]", result))
        has_graph = is_tensor and (tensor.is_floating_point() or tensor.is_complex())
        stays = recording and has_graph and op.name not in _LEAVING
        if stays and not known:
            return
        if op.func.is_view and op.name not in _LEAVING and not op.args[0].requires_grad:
            return  # what is known of its memory is known of the view
        if op.name == _FROM_NUMBERS:
            self._copied(op, result, recording=recording)
            self._remember(tensor, Cut(op.instruction, op.name, recording))
            return
        operands: list[torch.Tensor] = []
        cuts: list[Cut] = []
        for given in op.tensors():
            if given.requires_grad:
                if given is not tensor:
                    operands.append(given)
                if known and given.is_leaf:
                    self._starts_anew(given)
            elif known:
                cut = known.get(address_of(given))
                if cut is not None:
                    cuts.append(cut)
        if operands and not stays:
            self._departures.left(op.instruction, op.name, operands, recording=recording)
            lost_at = op.instruction if any(t.grad_fn is not None for t in operands) else _lost_at(cuts)
            self._remember(tensor, Cut(op.instruction, op.name, recording, lost_at))
        elif known and is_tensor:
            self._pass_on(tensor, op, cuts, joins=bool(operands))

    def _indices(self, op: Op, results: tuple[Any, ...]) -> None:
        """Remember integers beside a result with a graph: ``max`` and ``topk`` return indices, too."""
        whole = [r for r in results[1:] if isinstance(r, torch.Tensor) and not r.is_floating_point()]
        operands = [given for given in op.tensors() if given.requires_grad] if whole else []
        if operands:
            self._departures.left(op.instruction, op.name, operands, recording=True)
        for result in whole if operands else ():
            self._remember(result, Cut(op.instruction, op.name, True, op.instruction))

    def _starts_anew(self, leaf: torch.Tensor) -> None:
        """Note that a leaf takes part that was computed: a detached result that asks for gradients of its own."""
        cut = self._cuts.get(address_of(leaf))
        if cut is not None and cut.lost_at is not None:
            self._departures.joined(cut.instruction)

    def _pass_on(self, tensor: torch.Tensor, op: Op, cuts: list[Cut], *, joins: bool) -> None:
        """Remember what is computed from tensors that have left their graphs; ``joins`` where others have not."""
        if joins:
            for cut in cuts:
                self._departures.joined(cut.instruction)
        if not cuts:
            self._forget(tensor, op)
            return
        cut = cuts[0]
        if len(cuts) > 1:
            cut = min(cuts, key=self._doubt)._replace(lost_at=_lost_at(cuts))
        self._remember(tensor, cut)

    def _doubt(self, cut: Cut) -> int:
        """Return how little a cut tells of a missing graph: most tensors made of numbers never had one."""
        if cut.op != _FROM_NUMBERS:
            return 0
        known = self._departures.at(cut.instruction) is not None
        return 3 - known - (cut.instruction in self._likely)

    def _copied(self, op: Op, result: Any, *, recording: bool) -> None:
        """Note the tensors in a list that a tensor is made of: torch does not show what it reads."""
        names = self._departures.names(op.instruction) if recording else set[str]()
        call = call_here(self.run) if names else None
        tensors = visible_tensors(call.visible(), names) if call is not None else []
        if any(_may_hold(result, tensor) for tensor in tensors):
            self._likely.add(op.instruction)
        if tensors:
            self._departures.left(op.instruction, op.name, tensors, recording=recording)

    def _remember(self, result: Any, cut: Cut) -> None:
        if not isinstance(result, torch.Tensor):
            self._number = cut
            return
        address = address_of(result)
        if address:
            self._cuts[address] = cut
            if len(self._cuts) > _CUTS:
                del self._cuts[next(iter(self._cuts))]

    def _forget(self, result: Any, op: Op) -> None:
        """Forget what had the memory before that an operation has just taken for its result."""
        address = address_of(result)
        if address in self._cuts and address not in map(address_of, op.tensors()):
            del self._cuts[address]

    def _cut_of(self, tensor: Any) -> Cut | None:
        if tensor.requires_grad:
            return None
        return self._cuts.get(address_of(tensor))

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Remember what backward starts from."""
        self._backwards.append((roots, place))

    def backward_ends(self, error: BaseException | None) -> None:
        """Explain an error while the graph is still there."""
        roots, place = self._backwards.pop()
        if error is None:
            numbers = [root.grad_fn._sequence_nr() for root in roots if root.grad_fn is not None]
            ended = self.run.lines.last_number()
            self._done.append(Done(max(numbers, default=-1), ended, place, [weakref.ref(root) for root in roots]))
        elif place is not None and _NO_GRAPH in str(error):
            cut_off = next((root for root in roots if not root.requires_grad), roots[0])
            self._known = (error, self._no_graph(cut_off, place, str(error)))
        elif place is not None and graphs.SECOND in str(error):
            self._known = (error, self._second(roots, place, str(error)))
        elif self.run.probing and graphs.SECOND in str(error):
            self._known = (error, self._result_freed(str(error)))

    def differentiated(self, gradients: tuple[Any, ...], roots: tuple[Any, ...]) -> None:
        """Remember gradients that are constants for autograd."""
        here = self.run.lines.here()
        if here is not None and gradients and any(root.grad_fn is not None for root in roots):
            self._departures.left(here, GRADIENT, roots, recording=True)
            for gradient in gradients:
                self._remember(gradient, Cut(here, GRADIENT, True))

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Note which parameters have no gradient, though others have."""
        parameters: list[Any] = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        self._stepped.append((len(self._done), {id(p) for p in parameters}))
        without = {id(p): p for p in parameters if p.grad is None}
        if not self._done or len(without) == len(parameters):
            return
        known = self._missing.get(id(optimizer))
        if known is None:
            call = call_here(self.run)
            known_names = call.parameters() if call else {}
            names = {key: known_names.get(key, "a parameter") for key in without}
            self._missing[id(optimizer)] = Missing(place, names, len(parameters))
        else:
            for key in known.names.keys() - without.keys():
                del known.names[key]

    def explain(self, error: BaseException, place: Place | None) -> Fault | None:
        """Return the fault behind a complaint of autograd's about a missing graph."""
        if self._known is not None and error is self._known[0]:
            return self._known[1]
        text = str(error)
        if isinstance(error, AttributeError) and text.endswith("object has no attribute 'backward'"):
            fault = self._fault("it is a Python number", self._number, place, text) if place else None
            return replace(fault, facts={"cut": self._number is not None}) if fault is not None else None
        if text.startswith(_NON_LEAF):
            return self._non_leaf(error, place)
        for beginning, (code, sentence) in _BY_TEXT.items():
            if text.startswith(beginning):
                return Fault(code, sentence, place, detail=text)
        return None

    def begins(self, names: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        """Note the first input that asks for a gradient."""
        tensors = (pair for name, value in inputs.items() for pair in tensors_in(name, value))
        self._asked = next((name for name, tensor in tensors if tensor.requires_grad), None)

    def returned(self, value: Any, place: Place | None) -> None:
        """Look at a loss that is returned, for another function to go backward from."""
        is_loss = isinstance(value, torch.Tensor) and value.is_floating_point() and not value.dim()
        if not is_loss or self._done or "loss" not in str(self.run.plan.get("target")).lower():
            return
        cut = self._cut_of(value)
        if cut is None or not cut.recording:
            return
        if cut.op != _FROM_NUMBERS:
            self._left_early(cut)
        elif self._departures.at(cut.instruction) is not None:
            whole = whole_text_of(self.run.lines, cut.instruction)
            if any(copy in whole for copy in _COPIES) and not any(word in whole for word in _MEANT):
                function = whole.partition("(")[0]
                sentence = f"`{function}` copies the values, not the graph; backward() of the result raises"
                at = self.run.lines.place(cut.instruction)
                self.run.report(Fault("DG105", sentence, at, severity="warning"))

    def _left_early(self, cut: Cut) -> None:
        """Report a loss without a graph though an input asks for a gradient; not one that is detached at last."""
        lines = self.run.lines
        at, whole = lines.place(cut.instruction), whole_text_of(lines, cut.instruction)
        source = lines.source(at.path) if at is not None else None
        if self._asked is None or at is None or source is None or not whole:
            return
        if source[at.line - 1].strip() != f"return {whole}":
            sentence = (
                f"`{whole}` is cut from the graph: the returned loss has none, although `{self._asked}` requires grad"
            )
            self.run.report(Fault("DG106", sentence, at, severity="warning"))

    def finish(self) -> None:
        """Report the parameters that no step has found a gradient for."""
        for missing in self._missing.values():
            by_departure: dict[Departure | None, list[str]] = {}
            for leaf, name in missing.names.items():
                by_departure.setdefault(self._departures.of(leaf), []).append(name)
            for departure, names in by_departure.items():
                self.run.report(_without_gradient(names, missing, departure))

    def _non_leaf(self, error: BaseException, place: Place | None) -> Fault:
        """Return the fault at the line that computed what an optimizer refuses, if that is known."""
        call = call_of_error(self.run, error)
        refused: list[Any] = call.local("param") if call is not None else []
        lines = self.run.lines
        made = lines.place(lines.of_node(refused[0].grad_fn)) if refused and refused[0].grad_fn is not None else None
        sentence = "the optimizer gets a tensor that was computed from another one; it updates leaves only"
        related = [("passed to the optimizer here", place)] if made is not None and place is not None else []
        return Fault("DG110", sentence, made or place, str(error), None, related)

    def _no_graph(self, root: Any, place: Place, text: str) -> Fault:
        call = call_here(self.run)
        name = call.describe(root, "the loss") if call else "the loss"
        own = self._cut_of(root)
        cut = own or self._number
        if cut is not None and cut.op == _FROM_NUMBERS and not self._copies_values(cut):
            cut = self._number
        fault = self._fault(f"{name} has no graph", cut, place, text)
        return replace(fault, facts={**fault.facts, "cut": own is not None and cut is not None})

    def _copies_values(self, cut: Cut) -> bool:
        """Say whether a tensor was made of a list that holds more than numbers: torch does not show what it reads."""
        parts = operands(self.run.lines, cut.instruction)
        return bool(parts) and any(isinstance(node, (ast.Name, ast.Call)) for node in ast.walk(ast.parse(parts[-1])))

    def _fault(self, why: str, cut: Cut | None, place: Place, text: str) -> Fault:
        if cut is None:
            sentence = f"backward() fails: {why}, and nothing it was computed from requires grad"
            return Fault("DG106", sentence, place, detail=text)
        lines = self.run.lines
        at, written = lines.place(cut.instruction), spelled(lines, cut.instruction, cut.op)
        if not cut.recording:
            line = f" on line {at.line}" if at else ""
            sentence = f"backward() fails: {why}; {written}{line} was computed with gradients disabled"
            return Fault("DG103", sentence, place, text, None, _here(at, "no graph is recorded"))
        fails = [("backward() fails here", place)] if at is not None and at.line != place.line else []
        whole = whole_text_of(lines, cut.instruction)
        if any(copy in whole for copy in _COPIES):
            copied = f"`{whole.partition('(')[0]}`"
            sentence = f"{copied} copies the values, not the graph; backward() on line {place.line} fails"
            return Fault("DG105", sentence, at, text, None, fails)
        leaves = "records no graph without create_graph=True" if cut.op == GRADIENT else "leaves it"
        sentence = f"backward() on line {place.line} fails: {why}; {written} {leaves}"
        return Fault("DG116" if cut.op == GRADIENT else "DG106", sentence, at or place, text, None, fails)

    def _second(self, roots: tuple[Any, ...], place: Place, text: str) -> Fault:
        last = max((done.ended for done in self._done), default=-1)
        passed = [node for node in graphs.nodes(roots) if node._sequence_nr() <= last]
        # This pass frees what it goes through before it fails: what an earlier one has freed is older.
        node = max(filter(graphs.is_freed, passed), key=lambda n: n._sequence_nr(), default=None)
        number = node._sequence_nr() if node is not None else 0
        earlier = next((done for done in self._done if done.number >= number), Done(-1, -1, None, []))
        first = earlier.place
        at = self.run.lines.place(self.run.lines.of_node(node)) if node is not None else None
        freed_by = f" by backward() on line {first.line}" if first else ""
        mine = max(root.grad_fn._sequence_nr() for root in roots if root.grad_fn is not None)
        related = [("backward() fails here", place), *([("the graph is freed here", first)] if first else [])]
        if mine == earlier.number:
            sentence = f"backward() goes through one graph twice; the first time{freed_by} freed its saved tensors"
            return Fault("DG113", sentence, place, text, None, related[1:])
        strayed = self._strayed(node, earlier) if first is not None and first.line != place.line else None
        if strayed is not None:
            sentence = (
                f"the first backward(){freed_by.removeprefix(' by backward()')} frees a graph reached from here "
                f"whose parameters its optimizer does not hold; backward() on line {place.line} fails. Detach what "
                "this uses"
            )
            return Fault("DG113", sentence, strayed, text, None, related)
        kept = first_kept(node, self.run.lines) if node is not None else None
        carried = self._carried(passed) or self._handed_over(node, place) or kept
        if carried is not None and at is not None and at.line != carried[1].line:
            related.insert(0, (f"{graphs.operation(node)}, from an earlier iteration", at))
        advice = f"`{carried[0]}`, which is carried over from there" if carried else "what is carried over from there"
        what = f"{graphs.operation(node)} on line {at.line}" if node is not None and at else "an earlier iteration"
        return Fault(
            "DG108",
            f"backward() on line {place.line} goes back into the graph of an earlier iteration, to {what}, which was "
            f"freed{freed_by}; detach {advice}",
            carried[1] if carried else at or place,
            text,
            None,
            related,
        )

    def _result_freed(self, text: str) -> Fault:
        """Return the fault of a result whose graph the target itself has freed."""
        freed = next((done.place for done in reversed(self._done) if done.place is not None), None)
        where = f" on line {freed.line}" if freed is not None else ""
        sentence = f"backward() from the returned value fails: the backward pass{where} has freed its graph"
        return Fault("DG113", sentence, self.run.returned_at, text, None, _here(freed, "the graph is freed"))

    def _strayed(self, shared: Any, earlier: Done) -> Place | None:
        """Return where an earlier loss entered a graph that was none of its optimizer's business."""
        index = self._done.index(earlier) + 1
        stepped = next((held for done, held in self._stepped if done == index), None)
        if stepped is None or shared is None or any(id(leaf) in stepped for leaf in graphs.leaves_below(shared)):
            return None
        roots = [root for root in (reference() for reference in earlier.roots) if root is not None]
        entered = (n for n in graphs.nodes(roots) if any(following is shared for following, _ in n.next_functions))
        node = next(entered, None)
        at = self.run.lines.place(self.run.lines.of_node(node)) if node is not None else None
        return self._given(shared, at, earlier.place) if at is not None and earlier.place is not None else at

    def _given(self, shared: Any, at: Place, first: Place) -> Place:
        """Return where what was computed with a shared graph got it, beside the backward pass that has freed it.

        The function that computes with it may be called with others, too.
        """
        source, call = self.run.lines.source(first.path), call_here(self.run)
        if source is None or call is None:
            return at
        tree = tree_of("\n".join(source))
        if at.path == first.path and scope_of(tree, at.line) is scope_of(tree, first.line):
            return at
        for name, value in call.visible():
            if name.isidentifier() and isinstance(value, torch.Tensor) and value.grad_fn is shared:
                used = used_before(tree, name, first.line)
                if used is not None:
                    return self.run.lines.place_of_node(first.path, used)
        return at

    def _carried(self, passed: list[Any]) -> tuple[str, Place] | None:
        """Return the name that holds a tensor of an earlier pass, and the line that binds it after backward."""
        call = call_here(self.run)
        for name, value in call.visible() if call is not None else ():
            if isinstance(value, torch.Tensor) and value.grad_fn is not None and value.grad_fn in passed:
                bound = _NUMBER.sub("", name)
                place = call.binding(bound) if call is not None else None
                if place is not None:
                    return bound, place
        return None

    def _handed_over(self, earlier: Any, place: Place) -> tuple[str, Place] | None:
        """Return the name that the loop around backward hands to its next pass, with the graph of an earlier one."""
        call = call_here(self.run)
        visible = [*call.visible()] if call is not None and earlier is not None else []
        for bound, at in carried_names(self.run.lines, place) if visible else ():
            values = (value for name, value in visible if _NUMBER.sub("", name) == bound)
            roots = [value for value in values if isinstance(value, torch.Tensor) and value.grad_fn is not None]
            if any(node is earlier for node in graphs.nodes(roots)):
                return bound, at
        return None


def _without_gradient(names: list[str], missing: Missing, departure: Departure | None) -> Fault:
    """Return the fault of parameters that never had a gradient, where their graph ends if that is known."""
    listed = ", ".join(f"`{name}`" for name in names[:_NAMES])
    listed += f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    head = f"{len(names)} of the optimizer's {missing.total} parameters never got a gradient"
    step = [("this step finds no gradient", missing.place)] if missing.place is not None else []
    if departure is None:
        sentence, at, step = f"{head}: no loss depends on them: {listed}", missing.place, []
    elif departure.switch:
        sentence, at = f"{head}: gradients are disabled here: {listed}", departure.place
    else:
        sentence, at = f"{head}: the graph is cut here: {listed}", departure.place
    return Fault("DG112", sentence, at, severity="info", related=step, facts={"parameters": names})


def _may_hold(copy: Any, tensor: Any) -> bool:
    """Say whether a tensor made of numbers may have been made of another tensor's: the first of them is among its."""
    if not is_readable(copy) or not is_readable(tensor):
        return True
    if not 0 < tensor.numel() <= copy.numel():
        return False
    with quietly():
        first = at_hand(tensor)[(0,) * tensor.dim()]
        return bool((at_hand(copy).cpu() == first.cpu().to(copy.dtype)).any())


def _lost_at(cuts: list[Cut]) -> Instruction | None:
    return next((cut.lost_at for cut in cuts if cut.lost_at is not None), None)


def _first(result: Any) -> Any:
    """Return the first of several results."""
    several = cast("tuple[Any, ...]", result if isinstance(result, (tuple, list)) else (result,))
    return several[0] if several else None


def _here(place: Place | None, message: str) -> list[tuple[str, Place]]:
    return [(f"{message} here", place)] if place is not None else []
