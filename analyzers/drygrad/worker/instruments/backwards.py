"""Backwards of the user's own that disagree with their forward: compared by finite differences, once for each class."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial, wraps
from types import CodeType
from typing import Any, ClassVar, cast

import torch

from drygrad.worker.reading import is_readable
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.texts import function_at

_CODE = "DG123"
_MOST = 1 << 16
_STEP, _TOLERANCE, _TINY, _TRIES = 1e-5, 1e-2, 1e-9, 3
_STEPWISE = frozenset(
    "round floor ceil sign trunc argmax argmin topk sort heaviside bernoulli rand randn rand_like randn_like dropout "
    "where gt ge lt le clamp clamp_ clip relu relu_ max min histc bucketize one_hot quantize int long bool".split()
)
"""What makes a forward stepwise, or random: there a backward of another function is often meant."""
_Function: Any = torch.autograd.Function
_engine: Any = torch.autograd.graph._engine_run_backward
"""The engine as torch has it: the instruments hear of what goes through the one in ``torch.autograd``."""


class Backwards(Instrument):
    """Computes the derivative of each custom function along a few directions, forward and backward, in float64."""

    name: ClassVar[str] = "backwards"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._checked: set[type] = set()
        self.compared = False
        """Whether there was a backward to compare."""
        self._original: Any = None
        self._own = False

    def start(self) -> None:
        """Listen to ``apply``."""
        self._original = _Function.__dict__.get("apply")
        function: Any = getattr(self._original, "__func__", None)
        if function is None:
            return

        @wraps(function)
        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            result: Any = function(cls, *args, **kwargs)
            if cls not in self._checked and not self._own and torch.is_grad_enabled():
                self._checked.add(cls)
                self._check(cls, function, args, kwargs, result)
            return result

        heard: Any = apply
        _Function.apply = classmethod(heard)

    def finish(self) -> None:
        """Listen no more."""
        if self._original is not None:
            _Function.apply = self._original

    def _check(self, cls: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        code = getattr(getattr(cls, "backward", None), "__code__", None)
        place = self._end_of(cls.backward) if code is not None and self.run.lines.is_user(code) else None
        if place is None or kwargs or not isinstance(result, torch.Tensor) or not result.requires_grad:
            return
        chosen = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.requires_grad]
        whole = all(is_readable(a) and a.numel() <= _MOST for a in args if isinstance(a, torch.Tensor))
        if not chosen or not whole or result.numel() > _MOST or self._is_stepwise(cls) or _is_identity(result, args):
            return
        self.compared = True
        try:
            with self._alone():
                found = _compared(partial(function, cls), args, chosen)
        except Exception:  # noqa: BLE001 - what cannot be computed in float64 says nothing of the backward
            return
        if found is not None:
            numeric, analytic = found
            name = cls.__name__
            message = (
                f"backward of {name} disagrees with its forward: the numerical derivative is {numeric:.4g}, not "
                f"{analytic:.4g}"
            )
            self.run.report(Fault(_CODE, f"{message}, along a direction at this input", place))

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Compute with gradients and without the instruments, and leave the random numbers as they are."""
        state, torch_c = torch.get_rng_state(), cast("Any", torch._C)
        self._own = True
        try:
            with torch_c._DisableTorchDispatch(), torch.enable_grad():
                yield
        finally:
            self._own = False
            torch.set_rng_state(state)

    def _end_of(self, backward: Any) -> Place | None:
        """Return what a backward returns at its end; its first line where that cannot be told."""
        code = backward.__code__
        node = self._node(code)
        last = next((s for s in reversed(node.body) if isinstance(s, ast.Return)), None) if node is not None else None
        if last is None or last.value is None:
            return Place(code.co_filename, code.co_firstlineno)
        return self.run.lines.place_of_node(code.co_filename, last.value)

    def _node(self, code: CodeType) -> ast.FunctionDef | None:
        """Return the text of a function."""
        source = self.run.lines.source(code.co_filename)
        found = function_at("\n".join(source), code.co_firstlineno) if source is not None else None
        return found if isinstance(found, ast.FunctionDef) and found.name == code.co_name else None

    def _is_stepwise(self, cls: Any) -> bool:
        """Say whether a forward may have steps or draw random numbers, by its text."""
        code = getattr(getattr(cls, "forward", None), "__code__", None)
        written = self._node(code) if code is not None else None
        if written is None:
            return True
        for node in ast.walk(written):
            if isinstance(node, ast.Compare) and not all(isinstance(o, (ast.Is, ast.IsNot, ast.In)) for o in node.ops):
                return True
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if name in _STEPWISE:
                return True
        return False


def _is_identity(result: torch.Tensor, args: tuple[Any, ...]) -> bool:
    """Say whether a function returns one of its inputs: then it is there for its backward alone."""
    with torch.no_grad(), cast("Any", torch._C)._DisableTorchDispatch():
        return any(
            isinstance(a, torch.Tensor) and a.shape == result.shape and torch.equal(a.to(result.dtype), result)
            for a in args
        )


def _compared(function: Any, args: tuple[Any, ...], chosen: list[int]) -> tuple[float, float] | None:
    """Return the two derivatives where they differ along each of a few directions."""
    base = [_double(a) for a in args]
    leaves = [base[i].detach().clone().requires_grad_() for i in chosen]
    again, result = (function(*_with(base, chosen, leaves)) for _ in range(2))
    if not torch.equal(again, result):
        return None
    generator = torch.Generator().manual_seed(0)
    worst: tuple[float, float] | None = None
    for _ in range(_TRIES):
        weights = torch.randn(result.shape, generator=generator, dtype=torch.float64).to(result.device)
        gradients = _engine((result,), (weights,), True, False, tuple(leaves), True, accumulate_grad=False)
        if any(gradient is None for gradient in gradients):
            return None
        directions = [torch.randn(a.shape, generator=generator, dtype=torch.float64).to(a.device) for a in leaves]
        analytic = sum(float((g * d).sum()) for g, d in zip(gradients, directions))
        ahead, behind = (
            function(*_with(base, chosen, [a.detach() + sign * _STEP * d for a, d in zip(leaves, directions)]))
            for sign in (1, -1)
        )
        numeric = float(((ahead - behind) * weights).sum()) / (2 * _STEP)
        scale = max(abs(analytic), abs(numeric))
        if abs(numeric) < _TINY or abs(analytic - numeric) <= _TOLERANCE * scale:
            return None
        worst = numeric, analytic
    return worst


def _double(value: Any) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.detach().double() if is_float else value


def _with(base: list[Any], chosen: list[int], leaves: list[torch.Tensor]) -> list[Any]:
    given = list(base)
    for index, leaf in zip(chosen, leaves):
        given[index] = leaf
    return given
