"""Both sides of a comparison: what torch does with an expression, and what is told of it without running it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from drygrad.static.facts.shapes import Outputs, Result, call_shape
from drygrad.static.facts.values import (
    UNKNOWN,
    Arguments,
    Constant,
    Dtype,
    Form,
    Object,
    Sequence,
    Shape,
    Tensor,
    TorchCall,
    Value,
)

CASE = re.compile(r"(\w)\(([\d, ]*)\)(\w*)")


@dataclass(frozen=True)
class Case:
    """An expression over tensors named by letters: ``a(2,3) i(4)int64 | a[i]``."""

    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]
    expression: str

    @classmethod
    def parse(cls, text: str) -> Case:
        tensors, _, expression = text.partition("|")
        found = CASE.findall(tensors)
        return cls(
            {name: tuple(int(size) for size in sizes.split(",") if size.strip()) for name, sizes, _ in found},
            {name: dtype or "float32" for name, _, dtype in found},
            expression.strip(),
        )

    def with_shape(self, name: str, shape: tuple[int, ...]) -> Case:
        return replace(self, shapes={**self.shapes, name: shape})


class Bench:
    """Evaluates a case with torch and statically."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.namespace = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}

    def tensors(self, case: Case) -> dict[str, Any]:
        return {name: self.tensor(shape, case.dtypes[name]) for name, shape in case.shapes.items()}

    def tensor(self, shape: tuple[int, ...], dtype: str) -> Any:
        kind = getattr(self.torch, dtype)
        return self.torch.rand(shape) if kind.is_floating_point else self.torch.zeros(shape, dtype=kind)

    def real(self, case: Case) -> Any:
        """Return the shapes that torch's result has."""
        return self.shapes_of(eval(case.expression, {**self.namespace, **self.tensors(case)}))

    def shapes_of(self, result: Any) -> Any:
        if isinstance(result, self.torch.Tensor):
            return tuple(result.shape)
        if isinstance(result, (tuple, list)):
            return Outputs([self.shapes_of(each) for each in cast("tuple[Any, ...]", result)])
        return None

    def static(self, case: Case, shapes: Mapping[str, Shape | None] | None = None) -> Result:
        """Return the shapes told without running, where the tensors may have less known shapes."""
        return call_shape(self.call(case, shapes))

    def call(self, case: Case, shapes: Mapping[str, Shape | None] | None = None) -> TorchCall:
        known: Mapping[str, Shape | None] = case.shapes if shapes is None else shapes
        node = ast.parse(case.expression, mode="eval").body
        assert isinstance(node, ast.Call)
        return self.torch_call(node, self.value_reader(case, known))

    def value_reader(self, case: Case, known: Mapping[str, Shape | None]) -> Callable[[ast.expr], Value]:
        tensors = self.tensors(case)

        def value_of(node: ast.expr) -> Value:
            if isinstance(node, ast.Name) and node.id in known:
                return Tensor(shape=known[node.id], dtype=case.dtypes[node.id])
            if isinstance(node, (ast.Tuple, ast.List)):
                kind = "tuple" if isinstance(node, ast.Tuple) else "list"
                return Sequence(kind, tuple(map(value_of, node.elts)))
            code = compile(ast.Expression(node), "<case>", "eval")
            return self.lift(eval(code, {**self.namespace, **tensors}))

        return value_of

    def lift(self, value: Any) -> Value:
        if isinstance(value, self.torch.Tensor):
            return Tensor(shape=tuple(value.shape), dtype=str(value.dtype).removeprefix("torch."))
        if isinstance(value, self.torch.dtype):
            return Dtype(str(value).removeprefix("torch."))
        if isinstance(value, (tuple, list)):
            return Sequence("list", tuple(self.lift(item) for item in cast("tuple[Any, ...]", value)))
        known = value is None or value is ... or isinstance(value, (int, float, complex, str))
        return Constant(value) if known else UNKNOWN

    def torch_call(self, node: ast.Call, value_of: Callable[[ast.expr], Value]) -> TorchCall:
        target, form, receiver, module = self.target(node.func, value_of)
        operands = (*receiver, *node.args)
        name = target.rpartition(".")[2]
        keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        return TorchCall(
            node=node,
            operation=name[:-1] if name.endswith("_") else name,
            target=target,
            form=form,
            operands=operands,
            values=tuple(map(value_of, operands)),
            keywords=keywords,
            keyword_values={key: value_of(value) for key, value in keywords.items()},
            signature=self.signature(target) if form == "function" else (),
            module=module,
            module_signature=self.signature(target) if form == "module" else (),
            inplace=name.endswith("_"),
        )

    def target(
        self, func: ast.expr, value_of: Callable[[ast.expr], Value]
    ) -> tuple[str, Form, tuple[ast.expr, ...], Object | None]:
        text = ast.unparse(func)
        if isinstance(func, ast.Call):
            name = ast.unparse(func.func).replace("nn.", "torch.nn.", 1)
            arguments = Arguments(
                tuple(map(value_of, func.args)), {k.arg: value_of(k.value) for k in func.keywords if k.arg}
            )
            return name, "module", (), Object(name, func, arguments)
        if re.match(r"(torch|F)\.[\w.]+$", text):
            return text.replace("F.", "torch.nn.functional.", 1) if text[0] == "F" else text, "function", (), None
        assert isinstance(func, ast.Attribute)
        return f"Tensor.{func.attr}", "method", (func.value,), None

    def signature(self, target: str) -> tuple[str, ...]:
        """Return the parameter names, where Python can tell."""
        found = self.torch
        for name in target.split(".")[1:]:
            found = getattr(found, name)
        try:
            return tuple(inspect.signature(found).parameters)
        except ValueError:
            return ()


@pytest.fixture(scope="session")
def bench() -> Bench:
    return Bench(pytest.importorskip("torch"))


def fits(told: Result, real: Any, symbols: Mapping[str, int]) -> bool:
    """Say whether what was told is true of the real shape."""
    if told is None:
        return True
    if real is None or isinstance(told, Outputs) != isinstance(real, Outputs) or len(told) != len(real):
        return False
    if isinstance(told, Outputs):
        return all(fits(a, b, symbols) for a, b in zip(told, real, strict=True))
    return all(
        size is None or (symbols[size] if isinstance(size, str) else size) == length
        for size, length in zip(told, real, strict=True)
    )


@pytest.fixture(scope="session")
def parse() -> Callable[[str], Case]:
    return Case.parse


@pytest.fixture(scope="session")
def is_true() -> Callable[[Result, Any, Mapping[str, int]], bool]:
    return fits
