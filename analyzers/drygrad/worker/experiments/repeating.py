"""Evaluation repeats: in evaluation, equal inputs come to equal results, whatever the seed and the calls before."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

import torch

from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.evaluated import Evaluated, require_forward
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.trace import Step, agree, is_noise, memory_of, partings
from drygrad.worker.lines import Lines
from drygrad.worker.probe import tensors
from drygrad.worker.run import Fault, Place
from drygrad.worker.spelling import whole_text_of
from drygrad.worker.texts import class_with, function_at, tree_of

_DROPOUT = "DG743"
_REGULARIZES = re.compile(
    r"Noise(?!Sched)|Drop(?!let)|Jitter|Augment|Perturb|Stochastic(Depth|Path)|Cutout|Erasing|Shake"
)
"""Names of classes that are there to make training harder."""
_RESETTING = ("reset", "init_", "clear", "detach_state", "flush")


class EvaluationRepeats(Relation):
    """Calls a module in evaluation twice, seeded otherwise."""

    code: ClassVar[str] = "DG925"
    name: ClassVar[str] = "evaluation repeats"
    rank: ClassVar[int] = 15

    def glance(self, given: Inputs) -> None:
        """Take nothing but the forward of a module."""
        require_forward(given)

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield the first operation that comes to something else the second time."""
        evaluated = Evaluated(bench)
        evaluated.call(bench.seed)  # what is made at the first call may stay
        first, before = evaluated.call(bench.seed)
        second, after = evaluated.call(bench.seed + 1)
        pairs = zip(tensors(first), tensors(second))
        if all(agree(one, other) for one, other in pairs):
            return
        steps = [before.steps[number] for number in partings(before, after)]
        step = next(filter(is_noise, steps), steps[0] if steps else None)
        place = bench.run.lines.place(step.instruction) if step is not None else None
        if step is None or place is None:
            raise NotTried("results differ between calls, but not at a line of the program")
        if is_noise(step):
            yield _of_noise(bench.run.lines, step, place)
            return
        if any(memory_of(tensor) in step.written for tensor in evaluated.state()):
            raise NotTried("a call in eval mode changes its state")
        if any(word in name for name in _own_names(evaluated.module) for word in _RESETTING):
            raise NotTried("it keeps state between calls, which a method of its own resets")
        message = "in eval mode, this gives a different result for the same inputs on the next call: state is kept"
        yield Fault(self.code, message, place, severity=evaluated.severity)


def _own_names(module: torch.nn.Module) -> Iterator[str]:
    """Yield the names that the classes of a module define themselves, those of torch left out."""
    for kind in type(module).__mro__:
        if not kind.__module__.startswith("torch."):
            yield from (name for name in vars(kind) if not name.startswith("__"))


def _of_noise(lines: Lines, step: Step, place: Place) -> Fault:
    """Return the fault of random numbers in evaluation. Raises NotTried where the text asks for them."""
    text = whole_text_of(lines, step.instruction)
    attends = "scaled_dot_product" in text and "dropout_p" in text
    if (step.drops or attends) and "training=True" not in text.replace(" ", ""):
        what = "the attention weights" if attends else "values"
        message = f"{what} are still dropped in eval mode: two calls with the same inputs differ"
        return Fault(_DROPOUT, message, place, severity="warning")
    owner = _forgetful(lines, step)
    if owner is None:
        raise NotTried("it draws random numbers on purpose")
    message = f"in eval mode, random numbers are still drawn here; nothing in `{owner}` checks `self.training`"
    return Fault(EvaluationRepeats.code, message, place, severity="info")


def _forgetful(lines: Lines, step: Step) -> str | None:
    """Return the class that draws the numbers, if it regularizes by its name, and never asks for the mode."""
    source = lines.source(step.instruction.code.co_filename) if step.instruction is not None else None
    if step.instruction is None or source is None:
        return None
    text = "\n".join(source)
    function = function_at(text, step.instruction.code.co_firstlineno)
    owner = class_with(tree_of(text), function) if function is not None else None
    if owner is None or not _REGULARIZES.search(owner.name):
        return None
    asks = any(isinstance(n, ast.Attribute) and n.attr == "training" for n in ast.walk(owner))
    return None if asks else owner.name
