"""The inputs of a run as a ``# dry-run:`` comment, to put above the function and to edit.

What the comment may name is what the file binds at top level. Names of the function, test or script that the inputs
come from are replaced by what they stand for; where that takes more than an expression, by a value like the one that
the run has seen, else by ``...``.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from drygrad.dryrun.aliases import assignments
from drygrad.dryrun.inputs.arguments import Argument
from drygrad.dryrun.inputs.classes import SAME_OBJECT
from drygrad.dryrun.inventions import is_invented, written
from drygrad.dryrun.names import bound_names, read_names
from drygrad.dryrun.plan import Plan
from drygrad.dryrun.result import Result
from drygrad.dryrun.sharing import Objects, Written, shared
from drygrad.dryrun.slicing import GIVEN, Bind, Imports, Step, steps_before
from drygrad.dryrun.wire import DTYPES
from drygrad.parsing import parsed, parsed_expression

BLANK = "..."
_WRITTEN = ("flag", "comment")
_TENSOR = re.compile(r"(?P<dtype>\w+) \[(?P<shape>[\d, ]*)\] on (?P<device>\w+)(:\d+)?")


def comment_text(plan: Plan, result: Result) -> str:
    """Return the comment; it has ``...`` for what the user must fill in."""
    if is_invented(plan):
        return f"# dry-run: {written(result)}"
    seen = {given.name: given.value for given in result.inputs}
    names = iter(_parameter_names(plan))
    texts = _Texts(plan)
    given: list[Written] = []
    for argument in (*([plan.receiver] if plan.receiver else ()), *plan.arguments):
        name = argument.star or argument.name or next(names, "_")
        if argument is plan.receiver:
            seen[name] = seen.get("self", "")
        given.append(Written(name, texts.of(argument)))
    parts = shared(given, texts.objects, texts.bound, receiver=plan.receiver is not None)
    texts_of = _apart(parts, {one.name: read_names(one.node) if one.node else set[str]() for one in given}, seen)
    return (
        f"# dry-run: {', '.join(name + text if name.startswith('*') else f'{name}={text}' for name, text in texts_of)}"
    )


def _apart(
    parts: Sequence[Written], read: Mapping[str, Set[str]], seen: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the inputs' names and texts, with another value where an earlier input hides what the text would read."""
    hidden: set[str] = set()
    for name, node in parts:
        text = _like(seen.get(name, "")) if node is None or read[name] & hidden else ast.unparse(node)
        hidden |= {name} if text != name else set()
        yield name, text


def _parameter_names(plan: Plan) -> Sequence[str]:
    function = plan.target.function
    positional = [*function.args.posonlyargs, *function.args.args] if function else []
    return [p.arg for p in positional if p.arg != plan.target.receiver]


def _like(value: str) -> str:
    """Return a value like the one that a run describes."""
    tensor = _TENSOR.fullmatch(value)
    if tensor is not None and tensor["dtype"] in DTYPES:
        shape = tuple(map(int, filter(None, tensor["shape"].split(", "))))
        return _tensor_like(tensor["dtype"], shape, tensor["device"])
    try:
        return repr(ast.literal_eval(value))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return BLANK


def _tensor_like(dtype: str, shape: tuple[int, ...], device: str) -> str:
    where = "" if device == "cpu" else f', device="{device}"'
    sizes = ", ".join(map(str, shape)) or "()"
    if dtype.startswith(("int", "uint")):
        kind = "" if dtype == "int64" else f", dtype=torch.{dtype}"
        return f"torch.randint(0, 2, {shape}{kind}{where})"
    if dtype == "bool":
        return f"torch.ones({sizes}, dtype=torch.bool{where})"
    return f"torch.randn({sizes}{'' if dtype == 'float32' else f', dtype=torch.{dtype}'}{where})"


class _Texts:
    """What the arguments of a plan stand for, in names that the target's file binds."""

    def __init__(self, plan: Plan) -> None:
        self._steps: Sequence[Step] = plan.elsewhere.steps if plan.elsewhere else plan.steps or ()
        top = steps_before(plan.source.tree.body, (), Imports(plan.source.tree))
        self.objects = Objects()
        self.bound = frozenset(_names_of(top))
        """What the target's file binds."""
        self._known: dict[str, ast.expr | None] = {}
        self._module: set[str] = set()
        """What another file calls the module of the target."""
        if plan.elsewhere is None:
            taken = {id(step) for step in self._steps}
            local = taken - {id(step) for step in top}
            elsewhere_bound = (s for s in (*top, *self._steps) if id(s) not in taken or id(s) in local)
            self._kept = _names_of(top) - _names_of(elsewhere_bound)
        else:
            self._kept = _names_of(top) & _imported_from(self._steps, plan.elsewhere.caller.module)
            self._called_otherwise(plan.elsewhere.caller.names, str(plan.target.qualname).partition(".")[0])
        for step in self._steps:
            self._follow(step)

    def _called_otherwise(self, names: Iterable[str], top: str) -> None:
        """Take note of what another file calls the definition at top level."""
        for name in names:
            module, _, last = name.rpartition(".")
            self._module |= {module} if module else set()
            self._kept |= {last} if last == top and not module else set()
            self._known |= {last: ast.Name(top, ast.Load())} if last != top and not module else {}

    def of(self, argument: Argument) -> ast.expr | None:
        """Return what makes an argument; None where an expression does not say it."""
        try:
            node = self._without_module(parsed_expression(argument.text.strip()))
        except SyntaxError:
            return None
        return node if argument.source in _WRITTEN else self._replaced(node)

    def _follow(self, step: Step) -> None:
        statement = parsed(f"{step.target} = {step.text}").body[0] if isinstance(step, Bind) else step
        if not isinstance(statement, ast.stmt):
            return
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            names = _torch_names(statement)
            self._known |= {name: names[name] for name in names.keys() - self._kept - self._known.keys()}
            return
        pairs = [(t.id, self._replaced(v)) for t, v in assignments(statement) if isinstance(t, ast.Name)]
        self._known |= dict.fromkeys(bound_names(statement))
        self._known |= dict(pairs)
        for name, made in pairs:
            if made is not None:
                self.objects.named(made, name)
        if not pairs:
            self._change(statement)

    def _change(self, statement: ast.stmt) -> None:
        """Take note of a statement that changes objects: ``net.eval()`` can be said in an expression."""
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) as call) if (
                method in SAME_OBJECT and (made := self._known.get(name)) is not None
            ):
                changed = ast.Call(ast.Attribute(made, method, ast.Load()), call.args, call.keywords)
                self._known[name] = changed
                self.objects.changed(made, changed, name)
            case _:
                self._known |= {name: None for name in read_names(statement) if not _is_module(self._known.get(name))}

    def _replaced(self, node: ast.expr) -> ast.expr | None:
        """Return an expression without the names that are not kept; None where one stands for more than that."""
        node = self._without_module(copy.deepcopy(node))
        names = read_names(node) - self._kept - GIVEN - {"torch"}
        if any(self._known.get(name) is None for name in names):
            return None
        return _Replacing({name: self._known[name] for name in names}).visit(node)

    def _without_module(self, node: ast.expr) -> ast.expr:
        """Return an expression in which ``model.Net`` is ``Net``, where that is the module of the target."""
        return _Unqualified(self._module, self._kept).visit(node) if self._module else node


class _Replacing(ast.NodeTransformer):
    def __init__(self, known: Mapping[str, ast.expr | None]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._known.get(node.id) or node


class _Unqualified(ast.NodeTransformer):
    def __init__(self, modules: Set[str], kept: set[str]) -> None:
        self._modules, self._kept = modules, kept

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if ast.unparse(node.value) not in self._modules:
            return self.generic_visit(node)
        self._kept.add(node.attr)
        return ast.Name(node.attr, ast.Load())


def _names_of(steps: Iterable[Step]) -> set[str]:
    found: set[str] = set()
    for step in steps:
        if isinstance(step, Bind):
            found |= bound_names(parsed(f"{step.target} = 0"))
        elif isinstance(step, ast.stmt):
            found |= bound_names(step)
    return found


def _imported_from(steps: Iterable[Step], module: str) -> set[str]:
    """Return the names that statements import from a module under the names that they have there."""
    last = module.rpartition(".")[2]
    nodes = (s for s in steps if isinstance(s, ast.ImportFrom))
    nodes = (s for s in nodes if s.module == module or (s.level and (s.module or "").rpartition(".")[2] == last))
    return {alias.name for node in nodes for alias in node.names if alias.asname in (None, alias.name)}


def _torch_names(statement: ast.Import | ast.ImportFrom) -> dict[str, ast.expr | None]:
    """Return the names that an import binds: those of torch by their full names, others by nothing."""
    imports = Imports(ast.Module([statement], []))
    found: dict[str, ast.expr | None] = {}
    for name in bound_names(statement):
        full = imports.full_name(ast.Name(name, ast.Load()))
        found[name] = parsed_expression(full) if full.partition(".")[0] == "torch" else None
    return found


def _is_module(node: ast.expr | None) -> bool:
    """Say whether an expression is a name of torch's: no statement changes what it stands for."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "torch"
