"""One attempt: make the proposed inputs, call the target, and see how far it got and what stopped it."""

from __future__ import annotations

import copy
from types import TracebackType
from typing import Any, Callable

import torch
from torch import overrides

from drygrad.worker.lines import Instruction
from drygrad.worker.namespace import Namespace
from drygrad.worker.run import Instrument, Run
from drygrad.worker.search.nodes import Node, Path, render, shared, text_of
from drygrad.worker.watch import Op

_OWN = __file__.rpartition("search")[0] + "search"
MOST_ELEMENTS = 1 << 24
_MOST_PARTS, _PART = 100, 10_000


class Steps(Instrument):
    """Counts the instructions of the user's and the modules that a run has come to."""

    name = "steps"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.seen: set[Any] = set()

    def after_op(self, op: Op, result: Any) -> None:
        """Remember the instruction that the operation served."""
        self.seen.add(op.instruction)


class Failure:
    """What stopped an attempt: the error, and the call of torch's that raised it, if one did."""

    def __init__(self, error: BaseException, call: Call | None, progress: int) -> None:
        self.error = error
        self.call = call
        self.progress = progress
        """How many places of the user's code were passed before."""
        self.building: Path | None = None
        """The part that could not even be made."""
        self.built: list[tuple[Any, Path]] = []
        """The objects that were made, each with its part."""

    def path_of(self, value: Any) -> Path | None:
        """Return the part of the inputs that an object is."""
        return next((path for made, path in self.built if made is value), None)

    def frames(self) -> list[TracebackType]:
        """Return the frames of the error that are not the search's own, innermost first."""
        found: list[TracebackType] = []
        trace = self.error.__traceback__
        while trace is not None:
            found.append(trace)
            trace = trace.tb_next
        return [trace for trace in reversed(found) if not trace.tb_frame.f_code.co_filename.startswith(_OWN)]


class Call:
    """A call of a function of torch's, and which parts of the inputs each tensor came from."""

    def __init__(self, name: str, arguments: list[Any], keywords: dict[str, Any], origins: Origins) -> None:
        self.name = name.rpartition(".")[2]
        self.arguments = arguments
        self.keywords = keywords
        self._origins = origins

    def tensors(self) -> list[torch.Tensor]:
        """Return the tensors among the arguments."""
        return [t for t in _flat([*self.arguments, *self.keywords.values()]) if isinstance(t, torch.Tensor)]

    def plain(self) -> str:
        """Return the arguments that are no tensors in one text: a number of them may come of an input's shape."""
        return repr([_described(value) for value in _flat([*self.arguments, *self.keywords.values()])])

    def origins(self, value: Any) -> frozenset[Path]:
        """Return the parts of the inputs that a tensor was computed from."""
        return self._origins.of(value)

    def argument(self, position: int, name: str) -> Any:
        """Return an argument by position or name."""
        return self.arguments[position] if position < len(self.arguments) else self.keywords.get(name)


class Origins:
    """Which parts of the inputs each tensor was computed from."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, frozenset[Path]]] = {}

    def mark(self, value: Any, paths: frozenset[Path]) -> None:
        """Remember where the tensors in a value come from."""
        for tensor in _flat([value]):
            if is_followed(tensor):
                self._known[id(tensor)] = (tensor, paths)

    def of(self, value: Any) -> frozenset[Path]:
        """Return where the tensors in a value come from."""
        found = (self._known[id(tensor)][1] for tensor in _flat([value]) if id(tensor) in self._known)
        return frozenset(path for paths in found for path in paths)


def is_followed(value: Any) -> bool:
    """Say whether it is remembered of a value where it comes from: of tensors and arrays."""
    return isinstance(value, torch.Tensor) or type(value).__module__ == "numpy"


def _flat(values: Any, depth: int = 3) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)) and depth:
            found += _flat(value, depth - 1)
        else:
            found.append(value)
    return found


def _described(value: Any) -> str:
    """Return what an argument is; of objects that are not plain values only their kind, for no code of the user's."""
    plain = (bool, int, float, complex, str, type(None), torch.dtype, torch.device)
    return repr(value) if type(value) in plain else type(value).__name__


_before_forward: Callable[[Callable[[Any, Any], None]], Any] = torch.nn.modules.module.register_module_forward_pre_hook
_name_of: Callable[[Any], str | None] = overrides.resolve_name  # pyright: ignore


class _Trace(overrides.TorchFunctionMode):
    """Follows tensors from call to call and remembers the one that failed."""

    def __init__(self, origins: Origins) -> None:
        super().__init__()
        self.failed: tuple[BaseException, Call] | None = None
        self.on_gpu = False
        self.suspects: list[Call] = []
        """Losses whose sides differ in shape: they run, but not as anybody would mean it."""
        self._origins = origins

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Execute a call and pass on where its result comes from."""
        kwargs = kwargs or {}
        self.on_gpu = self.on_gpu or str(kwargs.get("device")).startswith("cuda")
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            self.failed = (error, self._call(func, args, kwargs))
            raise
        self.on_gpu = self.on_gpu or (isinstance(result, torch.Tensor) and result.is_cuda)
        name = getattr(func, "__name__", "")
        if name in _PAIRED and len({_shape(side) for side in args[:2]}) > 1:
            self.suspects.append(self._call(func, args, kwargs))
        if name != "__get__" or isinstance(result, torch.Tensor):
            paths = self._origins.of([*args, *kwargs.values()]) or (_OF_DATA if name in _TAKING else frozenset())
            if paths:
                self._origins.mark(result, paths)
        return result

    def _call(self, func: Any, args: Any, kwargs: Any) -> Call:
        name = _name_of(func) or getattr(func, "__name__", "")
        return Call(name, list(args), kwargs, self._origins)


_TAKING = frozenset(("as_tensor", "asarray"))
_OF_DATA = frozenset(((),))
"""Where tensors come from that are made of what may be a tensor as well: no one part of the inputs."""
_PAIRED = frozenset(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"))


def _shape(value: Any) -> Any:
    return getattr(value, "shape", None)


class Mismatch(Exception):
    """The two sides of a loss differ in shape, and torch only broadcasts."""


class Trials:
    """Attempts in one namespace. Objects that need no other input are made once."""

    def __init__(self, namespace: Namespace, call: Callable[[Any, dict[str, Any]], None], steps: Steps) -> None:
        self._namespace = namespace
        self._call = call
        self._steps = steps
        self._made: dict[str, Any] = {}
        self._built: list[tuple[Any, Path]] = []
        self.on_gpu = False
        """Whether the code of the last attempt had tensors on the GPU."""

    def attempt(self, proposal: Node) -> Failure | None:
        """Make the inputs and call the target; return what stopped it, None if nothing did."""
        self._steps.seen = set()
        entered: set[int] = set()
        origins = Origins()
        building: list[Path] = []
        hook = _before_forward(lambda module, _: entered.add(id(module)))
        trace = _Trace(origins)
        try:
            made = self._all_made(proposal, origins, building)
            with trace:
                self._call(made.pop(proposal.text, None), made)
            if trace.suspects:
                raise Mismatch("the two sides of the loss differ in shape")
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is what the search reads
            failed = trace.failed[1] if trace.failed and trace.failed[0] is error else None
            call = trace.suspects[0] if isinstance(error, Mismatch) else failed
            return self._failure(error, call, len(entered), building)
        finally:
            hook.remove()
            self.on_gpu = trace.on_gpu
        return None

    def _failure(self, error: BaseException, call: Call | None, entered: int, building: list[Path]) -> Failure:
        failure = Failure(error, call, 0)
        for trace in failure.frames():  # the step that failed is not passed
            self._steps.seen.discard(Instruction(trace.tb_frame.f_code, trace.tb_lasti))
        passed = len(self._steps.seen) + entered
        failure.progress = passed if not building else passed + _PART * (len(building) - _MOST_PARTS)
        failure.building = building[-1] if building else None
        failure.built = self._built
        return failure

    def _all_made(self, proposal: Node, origins: Origins, building: list[Path]) -> dict[str, Any]:
        earlier: dict[str, Any] = {}
        self._built = []
        for name, node in proposal.parts:
            building.append((name,))
            earlier[name] = self._build(node, (name,), earlier, origins)
        building.clear()
        self._steps.seen = set()
        return earlier

    def _build(self, node: Node, path: Path, earlier: dict[str, Any], origins: Origins) -> Any:
        whole = text_of(node)
        is_kept = node.kind == "call" and path[-1:] != ("made",)  # steps change what they are called on
        if is_kept and whole in self._made:
            self._built.append((self._made[whole], path))
            return self._made[whole]
        places: dict[str, Any] = {}
        beside = shared(node) if node.kind == "call" else ()
        written: list[str] = []
        for name, part in node.parts:
            written.append(self._placed(part, (*path, name), places, earlier, origins))
            if name in beside:
                earlier = {**earlier, name: places[written[-1]]}
        if node.kind == "held":  # others have the object as it was made
            places[written[0]] = copy.copy(places[written[0]])
        value = self._namespace.evaluate({"text": render(node, written)}, {**earlier, **places})
        self._built.append((value, path))
        if is_followed(value):
            below = frozenset((*path, *way) for way, _ in node.leaves())
            origins.mark(value, below if node.parts else frozenset((path,)))
        if is_kept:
            self._made[whole] = value
        return value

    def _placed(self, part: Node, path: Path, places: dict[str, Any], earlier: dict[str, Any], origins: Origins) -> str:
        """Make a part; return what it is called in the expression around it."""
        if part.kind == "step":
            inner = [self._placed(p, (*path, name), places, earlier, origins) for name, p in part.parts]
            return render(part, inner)
        name = f"_part{len(places)}"
        places[name] = None
        places[name] = self._build(part, path, earlier, origins)
        return name


def is_too_large(proposal: Node) -> bool:
    """Say whether a proposal would take more memory than a search should."""
    for _, leaf in proposal.leaves():
        count = 1
        for size in leaf.shape:
            count *= size
        if count > MOST_ELEMENTS or (leaf.kind == "number" and abs(leaf.value) > 1 << 20):
            return True
    return False
