"""What pytest and unittest give a test before it runs: fixtures, a set of parameters, its object and ``setUp``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.inputs.arguments import FunctionNode
from drygrad.dryrun.inputs.classes import Scope
from drygrad.dryrun.inputs.fixtures import fixtures_in, given_by, keyword_of
from drygrad.dryrun.names import bound_names
from drygrad.dryrun.slicing import Bind, Step
from drygrad.parsing import parsed

_SETUPS = ("setUpClass", "setup_class", "setUp", "setup_method")
_BUILT_IN = {"tmp_path": "__import__('pathlib').Path('dry-run.tmp')"}
_DEPTH = 4


class Unknown(Exception):
    """A test takes something that nothing in its file gives."""


class TestRunner:
    """The tests of a file, and the fixtures that they take."""

    def __init__(self, tree: ast.Module) -> None:
        self._fixtures = fixtures_in(tree)

    def is_fixture(self, step: Step) -> bool:
        """Say whether a statement defines a fixture; nobody but pytest may call it."""
        return any(step is node for node in self._fixtures.values())

    def steps_to(self, scope: Scope) -> list[Step] | None:
        """Return the steps that bind the parameters of a test; None for what is no test, or takes what is unknown."""
        function = scope.function
        if function is None or not function.name.startswith("test"):
            return None
        try:
            groups = [*self._givers(scope, function)]
        except Unknown:
            return None
        bound = [name for group in groups for name in {name for step in group for name in _local_names(step)}]
        return [step for group in groups for step in group] if len(bound) == len({*bound}) else None

    def _givers(self, scope: Scope, function: FunctionNode) -> Iterator[list[Step]]:
        """Yield the steps of each thing that gives something; their local names must not meet."""
        parameters = [p.arg for p in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
        if scope.owner is not None and parameters:
            yield [*_object(parameters.pop(0), scope.owner)]
        sets = [*_parameter_sets(function), *(_parameter_sets(scope.owner) if scope.owner else ())]
        yield [*sets]
        named = {name for bind in sets for name in _local_names(bind)}
        made: dict[str, list[Step]] = {}
        for name in parameters:
            if name not in named:
                self._make(name, made)
        yield from made.values()

    def _make(self, name: str, made: dict[str, list[Step]], depth: int = 0) -> None:
        """Add the steps of a fixture, those that it takes before it."""
        fixture = self._fixtures.get(name)
        if name in made:
            return
        if fixture is None and name in _BUILT_IN:
            made[name] = [Bind(name, _BUILT_IN[name], _PLACE)]
            return
        if fixture is None or depth > _DEPTH:
            raise Unknown(name)
        for parameter in fixture.args.args:
            if parameter.arg != "request":
                self._make(parameter.arg, made, depth + 1)
        made[name] = [*_request(fixture), *_made_by(fixture, name)]


def _made_by(fixture: FunctionNode, name: str) -> Iterator[Step]:
    for statement in fixture.body:
        value = given_by(statement)
        if value is not None:
            text = ast.unparse(value)
            yield from [Bind(name, text, value)] if text != name else []
            return
        yield statement
    raise Unknown(name)


_PLACE = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
"""Where what the test runner itself makes is said to stand."""


def _request(fixture: FunctionNode) -> Iterator[Step]:
    """Yield the first parameter of a fixture that has some, as it asks for it."""
    values = next((v for d in fixture.decorator_list if (v := keyword_of(d, "params")) is not None), None)
    if values is not None:
        yield Bind("request", f"__import__('types').SimpleNamespace(param={_first_of(values)})", values)


def _object(name: str, owner: ast.ClassDef) -> Iterator[Step]:
    """Yield the object of a test's class, and what its ``setUp`` does to it."""
    yield Bind(name, f"{owner.name}()", owner)
    methods = {s.name: s for s in owner.body if isinstance(s, ast.FunctionDef)}
    for setup in (methods[s] for s in _SETUPS if s in methods):
        own = setup.args.args[0].arg if setup.args.args else name
        yield from [Bind(own, name, setup)] if own != name else []
        yield from setup.body


def _parameter_sets(node: FunctionNode | ast.ClassDef) -> Iterator[Bind]:
    """Yield the first set of each ``parametrize``."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("parametrize"):
            names = decorator.args[0] if decorator.args else keyword_of(decorator, "argnames")
            values = decorator.args[1] if len(decorator.args) > 1 else keyword_of(decorator, "argvalues")
            target = _names_in(names)
            if target and values is not None:
                yield Bind(target, _first_of(values), values)


def _names_in(node: ast.expr | None) -> str:
    """Return the names of parameters, written as a text or a list of texts, as the target of an assignment."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.strip().rstrip(",")
    if isinstance(node, (ast.List, ast.Tuple)) and all(isinstance(e, ast.Constant) for e in node.elts):
        return "".join(f"{e.value}, " for e in node.elts if isinstance(e, ast.Constant)).strip()
    return ""


def _first_of(values: ast.expr) -> str:
    """Return the first of several values as a text."""
    if not isinstance(values, (ast.List, ast.Tuple)) or not values.elts or isinstance(values.elts[0], ast.Starred):
        return f"next(iter({ast.unparse(values)}))"
    first = values.elts[0]
    if isinstance(first, ast.Call) and ast.unparse(first.func).rpartition(".")[2] == "param":
        texts = [ast.unparse(argument) for argument in first.args]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
    return ast.unparse(first)


def is_left_out(scope: Scope) -> bool:
    """Say whether a test is skipped or expected to fail."""
    nodes = (scope.function, scope.owner)
    written = [ast.unparse(d).lower() for node in nodes if node is not None for d in node.decorator_list]
    return any("skip" in text or "xfail" in text or "expectedfailure" in text for text in written)


def _local_names(step: Step) -> set[str]:
    if isinstance(step, Bind):
        return bound_names(parsed(f"{step.target} = 0"))
    return bound_names(step) if isinstance(step, ast.stmt) else set()
