"""Which statements must run before a call: a backward slice over the statements on the way to it.

The way to a call is a list of steps: statements, and what opening an enclosing block amounts to (a loop binds its
variables to the first item, a ``with`` enters its context). A step is taken if it binds a name that is needed, changes
an object that is needed (``model.eval()``, ``x[0] = 1``), whatever it is called there, or sets what all of a program
depends on (seeds, ``torch.set_*``, ``sys.path``). What a function reads when it is called is needed, too, wherever it
was bound last.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from drygrad.dryrun.aliases import Affected, affected_before, assignments, origin
from drygrad.dryrun.filling import Fillers, calls_filler, filled_by
from drygrad.dryrun.names import blocks, bound_names, late_names, needed_names, read_names
from drygrad.dryrun.registering import Registries
from drygrad.dryrun.setting import Setters, called_names, is_placeholder, set_directly, setters_of
from drygrad.parsing import parsed, parsed_expression
from drygrad.static.source import Located
from drygrad.static.toplevel import is_main_block

GIVEN = frozenset((*dir(builtins), "__file__", "__name__", "__doc__", "__builtins__", "__spec__", "__package__"))
"""Names that every module has."""

_SETTING = re.compile(
    r"torch\.set_\w+|torch\.(use_deterministic_algorithms|cuda\.set_\w+|autograd\.set_\w+|multiprocessing\.set_\w+)"
    r"|torch\.backends\..+|sys\.path\b.*|os\.environ\b.*|warnings\.(filterwarnings|simplefilter)|([\w.]+[._])?seed\w*"
)
_IDLE_METHODS = frozenset(
    "step backward zero_grad fit save close show write flush log info debug warning error summary plot savefig".split()
)
"""Methods that a caller calls for their effect elsewhere: they build nothing that an argument is made of."""


_CHANGING = frozenset(
    "setattr delattr shuffle fully_shard replicate parallelize_module register_parametrization weight_norm "
    "spectral_norm l1_unstructured random_unstructured ln_structured global_unstructured remove_parametrizations "
    "apply_activation_checkpointing".split()
)
"""Functions that change the objects that they are given."""
_WRITING = frozenset(("save", "dump"))
"""Functions that write their first argument into the second: a buffer that is read later."""
_BUILTINS = frozenset(dir(builtins))
_WITHOUT_TRACE = (_IDLE_METHODS - {"fit"}) | frozenset(
    "train eval to cuda cpu parameters named_parameters modules children buffers state_dict forward size dim item "
    "detach numpy keys values items format join mean sum".split()
)
"""Methods that leave an object as it was, as far as a later call of another method could tell."""


@dataclass(frozen=True)
class Bind:
    """Names that get a value without a statement of the text: the first item of a loop, arguments of a call."""

    target: str
    text: str
    node: Located


@dataclass(frozen=True)
class Enter:
    """A context that the call runs in. ``always`` is False where only its ``as`` name could be needed."""

    text: str
    name: str | None
    node: Located
    always: bool


Step: TypeAlias = ast.stmt | Bind | Enter


@dataclass(frozen=True)
class Slice:
    """The steps to take, in order, the needed names that none of them binds, and what functions will read later.

    It is ``partial`` where a step is left out that may have changed what is needed: a loop that fills a list, and for
    want of its ``surroundings`` where that is a call of a function that sets a global which is read later.
    """

    steps: tuple[Step, ...]
    unresolved: tuple[str, ...] = ()
    late: frozenset[str] = frozenset()
    partial: bool = False
    surroundings: bool = True


class Imports:
    """What the imports of a module call their names in full."""

    def __init__(self, tree: ast.Module) -> None:
        self._full: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._full |= {
                    a.asname or a.name.partition(".")[0]: a.name if a.asname else a.name.partition(".")[0]
                    for a in node.names
                }
            elif isinstance(node, ast.ImportFrom):
                self._full |= {a.asname or a.name: f"{node.module or ''}.{a.name}" for a in node.names}

    def full_name(self, node: ast.expr) -> str:
        """Return the dotted name of an expression, through imports; empty if it is none."""
        if isinstance(node, ast.Name):
            return self._full.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.full_name(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""


def reads_gradients(function: ast.AST | None) -> bool:
    """Say whether a function reads or clips gradients that it has not computed itself."""
    used = {n.attr for n in ast.walk(function) if isinstance(n, ast.Attribute)} if function is not None else set[str]()
    return "backward" not in used and any(name == "grad" or name.startswith("clip_grad_") for name in used)


def steps_before(body: Sequence[ast.stmt], way: Sequence[ast.stmt], imports: Imports) -> list[Step]:
    """Return the steps from the beginning of a block to the last statement of ``way``, that one left out.

    ``way`` are the statements around the call, from the outermost; empty: all of the block, main blocks opened.
    """
    steps: list[Step] = []
    for statement in body:
        if way and statement is way[0]:
            if len(way) > 1:
                block = next(b for b in blocks(statement) if way[1] in b)
                steps += _opened(statement, imports)
                steps += steps_before(block, way[1:], imports)
            return steps
        steps += statement.body if isinstance(statement, ast.If) and is_main_block(statement) else [statement]
    return steps


def _opened(statement: ast.stmt, imports: Imports) -> Iterator[Step]:
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        text = f"next(iter({ast.unparse(statement.iter)}))"
        yield Bind(ast.unparse(statement.target), text, statement.iter)
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        for item in statement.items:
            context = item.context_expr
            called = imports.full_name(context.func if isinstance(context, ast.Call) else context)
            name = ast.unparse(item.optional_vars) if item.optional_vars else None
            always = called.startswith("torch.") and "profil" not in called
            yield Enter(ast.unparse(context), name, context, always)


def backward_slice(
    steps: Sequence[Step], wanted: Iterable[str], called: Iterable[str], imports: Imports, *, gradients: bool = False
) -> Slice:
    """Return the steps that must be taken so that the names ``wanted`` can be read after them.

    ``called`` are names that a function will read later: they are taken if they are there, and not missed if not.
    ``gradients`` are wanted, too, where a function reads what an earlier ``backward()`` has left on its parameters.
    """
    fillers = {s.name: parameters for s in steps if isinstance(s, ast.FunctionDef) and (parameters := filled_by(s))}
    statements = [step for step in steps if isinstance(step, ast.stmt)]
    setters = setters_of(statements)
    registries = Registries(statements)
    facts = [_Facts(step, imports, fillers, setters, registries) for step in steps]
    for fact, affected in zip(facts, affected_before(fact.parsed for fact in facts), strict=True):
        fact.affected = affected
    wanted, late = set(wanted), set(called)
    globals_ = _globals_of(facts, [sets for name, sets in set_directly(statements).items() if name not in wanted])
    fixed = {name for fact in facts if fact.is_declaration for name in fact.binds}
    while True:
        passed = _pass(facts, wanted, late, fixed, globals_, gradients=gradients)
        if passed.late <= late:
            break
        late |= passed.late
    bound = {name for fact in facts for name in fact.binds} | GIVEN
    from_anywhere = any(fact.is_star_import for fact in facts)
    unresolved = () if from_anywhere else tuple(sorted(passed.asked - bound))
    unset = not passed.unset.isdisjoint(late)
    return Slice(passed.steps, unresolved, frozenset(late), passed.left or unset, not unset)


class _Passed(NamedTuple):
    """What a pass backward has come to."""

    steps: tuple[Step, ...]
    asked: set[str]
    """Every name that was wanted at once."""
    late: set[str]
    """Those that functions will read."""
    left: bool
    """Whether a step was left out that may have changed what is needed."""
    unset: set[str]
    """The globals that functions set, and none that was called."""


def _pass(
    facts: Sequence[_Facts], wanted: set[str], late: set[str], fixed: set[str], globals_: _Globals, *, gradients: bool
) -> _Passed:
    """Go backward once."""
    needed, asked, more = wanted | late, set(wanted), set[str]()
    taken: list[Step] = []
    left = False
    unset = set(globals_.settable)
    for fact in reversed(facts):
        makes_gradients = gradients and fact.is_backward
        is_needed = fact.binds & needed or fact.sets & globals_.waiting & needed or fact.changed(needed, fixed)
        if not (fact.is_always_taken or makes_gradients or is_needed):
            left = left or fact.may_change(needed - fixed)
            continue
        taken.append(fact.step)
        unset -= fact.sets
        left = left or makes_gradients  # one backward pass may be one of many that the program runs
        if fact.surely_binds:
            needed -= fact.binds - late
        needed |= fact.reads
        asked |= fact.reads
        more |= fact.late
    return _Passed(tuple(taken[::-1]), asked, more, left, unset)


class _Globals(NamedTuple):
    """Module globals that functions set: all that others than the target do, and those that wait for it."""

    settable: frozenset[str]
    waiting: frozenset[str]


def _globals_of(facts: Sequence[_Facts], sets: Iterable[frozenset[str]]) -> _Globals:
    settable = frozenset[str]().union(*sets)
    given: set[str] = set()
    for fact in facts:
        step = fact.parsed
        value = step.value if isinstance(step, (ast.Assign, ast.AnnAssign)) else step
        if not (isinstance(value, ast.expr) and is_placeholder(value)) and not fact.is_declaration:
            given |= fact.binds
    return _Globals(settable, settable - given)


class _Facts:
    """What a step reads, binds and changes."""

    def __init__(
        self, step: Step, imports: Imports, fillers: Fillers, setters: Setters, registries: Registries
    ) -> None:
        self.step = step
        self._registries = registries
        self._fillers = fillers
        self._setters = setters
        self.affected: Affected = {}
        """Whose objects change with another name's, before the step."""
        self._imports = imports

    @cached_property
    def parsed(self) -> ast.stmt:
        if isinstance(self.step, Bind):
            return parsed(f"{self.step.target} = {self.step.text}").body[0]
        if isinstance(self.step, Enter):
            name = f"{self.step.name} = " if self.step.name else ""
            return parsed(f"{name}{self.step.text}").body[0]
        return self.step

    @cached_property
    def binds(self) -> set[str]:
        return bound_names(self.parsed)

    @cached_property
    def reads(self) -> set[str]:
        return needed_names(self.parsed)

    @cached_property
    def late(self) -> set[str]:
        return late_names(self.parsed)

    @cached_property
    def surely_binds(self) -> bool:
        return not isinstance(self.parsed, (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match))

    @cached_property
    def sets(self) -> frozenset[str]:
        """The globals that the functions set that the step calls."""
        called = called_names(self.parsed) if self._setters and not self.is_declaration else ()
        return frozenset[str]().union(*(self._setters.get(name, ()) for name in called))

    @property
    def is_declaration(self) -> bool:
        kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return isinstance(self.step, kinds)

    @property
    def is_star_import(self) -> bool:
        return isinstance(self.step, ast.ImportFrom) and self.step.names[0].name == "*"

    @property
    def is_always_taken(self) -> bool:
        if isinstance(self.step, Enter):
            return self.step.always
        future = isinstance(self.step, ast.ImportFrom) and self.step.module == "__future__"
        return future or self.is_star_import or self._is_setting()

    @property
    def is_backward(self) -> bool:
        match self.step:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="backward"))):
                return True
            case _:
                return False

    def _is_setting(self) -> bool:
        step = self.step
        if isinstance(step, ast.Expr) and isinstance(step.value, ast.Call):
            return _SETTING.fullmatch(self._imports.full_name(step.value.func)) is not None
        if isinstance(step, (ast.Assign, ast.AugAssign)):
            targets = step.targets if isinstance(step, ast.Assign) else [step.target]
            places = [t.value if isinstance(t, ast.Subscript) else t for t in targets]
            named = [p for p in places if not isinstance(p, ast.Name)] or [
                t.value for t in targets if isinstance(t, ast.Subscript)
            ]
            return any(_SETTING.fullmatch(self._imports.full_name(place)) for place in named)
        return False

    def may_change(self, needed: set[str]) -> bool:
        """Say whether the step somewhere has a needed object do something that may leave a trace in it.

        That is a method, or a function that is called for what it does to its arguments: ``fill(buffer)``.
        """
        if self.is_declaration or not isinstance(self.step, ast.stmt):
            return False
        match self.step:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=given)) if name not in _BUILTINS:
                if any(_root(argument) in needed for argument in given):
                    return True
            case _:
                pass
        return any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr not in _WITHOUT_TRACE
            and isinstance(node.func.value, (ast.Name, ast.Attribute, ast.Subscript))
            and _root(node.func) in needed
            for node in ast.walk(self.step)
        )

    def changed(self, needed: set[str], fixed: set[str]) -> bool:
        """Say whether the step changes one of the needed objects; what is imported or defined is only assigned to."""
        if not isinstance(self.step, ast.stmt):
            return False
        if self._registries.makes_known(self.step, needed):
            return True
        alike = {name for name, others in self.affected.items() if not others.isdisjoint(needed)}
        return _changes(self.step, needed | alike, (needed | alike) - fixed, self._fillers)


def _changes(statement: ast.stmt, assigned: set[str], called: set[str], fillers: Fillers) -> bool:
    """Say whether a statement changes an object by assignment, or by a call of its method or of an in-place function.

    A block does if all it does is change objects that are needed or come from them: layers frozen in a loop.
    """
    if isinstance(statement, (ast.For, ast.With)):
        inner = (
            bound_names(statement.target)
            if isinstance(statement, ast.For) and _root(statement.iter) in called
            else set[str]()
        )
        return _body_changes(statement.body, assigned | inner, called | inner, fillers)
    if isinstance(statement, ast.If):
        return all(_changes(inside, assigned, called, fillers) for inside in (*statement.body, *statement.orelse))
    if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
        targets = statement.targets if isinstance(statement, (ast.Assign, ast.Delete)) else [statement.target]
        rebinds = not isinstance(statement, ast.AugAssign)
        targets = [inner for target in targets for inner in _unpacked(target)]
        return any(not (rebinds and isinstance(t, ast.Name)) and _root(t) in assigned for t in targets)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _call_changes(statement.value, called) or calls_filler(statement.value, called, fillers)
    return False


def _unpacked(target: ast.expr) -> Iterator[ast.expr]:
    """Yield what an assignment assigns to: of ``self.a, self.b = ...`` both."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _unpacked(element)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


def _body_changes(body: Sequence[ast.stmt], assigned: set[str], called: set[str], fillers: Fillers) -> bool:
    """Say whether all that a loop's body does is change objects, or give them other names."""
    changes = False
    for statement in body:
        if _changes(statement, assigned, called, fillers):
            changes = True
            continue
        origins = [origin(value) for _, value in assignments(statement)]
        if not origins or any(found is None or found[0] not in called for found in origins):
            return False
        names = bound_names(statement)
        assigned, called = assigned | names, called | names
    return changes


def _call_changes(call: ast.Call, needed: set[str]) -> bool:
    function = call.func
    if isinstance(function, ast.Name) and function.id in needed:
        return True  # an object is called for its effect alone: a lazy module gets its shapes
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if isinstance(function, ast.Attribute) and _root(function) in needed:
        return name not in _IDLE_METHODS
    if name in _WRITING:
        return len(call.args) > 1 and _root(call.args[1]) in needed
    in_place = (name.endswith("_") and not name.startswith("_")) or name in _CHANGING
    return in_place and any(_root(argument) in needed for argument in call.args)


def _root(node: ast.AST) -> str | None:
    """Return the name that an expression begins with: ``model`` for ``model.layers[0].weight``."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def free_of_text(text: str) -> set[str]:
    """Return the names that an expression's text reads; none where it does not parse."""
    try:
        return read_names(parsed_expression(text.strip()))
    except (SyntaxError, ValueError):
        return set()


def bound_by_text(text: str) -> set[str]:
    """Return the names that an expression's text binds, as ``(net := Net())`` does; none where it does not parse."""
    try:
        return bound_names(parsed_expression(text.strip()))
    except (SyntaxError, ValueError):
        return set()


def place_of(node: Located) -> tuple[int, int]:
    """Return line (from 1) and column (from 0, in UTF-8 bytes) of a node, as ``ast`` counts."""
    return node.lineno, node.col_offset
