"""Rule DG608: a tensor that is grown by concatenation, one piece at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant, TorchCall
from drygrad.static.loops import repeats
from drygrad.static.rules.speed.gathering import gathered
from drygrad.static.syntax import assigned_in, bound_names
from drygrad.static.tree import walk

_CONCATENATES = frozenset({"cat", "hstack", "vstack", "dstack", "column_stack", "row_stack"})
_FEW = 16
_OF_THE_FORM = frozenset({"shape", "size", "numel", "dim", "ndim", "device", "dtype", "new_zeros"})


class ConcatenationInLoop(Rule):
    """
    ## What it does
    Finds `x = torch.cat([x, piece])` in a loop that does not read `x` otherwise.

    ## Why is this bad?
    Every iteration copies everything collected so far: the time grows quadratically with the number of pieces, and two
    full copies are in memory at once. Append the pieces to a list and call `torch.cat` once after the loop.

    ## Example
    ```python
    outputs = torch.empty(0, 10)
    with torch.no_grad():
        for x in loader:
            outputs = torch.cat([outputs, model(x)])
    ```
    Use instead:
    ```python
    outputs = []
    with torch.no_grad():
        for x in loader:
            outputs.append(model(x))
    outputs = torch.cat(outputs)
    ```

    ## Fix safety
    Unsafe: the list holds the pieces themselves, so if one is modified later, in a way that the source does not show,
    the result changes.
    """

    code, name, since = "DG608", "concatenation-in-loop", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            def once(x, loader):
                for batch in loader:
                    x = torch.cat([x, batch])
                    break
                return x
            """
        ),
        Valid(
            """
            def collect(model, loader):
                outputs = []
                for x in loader:
                    outputs.append(model(x))
                return torch.cat(outputs)
            """
        ),
        Valid(
            """
            @torch.no_grad()
            def generate(model, tokens, steps):
                for _ in range(steps):
                    next_token = model(tokens)[:, -1].argmax(-1, keepdim=True)
                    tokens = torch.cat([tokens, next_token], dim=1)
                return tokens
            """
        ),
        Valid(
            """
            def dense(x, blocks):
                for _ in range(4):
                    x = torch.cat([x, x.new_ones(2, 1)], dim=1)
                return x
            """
        ),
        Valid(
            """
            def padded(x, dims):
                for dim in dims:
                    sizes = list(x.shape)
                    sizes[dim] = 1
                    x = torch.cat([x, x.new_zeros(sizes)], dim=dim)
                return x
            """
        ),
        Valid(
            """
            def per_batch(batches):
                for pieces in batches:
                    joined = pieces[0]
                    joined = torch.cat([joined, pieces[1]])
                    print(joined.mean())
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def collect(model, loader):
                outputs = torch.empty(0, 10)
                for x in loader:
                    outputs = torch.cat([outputs, model(x)])
                return outputs
            """,
            """
            def collect(model, loader):
                outputs = [torch.empty(0, 10)]
                for x in loader:
                    outputs.append(model(x))
                outputs = torch.cat(outputs)
                return outputs
            """,
            at=(4, 18, 4, 48),
        ),
        Invalid(
            """
            def collect(model, loader):
                outputs = None
                for x in loader:
                    y = model(x)
                    if outputs is None:
                        outputs = y
                    else:
                        outputs = torch.cat((outputs, y), dim=0)
                return outputs
            """,
            """
            def collect(model, loader):
                outputs = []
                for x in loader:
                    y = model(x)
                    outputs.append(y)
                outputs = torch.cat(outputs, dim=0) if outputs else None
                return outputs
            """,
        ),
        Invalid(
            """
            def collect(model, batches, names):
                outputs = torch.empty(0, 10)
                with torch.no_grad():
                    for batch in batches:
                        for x, y in batch:
                            outputs = torch.hstack([outputs, model(x), y])
                    print(outputs.shape)
                return outputs
            """,
            """
            def collect(model, batches, names):
                outputs = [torch.empty(0, 10)]
                with torch.no_grad():
                    for batch in batches:
                        for x, y in batch:
                            outputs.extend((model(x), y))
                    outputs = torch.hstack(outputs)
                    print(outputs.shape)
                return outputs
            """,
        ),
        Invalid(
            """
            def trajectory(x, v, steps):
                path = x.unsqueeze(0)
                for _ in range(steps):
                    x += v
                    path = torch.cat([path, x.unsqueeze(0)])
                return path
            """,
        ),
        Invalid(
            """
            def trajectory(x, v, steps):
                path = x.unsqueeze(0)
                x.add_(v)
                for _ in range(steps):
                    path = torch.cat([path, v.exp().unsqueeze(0)])
                return path
            """,
        ),
        Invalid(
            """
            def collect(model, loader, save):
                outputs = torch.empty(0, 10)
                if save:
                    for x in loader:
                        outputs = torch.cat([outputs, model(x)])
                return outputs
            """,
        ),
        Invalid(
            """
            def collect(model, loader, most):
                outputs = torch.empty(0, 10)
                for x in loader:
                    outputs = torch.cat([outputs, model(x)])
                    if len(outputs) > most:
                        break
                return outputs
            """,
        ),
        Invalid(
            """
            def collect(model, loader):
                outputs = torch.empty(0, 10)
                for x in loader:
                    outputs = torch.cat([model(x), outputs])
                return outputs
            """,
        ),
        Invalid(
            """
            def collect(model, loader):
                outputs = torch.empty(0, 10)
                for x in loader:
                    try:
                        outputs = torch.cat([outputs, model(x)])
                    except RuntimeError:
                        pass
                return outputs
            """,
        ),
        Invalid(
            """
            @torch.jit.script
            def collect(x: torch.Tensor, count: int):
                outputs = torch.empty(0, 10)
                for i in range(count):
                    outputs = torch.cat([outputs, x[i]])
                return outputs
            """,
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        name = dotted_text(node.targets[0]) if len(node.targets) == 1 else None
        call = ctx.call(node.value)
        if name is None or call is None or call.operation not in _CONCATENATES or not call.operands:
            return
        pieces = call.operands[0]
        loop = next(iter(ctx.loops(node)), None)
        if loop is None or not isinstance(pieces, (ast.List, ast.Tuple)) or name not in map(dotted_text, pieces.elts):
            return
        if len(pieces.elts) < 2 or _turns_are_few(loop, ctx) or _dimension_changes(call, loop):
            return
        if _is_used(name, node, loop, ctx):
            return
        message = f"every iteration copies all of {name} collected so far; append to a list and concatenate once"
        yield ctx.finding(self, node.value, message, fixes=[gathered(node, call, ctx)])


def _turns_are_few(loop: Loop, ctx: Context) -> bool:
    """Say whether a loop's turns are counted, and are few."""
    if not repeats(loop):
        return True
    match loop:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[*_, stop])):
            turns = ctx.value(stop)
            return isinstance(turns, Constant) and isinstance(turns.value, int) and turns.value <= _FEW
        case ast.For(iter=ast.List() | ast.Tuple()):
            return True
        case _:
            return False


def _dimension_changes(call: TorchCall, loop: Loop) -> bool:
    """Say whether the turns join along different dimensions, which no single call does."""
    dimension = call.operand("dim")
    names = set[str]() if dimension is None else {n.id for n in walk(dimension) if isinstance(n, ast.Name)}
    return bool(names & bound_names(loop))


def _is_used(name: str, node: ast.Assign, loop: Loop, ctx: Context) -> bool:
    """Say whether the loop does anything else with the whole, or begins it anew in each turn."""
    for bound, statement in assigned_in(loop):
        if bound == name and statement is not node and not _begins(name, statement, ctx):
            return True
    parts = [loop.test, *loop.body] if isinstance(loop, ast.While) else loop.body
    for part in parts:
        for use in walk(part):
            if isinstance(use, (ast.Name, ast.Attribute)) and dotted_text(use) == name and _reads(use, node, ctx):
                return True
    return False


def _begins(name: str, statement: ast.stmt, ctx: Context) -> bool:
    """Say whether a statement gives the name its first piece: under a test of whether there is none yet."""
    return any(isinstance(a, ast.If) and _asks_for(name, a.test) for a in ctx.ancestors(statement))


def _asks_for(name: str, test: ast.expr) -> bool:
    return any(isinstance(part, (ast.Name, ast.Attribute)) and dotted_text(part) == name for part in walk(test))


def _reads(use: ast.Name | ast.Attribute, node: ast.Assign, ctx: Context) -> bool:
    """Say whether a use reads the elements: not merely the shape, nor whether there is a tensor at all."""
    if not isinstance(use.ctx, ast.Load) or any(a is node for a in ctx.ancestors(use)):
        return False
    match ctx.parent(use):
        case ast.Attribute(attr=attribute) if attribute in _OF_THE_FORM:
            return False
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return False
        case ast.Call(func=ast.Name(id="len")):
            return False
        case _:
            return True
