"""Rule DG511: a small view that keeps a large tensor alive."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Severity, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.operations import FACTORIES
from drygrad.static.facts.values import Constant, Number, Origin, Sequence, Tensor
from drygrad.static.tree import walk

_VIEWS = frozenset({"detach", "squeeze", "unsqueeze", "view", "transpose", "permute", "t", "data", "select"})
_SMALL = 4


class ViewKept(Rule):
    """
    ## What it does
    Finds a row or time step of a computed tensor (`hidden[:, 0]`, `logits[:, -1]`) that is stored, under `no_grad`, in
    a list, a dict or an attribute that outlives the tensor.

    ## Why is this bad?
    Indexing with numbers and slices returns a view: it has no memory of its own and keeps the whole tensor alive. What
    looks like one vector per text keeps the hidden states of all its tokens, so memory runs out much sooner.

    ## Example
    ```python
    vectors = []
    with torch.no_grad():
        for x in loader:
            hidden = nn.Linear(8, 4)(x)
            vectors.append(hidden[:, 0])
    ```
    Use instead:
    ```python
    vectors = []
    with torch.no_grad():
        for x in loader:
            hidden = nn.Linear(8, 4)(x)
            vectors.append(hidden[:, 0].clone())
    ```

    ## Fix safety
    Safe: the copy has the same values, and nothing writes to the original tensor.
    """

    code, name, since = "DG511", "view-kept", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            @torch.no_grad()
            def collect(encoder: nn.Linear, loader):
                kept, numbers, moved = [], [], []
                for x in loader:
                    hidden = encoder(x)
                    kept.append(hidden[:, 0].clone())
                    numbers.append(hidden[:, 0].mean())
                    moved.append(F.normalize(hidden[:, 0]))
                return kept, numbers, moved
            """
        ),
        Valid(
            """
            def steps(cell: nn.Linear, x):
                outputs = []
                for t in range(10):
                    outputs.append(cell(x)[:, 0])
                return torch.stack(outputs)
            """
        ),
        Valid(
            """
            class Bottleneck:
                @torch.no_grad()
                def update(self, encoder: nn.Linear, targets):
                    for i in range(len(targets)):
                        hidden = encoder(targets[i])
                        self.quantiles[:, :, i] = hidden[:, :, 0]
            """
        ),
        Valid(
            """
            @torch.no_grad()
            def last(encoder: nn.Linear, x):
                hidden = encoder(x)
                return hidden[:, 0]
            """
        ),
        Valid(
            """
            @torch.no_grad()
            def runners_up(model: nn.Linear, x, labels):
                order = torch.argsort(model(x), dim=1)
                found = []
                for i in range(len(labels)):
                    found.append(order[i, -1])
                return torch.stack(found)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            @torch.no_grad()
            def collect(encoder: nn.TransformerEncoder, loader):
                vectors = []
                for x in loader:
                    hidden = encoder(x)
                    vectors.append(hidden[:, 0])
                return torch.cat(vectors)
            """,
            """
            @torch.no_grad()
            def collect(encoder: nn.TransformerEncoder, loader):
                vectors = []
                for x in loader:
                    hidden = encoder(x)
                    vectors.append(hidden[:, 0].clone())
                return torch.cat(vectors)
            """,
            at=(6, 23, 6, 35),
            severity="info",
        ),
        Invalid(
            """
            class Index:
                def __init__(self):
                    self.encoder = nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 16))
                    self.vectors = {}

                @torch.no_grad()
                def encode(self, ids):
                    return self.encoder(ids)[:, 0]

                def add(self, keys, ids):
                    for key, vector in zip(keys, self.encode(ids)):
                        self.vectors[key] = vector
            """,
            """
            class Index:
                def __init__(self):
                    self.encoder = nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 16))
                    self.vectors = {}

                @torch.no_grad()
                def encode(self, ids):
                    return self.encoder(ids)[:, 0].clone()

                def add(self, keys, ids):
                    for key, vector in zip(keys, self.encode(ids)):
                        self.vectors[key] = vector
            """,
            at=(8, 15, 8, 38),
        ),
    ]

    def visit_append(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[item], keywords=[]):
                yield from self._check(owner, item, ctx)
            case _:
                return

    def visit_item(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        match node.targets:
            case [ast.Subscript(value=owner, slice=index)] if not _is_array(owner, index, ctx):
                yield from self._check(owner, node.value, ctx)
            case _:
                return

    def _check(self, owner: ast.expr, item: ast.expr, ctx: Context) -> Iterator[Finding]:
        if not _outlives(owner, item, ctx):
            return
        tensor = ctx.tensor(item)
        part = _part(tensor, ctx) if tensor is not None and tensor.requires_grad is False else None
        if part is None or not (_is_attribute(owner) or _is_made_anew(part, item, ctx)):
            return
        severity: Severity | None = None if "." in (dotted_text(owner) or "") else "info"
        yield ctx.finding(
            self,
            part.node,
            "this is a view; keeping it keeps the memory of the whole tensor alive",
            severity=severity,
            related=[] if part.node is item else [("kept here", item)],
            fixes=[_copied(part, ctx)],
        )


def _is_array(owner: ast.expr, index: ast.expr, ctx: Context) -> bool:
    """Say whether what is stored is copied: into a tensor, or under an index that only arrays take."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return isinstance(ctx.value(owner), Tensor) or any(isinstance(part, ast.Slice) for part in parts)


def _outlives(owner: ast.expr, item: ast.expr, ctx: Context) -> bool:
    """Say whether what a value is stored in lives on: an attribute, or a list or dict from before the loop."""
    text = dotted_text(owner)
    if text is None:
        return False
    if _is_attribute(owner):
        return True
    loops = ctx.loops(item)
    held = ctx.value(owner)
    is_list = isinstance(held, Sequence) and held.kind == "list"
    return bool(loops) and is_list and "." not in text and not _is_bound_in(text, loops[0])


def _is_attribute(owner: ast.expr) -> bool:
    return (dotted_text(owner) or "").startswith("self.")


def _is_made_anew(part: Origin, item: ast.expr, ctx: Context) -> bool:
    """Say whether each turn of the loop makes another whole: views of a single one keep no more than that one."""
    whole = part.operands[0]
    made = whole.origin.node if isinstance(whole, Tensor) and whole.origin is not None else None
    if made is None or ctx.function(made) is not ctx.function(item):
        return True
    return ctx.loops(item)[0] in ctx.loops(made)


def _is_bound_in(name: str, loop: ast.AST) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in walk(loop))


def _part(tensor: Tensor, ctx: Context) -> Origin | None:
    """Return the subscript by which a tensor is a small part of a computed one; None where it may be all of it."""
    origin = tensor.origin
    while origin is not None and origin.operation in _VIEWS:
        inner = next((v for v in origin.operands if isinstance(v, Tensor)), None)
        origin = inner.origin if inner is not None else None
    if origin is None or origin.operation != "getitem" or not isinstance(origin.node, ast.Subscript):
        return None
    whole = origin.operands[0] if origin.operands else None
    if not isinstance(whole, Tensor) or not _is_computed(whole) or not _shares_memory(origin.node, whole, ctx):
        return None
    return origin if _takes_little(origin.node.slice, whole, ctx) else None


def _is_computed(tensor: Tensor) -> bool:
    if tensor.parameter or tensor.buffer or tensor.origin is None:
        return False
    return not tensor.made_by("batch", "getitem", "grad", *FACTORIES)


def _shares_memory(part: ast.expr, whole: Tensor, ctx: Context) -> bool:
    tensor = ctx.tensor(part)
    return tensor is not None and tensor.storage is not None and tensor.storage == whole.storage


def _takes_little(index: ast.expr, whole: Tensor, ctx: Context) -> bool:
    """Say whether an index takes one of many: a number for a dimension other than the first."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    for position, part in enumerate(parts):
        if isinstance(part, ast.Constant) and part.value in (None, ...):
            return False
        size = whole.shape[position] if whole.shape is not None and position < len(whole.shape) else None
        single = isinstance(ctx.value(part), (Constant, Number)) and not isinstance(part, ast.Slice)
        if position > 0 and single and not (isinstance(size, int) and size <= _SMALL):
            return True
    return False


def _copied(part: Origin, ctx: Context) -> Fix | None:
    return ctx.fix("Clone the part that is kept", ctx.insert_after(part.node, ".clone()"), safety="safe")
