"""What a target leaves in its inputs for the next call: a graph that each call adds to, a tensor on another device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch

from drygrad.worker import graphs, probe
from drygrad.worker.explain.blame import is_loop
from drygrad.worker.ledger import Origin
from drygrad.worker.naming import within
from drygrad.worker.reading import device_text
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.spelling import text_of, whole_text_of

_GRAPH, _DEVICE = "DG502", "DG203"


class Carried(Instrument):
    """Compares what can be reached from the inputs before a call and after it."""

    name: ClassVar[str] = "carried"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._inputs: dict[str, Any] = {}
        self._with_graph: set[str] = set()
        self._on_device: set[str] = set()
        self._device: torch.device | None = None

    def begins(self, names: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        """Note what has a graph, and whether all is on one accelerator; the caller holds the inputs meanwhile."""
        self._inputs = {name: value for name, value in inputs.items() if not isinstance(value, torch.optim.Optimizer)}
        found = [*self._reached()]
        self._with_graph = {path for path, tensor in found if tensor.requires_grad}
        devices = {tensor.device for _, tensor in found if tensor.dim()}
        if len(devices) == 1 and next(iter(devices)).type == "cuda":
            self._device = next(iter(devices))
            self._on_device = {path for path, _ in found}

    def _reached(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, value in self._inputs.items():
            yield from ((path, held) for path, held in within(name, value) if isinstance(held, torch.Tensor))

    def returned(self, value: Any, place: Place | None) -> None:
        """Report what was left behind."""
        left = [*self._reached()]
        nodes: set[Any] | None = None
        for path, tensor in left:
            if tensor.grad_fn is not None and path not in self._with_graph and self._adds_to_itself(path, tensor):
                nodes = set(graphs.nodes(probe.outputs(value))) if nodes is None else nodes
                self._report_graph(path, tensor, is_result=tensor.grad_fn in nodes)
        if self._device is not None:
            self._report_devices(value, left)

    def _adds_to_itself(self, path: str, tensor: torch.Tensor) -> bool:
        """Say whether the text that computes a value reads what had its name before."""
        text = whole_text_of(self.run.lines, self.run.lines.of_node(tensor.grad_fn))
        last = path.rpartition(".")[2]
        spellings = (re.escape(path), rf"\bself\.{re.escape(last)}")
        name = re.compile("|".join(rf"(?:{spelling})\b(?![(\w])" for spelling in spellings))
        if name.search(text) is None:
            return False
        place = self.run.lines.place(self.run.lines.of_node(tensor.grad_fn))
        return place is None or not _begins_anew(name, place, self.run.lines.source(place.path) or [])

    def _report_graph(self, path: str, tensor: torch.Tensor, *, is_result: bool) -> None:
        holder = next((v for v in self._inputs.values() if isinstance(v, torch.nn.Module)), None)
        is_buffer = holder is not None and any(buffer is tensor for buffer in holder.buffers())
        sentence = f"`{path}` carries the graph of this call into the next one; detach it"
        severity = "warning" if is_buffer and not is_result else "info"
        at = self.run.lines.place(self.run.lines.of_node(tensor.grad_fn))
        self.run.report(Fault(_GRAPH, sentence, at, severity=severity))

    def _report_devices(self, value: Any, left: list[tuple[str, torch.Tensor]]) -> None:
        where = device_text(self._device) if self._device is not None else ""
        for path, tensor in left:
            at = self._factory(tensor) if path in self._on_device else None
            if at is not None:
                sentence = f"created on the CPU: `{path}` was on {where} and no longer is"
                self.run.report(Fault(_DEVICE, sentence, at, severity="warning"))
        for tensor in probe.tensors(value):
            at = self._factory(tensor) if tensor.is_floating_point() else None
            if at is not None:
                sentence = f"created on the CPU and returned, although the inputs are on {where}"
                self.run.report(Fault(_DEVICE, sentence, at, severity="info"))

    def _factory(self, tensor: torch.Tensor) -> Place | None:
        """Return where the target has made of nothing what is on the CPU, and named no device."""
        held = self.run.held_of(tensor) if tensor.device.type == "cpu" and tensor.dim() else None
        made: Origin | None = held.roots.device if held is not None else None
        if made is None or not (made.within and made.from_nothing) or any(is_loop(line) for line in made.lines):
            return None
        named = "device" in (text_of(self.run.lines, made.instruction) or "")
        return None if named else self.run.lines.place(made.instruction)


def _begins_anew(name: re.Pattern[str], place: Place, lines: list[str]) -> bool:
    """Say whether each call of the function gives the name a value before that line, one that is not made of it."""
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):
        return False
    functions = (n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    around = [f for f in functions if f.lineno <= place.line <= (f.end_lineno or 0)]
    for statement in around[-1].body if around else ():
        if (statement.end_lineno or 0) >= place.line:
            return False
        if not isinstance(statement, ast.Assign) or name.search(ast.unparse(statement.value)) is not None:
            continue
        if any(name.fullmatch(ast.unparse(target)) for target in statement.targets):
            return True
    return False
