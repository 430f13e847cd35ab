"""Rule DG607: a Python loop over the elements of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Severity, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Reference, Tensor
from drygrad.static.rules.speed.at_once import counted, masked, reduced
from drygrad.static.syntax import bound_names
from drygrad.static.tree import walk

_FLAT = frozenset({"flatten", "ravel", "masked_select"})
_SHORT = frozenset("unique randperm arange linspace nonzero cumsum sort topk".split())
"""Operations whose result is gone through on purpose: few elements, or an order."""
_KEEPS_FORM = frozenset({"to", "cpu", "cuda", "long", "int", "float", "clone", "detach", "contiguous", "byte"})
_GOES_THROUGH = {"sum": "x.sum()", "max": "x.max()", "min": "x.min()", "sorted": "x.sort()", "any": "x.any()"}
_NUMBERS = frozenset({"int", "float", "bool", "round"})


class LoopOverElements(Rule):
    """
    ## What it does
    Finds `for` loops over the elements of a tensor that use each as an index or convert it to a number (also `for i in
    range(n)` with `lengths[i].item()`), Python's `sum`, `max` or `sorted` on a tensor, nested loops over ranges that
    write one tensor element per iteration, and loops that fill the rows of a mask up to a length
    (`mask[i, : lengths[i]] = 1`).

    ## Why is this bad?
    Each iteration creates zero-dimensional tensors and runs operations on single elements: a few microseconds each,
    thousands of times slower than one operation on the whole tensor. On a GPU each iteration launches kernels, and
    synchronizes where the element becomes a number or an index.

    ## Example
    ```python
    def confusion(target: torch.Tensor, prediction: torch.Tensor, classes: int):
        matrix = torch.zeros(classes, classes, device=target.device)
        for t, p in zip(target.flatten(), prediction.flatten()):
            matrix[t, p] += 1
        return matrix
    ```
    Use instead:
    ```python
    def confusion(target: torch.Tensor, prediction: torch.Tensor, classes: int):
        index = target.flatten() * classes + prediction.flatten()
        return torch.bincount(index, minlength=classes**2).view(classes, classes)
    ```
    Where the numbers are needed one by one, `tensor.tolist()` gets them all at once. A mask of lengths is
    `torch.arange(longest) < lengths[:, None]`.

    ## Fix safety
    Unsafe: the tensors must have the same length, lengths must not be negative, and a sum of floats is rounded
    differently.
    """

    code, name, since = "DG607", "loop-over-elements", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            def cut(x: torch.Tensor, lengths: torch.Tensor):
                lengths = lengths.tolist()
                return [x[i, : lengths[i]].mean() for i in range(len(lengths))]
            """
        ),
        Valid(
            """
            def decode(model, steps):
                tokens = torch.zeros(steps, dtype=torch.long, device="cuda")
                for i in range(1, steps):
                    tokens[i] = model(tokens[:i], tokens[i - 1].item())
                return tokens
            """
        ),
        Valid(
            """
            def report(losses: torch.Tensor):
                for i in range(3):
                    print(losses[i].item())
            """
        ),
        Valid(
            """
            def accumulate(matrix, target: torch.Tensor, prediction: torch.Tensor):
                for t, p in zip(target.flatten().tolist(), prediction.flatten().tolist()):
                    matrix[t][p] += 1
            """
        ),
        Valid(
            """
            def rows(x: torch.Tensor):
                return [row.mean() for row in x]
            """
        ),
        Valid(
            """
            def per_class(target: torch.Tensor, counts):
                for label in target.unique():
                    counts[int(label)] = (target == label).sum()
            """
        ),
        Valid(
            """
            def losses(outputs: torch.Tensor, model):
                total = 0
                for loss in outputs.flatten():
                    total = total + model(loss)
                return total
            """
        ),
        Valid(
            """
            def table(names):
                grid = torch.zeros(2, 2)
                for i in range(2):
                    for j in range(2):
                        grid[i, j] = names[i] == names[j]
                return grid
            """
        ),
        Valid(
            """
            def centers_of(embedding: torch.Tensor, labels, batch, speakers):
                centers = torch.zeros(batch, speakers, 16)
                for b in range(batch):
                    for i in range(speakers):
                        centers[b, i] = embedding[b, labels[b] == i].mean(dim=0)
                return centers
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def cut(x: torch.Tensor, lengths: torch.Tensor):
                parts = []
                for i in range(len(lengths)):
                    parts.append(x[i, : lengths[i].item()].mean())
                return torch.stack(parts)
            """,
            at=(3, 13, 3, 32),
        ),
        Invalid(
            """
            def spans(x: torch.Tensor, offsets: torch.Tensor, batch):
                return [x[int(offsets[i]) : int(offsets[i + 1])].sum() for i in range(batch)]

            def total(x: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor, batch):
                out = 0
                for i in range(batch):
                    out = out + x[int(starts[i]) : int(ends[i])].sum()
                return out
            """,
            at=(6, 13, 6, 25),
        ),
        Invalid(
            """
            def length_mask(lengths: torch.Tensor, longest):
                mask = torch.zeros(len(lengths), longest)
                for i in range(len(lengths)):
                    mask[i, : lengths[i]] = 1
                return mask
            """,
            """
            def length_mask(lengths: torch.Tensor, longest):
                mask = torch.zeros(len(lengths), longest)
                columns = torch.arange(mask.shape[1], device=mask.device)
                mask[columns < torch.as_tensor(lengths, device=mask.device)[:, None]] = 1
                return mask
            """,
            at=(4, 8, 4, 33),
        ),
        Invalid(
            """
            def padding(lengths, longest):
                mask = torch.zeros(len(lengths), longest, dtype=torch.bool, device="cuda")
                for row, length in enumerate(lengths):
                    mask[row, length:] = True
                return mask
            """,
            """
            def padding(lengths, longest):
                mask = torch.zeros(len(lengths), longest, dtype=torch.bool, device="cuda")
                columns = torch.arange(mask.shape[1], device=mask.device)
                mask[columns >= torch.as_tensor(lengths, device=mask.device)[:, None]] = True
                return mask
            """,
            at=(4, 8, 4, 33),
            severity="warning",
        ),
        Invalid(
            "def total(x: torch.Tensor):\n    return sum(x.flatten())",
            "def total(x: torch.Tensor):\n    return x.flatten().sum()",
            at=(2, 11, 2, 27),
        ),
        Invalid(
            """
            def update(target: torch.Tensor, prediction, classes):
                matrix = torch.zeros(classes, classes, dtype=torch.long)
                kept = target != 255
                truth, guess = target[kept].long(), prediction[kept].cpu()
                for t, g in zip(truth, guess):
                    matrix[t, int(g)] += 1
                return matrix
            """,
        ),
        Invalid(
            """
            class Scores:
                def __init__(self, classes):
                    self.matrix = torch.zeros(classes, classes)

                def update(self, target: torch.Tensor, pred):
                    kept = target != 255
                    target, pred = target[kept], pred[kept]
                    for t, p in zip(target, pred):
                        self.matrix[t, p.item()] += 1
            """,
            """
            class Scores:
                def __init__(self, classes):
                    self.matrix = torch.zeros(classes, classes)

                def update(self, target: torch.Tensor, pred):
                    kept = target != 255
                    target, pred = target[kept], pred[kept]
                    self.matrix.index_put_((target.long(), pred.long()), self.matrix.new_tensor(1), accumulate=True)
            """,
        ),
        Invalid(
            """
            def histogram(labels: torch.Tensor, classes):
                counts = torch.zeros(classes)
                for label in labels.view(-1).long():
                    counts[label] -= 2
                return counts
            """,
            """
            def histogram(labels: torch.Tensor, classes):
                counts = torch.zeros(classes)
                counts.index_put_((labels.view(-1).long(),), counts.new_tensor(-2), accumulate=True)
                return counts
            """,
        ),
        Invalid(
            """
            def accumulate(matrix, target: torch.Tensor, prediction: torch.Tensor):
                for t, p in zip(target.flatten(), prediction.flatten()):
                    matrix[t, p] += 1
            """,
            at=(2, 16, 2, 59),
        ),
        Invalid(
            """
            def histogram(labels: torch.Tensor, classes):
                counts = [0] * classes
                for label in labels.view(-1):
                    counts[int(label)] += 1
                return counts
            """
        ),
        Invalid(
            """
            def distances(x: torch.Tensor):
                n = x.shape[0]
                d = torch.zeros(n, n)
                for i in range(n):
                    for j in range(n):
                        d[i, j] = (x[i] - x[j]).norm()
                return d
            """,
            at=(5, 17, 5, 25),
        ),
    ]

    def visit_loop(self, node: ast.For, ctx: Context) -> Iterator[Finding]:
        names = _elements(node.target, node.iter, ctx)
        used = next((use for part in node.body for use in walk(part) if _takes_number(use, names, ctx)), None)
        if isinstance(used, (ast.expr, ast.stmt)):
            yield ctx.finding(
                self,
                node.iter,
                "this Python loop goes over the elements of a tensor one by one; on a GPU each element costs a sync",
                severity=_severity(node.iter, ctx),
                related=[("each element is read here", used)],
                fixes=[counted(node, ctx)],
            )

    def visit_counted(self, node: ast.For, ctx: Context) -> Iterator[Finding]:
        """``lengths[i].item()`` in a loop over ``i`` reads one element after the other."""
        counters = _counted(node, ctx)
        changed = {n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} | {
            n.value.id
            for n in walk(node)
            if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name)
        }
        parts = (part for statement in node.body for part in walk(statement) if isinstance(part, ast.expr))
        for part in parts if counters else ():
            read = _element_read(part, counters, ctx)
            if read is not None and read.id not in changed:
                message = (
                    f"each iteration reads one element of {read.id}, on a GPU with a sync; {read.id}.tolist() before "
                    "the loop reads all of them at once"
                )
                severity, related = _severity(read, ctx), [("each element is read here", part)]
                yield ctx.finding(self, node.iter, message, severity=severity, related=related)
                return

    def visit_builtin(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """``sum(x)``, ``max(x)`` and ``sorted(x)`` of Python's take a tensor element by element."""
        match node:
            case ast.Call(func=ast.Name(id=name), args=[given], keywords=[]) if name in _GOES_THROUGH:
                tensor = ctx.tensor(given)
            case _:
                return
        if isinstance(ctx.value(node.func), Reference) and tensor is not None and _is_flat(tensor):
            message = (
                f"Python's {name} iterates over the tensor element by element; {_GOES_THROUGH[name]} works on "
                "the whole tensor"
            )
            fixes = [reduced(node, name, given, ctx)]
            yield ctx.finding(self, node, message, severity=_severity(given, ctx), fixes=fixes)

    def visit_mask(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        """``mask[i, : lengths[i]] = 1`` writes a constant into each row."""
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=mask, slice=ast.Tuple(elts=[ast.Name(id=row), ast.Slice() as part]))],
                value=ast.Constant(value=int() | float() | bool()) as constant,
            ):
                loops = ctx.loops(node)[:1]
            case _:
                return
        loop = loops[0] if loops else None
        if isinstance(loop, ast.For) and len(loop.body) == 1 and ctx.tensor(mask) is not None:
            length = _length_of(loop, row, part, ctx)
            if length is not None:
                message = (
                    f"the rows of the mask are filled one by one; torch.arange(n) < {length}[:, None] builds "
                    "the whole mask"
                )
                fixes = [masked(loop, mask, length, part, constant, ctx)]
                yield ctx.finding(self, node, message, severity=_severity(mask, ctx), fixes=fixes)

    def visit_write(self, node: ast.Assign | ast.AugAssign, ctx: Context) -> Iterator[Finding]:
        target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
        match target:
            case ast.Subscript(value=owner, slice=ast.Tuple(elts=[_, _, *_] as index)):
                pass
            case _:
                return
        loops = [loop for loop in ctx.loops(node) if isinstance(loop, ast.For)]
        counters = {name for loop in loops for name in _counted(loop, ctx)}
        written = ctx.tensor(owner)
        if written is not None and written.shape is not None and len(written.shape) > len(index):
            return  # rows, not elements
        names = {part.id for part in index if isinstance(part, ast.Name)}
        if written is not None and len(names) == len(index) and names <= counters and _reads_at(names, node.value, ctx):
            message = "nested loops write one element per iteration; one call can write all of them"
            related = [("written here", node)]
            inner = next(loop for loop in loops if names & _counted(loop, ctx))
            yield ctx.finding(self, inner.iter, message, severity=_severity(owner, ctx), related=related)


def _elements(target: ast.expr, source: ast.expr, ctx: Context) -> set[str]:
    """Return the names that stand for single elements of a tensor in a loop."""
    match source:
        case ast.Call(func=ast.Name(id="zip"), args=args) if isinstance(target, ast.Tuple):
            pairs = zip(target.elts, args, strict=False)
            return {name for each, given in pairs for name in _elements(each, given, ctx)}
        case ast.Call(func=ast.Name(id="enumerate"), args=[given, *_]) if isinstance(target, ast.Tuple):
            return _elements(target.elts[-1], given, ctx)
        case _ if isinstance(target, ast.Name):
            tensor = ctx.tensor(source)
            return {target.id} if tensor is not None and _is_flat(tensor) else set()
        case _:
            return set()


def _is_flat(tensor: Tensor) -> bool:
    """Say whether a tensor surely has one dimension, and not just a few elements."""
    origin = tensor.origin
    if origin is not None and origin.operation in _SHORT:
        return False
    if tensor.shape is not None:
        return len(tensor.shape) == 1 and not isinstance(tensor.shape[0], int)
    if origin is None:
        return False
    if origin.operation in _FLAT:
        return origin.call is None or len(origin.call.values) == 1
    if origin.operation == "getitem":
        return isinstance(origin.node, ast.Subscript) and _is_mask_of(origin.node, origin.operands)
    inner = origin.operands[0] if origin.operands else None
    return origin.operation in _KEEPS_FORM and isinstance(inner, Tensor) and _is_flat(inner)


def _is_mask_of(node: ast.Subscript, operands: tuple[object, ...]) -> bool:
    """Say whether a subscript picks elements by a comparison, whose name is all that stands in the brackets."""
    return isinstance(node.slice, (ast.Name, ast.Compare)) and bool(operands)


def _takes_number(node: ast.AST, names: set[str], ctx: Context) -> bool:
    """Say whether an expression needs the number in an element: as an index, by conversion, in a condition."""
    match node:
        case ast.Subscript(slice=index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            return any(isinstance(part, ast.Name) and part.id in names for part in parts)
        case ast.Call(func=ast.Name(id=name), args=[ast.Name(id=given)]):
            return name in _NUMBERS and given in names and isinstance(ctx.value(node.func), Reference)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=given), attr="item")):
            return given in names
        case ast.If(test=ast.Compare(left=ast.Name(id=given))):
            return given in names
        case _:
            return False


def _element_read(node: ast.expr, counters: set[str], ctx: Context) -> ast.Name | None:
    """Return the tensor of which an expression converts the element at a counter to a number."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[ast.Subscript() as element]):
            if name not in _NUMBERS or not isinstance(ctx.value(node.func), Reference):
                return None
        case ast.Call(func=ast.Attribute(value=ast.Subscript() as element, attr="item"), args=[]):
            pass
        case _:
            return None
    match element:
        case ast.Subscript(value=ast.Name() as owner, slice=ast.Name(id=index)) if index in counters:
            tensor = ctx.tensor(owner)
            return owner if tensor is not None and tensor.device != "cpu" else None
        case _:
            return None


def _counted(loop: ast.AST, ctx: Context) -> set[str]:
    """Return the counter of a loop over a range whose length the text does not fix."""
    match loop:
        case ast.For(target=ast.Name() as target, iter=ast.Call(func=ast.Name(id="range"), args=args)) if not all(
            isinstance(argument, ast.Constant) for argument in args
        ):
            return bound_names(target)
        case _:
            return set()


def _length_of(loop: ast.For, row: str, part: ast.Slice, ctx: Context) -> str | None:
    """Return the name of the lengths that a slice of a row ends, or begins, at."""
    bound = part.upper if part.lower is None else part.lower if part.upper is None else None
    match loop, bound:
        case ast.For(target=ast.Name(id=counter)), ast.Subscript(value=lengths, slice=ast.Name(id=index)):
            is_ours = counter == row == index and bool(_counted(loop, ctx))
        case (
            ast.For(
                target=ast.Tuple(elts=[ast.Name(id=counter), ast.Name(id=length)]),
                iter=ast.Call(func=ast.Name(id="enumerate"), args=[lengths]),
            ),
            ast.Name(id=used),
        ):
            is_ours = counter == row and length == used
        case _:
            return None
    return ctx.text(lengths) if is_ours else None


def _reads_at(names: set[str], node: ast.expr, ctx: Context) -> bool:
    """Say whether an expression takes rows or elements of tensors at the counters."""
    return any(
        isinstance(part, ast.Subscript)
        and ctx.tensor(part.value) is not None
        and any(isinstance(inner, ast.Name) and inner.id in names for inner in walk(part.slice))
        for part in walk(node)
    )


def _severity(node: ast.expr, ctx: Context) -> Severity | None:
    """A tensor that surely is on a GPU waits for it in each turn."""
    tensors = (ctx.tensor(part) for part in walk(node) if isinstance(part, ast.expr))
    devices = {tensor.device for tensor in tensors if tensor is not None}
    return "warning" if any(device and device.partition(":")[0] in ("cuda", "auto") for device in devices) else None
