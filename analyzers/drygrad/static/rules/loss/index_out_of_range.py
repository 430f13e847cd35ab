"""Rule DG302: an index beyond the classes, the vocabulary or the dimension."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Dim, Tensor, TorchCall, Value
from drygrad.static.rules.loss.index_values import IndexValues, index_values
from drygrad.static.rules.loss.largest import largest_index

_LOSSES = frozenset({"cross_entropy", "nll_loss"})
_ALONG_DIMENSION = frozenset({"gather", "index_select", "scatter", "scatter_add", "scatter_reduce", "index_add"})


@dataclass(frozen=True)
class _Lookup:
    """Indices that a call takes, and what they must stay below."""

    expression: ast.expr
    bound: Dim
    noun: str
    ignored: int | None = None


class IndexOutOfRange(Rule):
    """
    ## What it does
    Finds class indices, token ids and other indices that are out of range for the number of classes, the vocabulary
    size or the dimension, where the source shows both. Also finds embeddings and `one_hot` whose size is the largest
    index, such as `nn.Embedding(max(ids), dim)`; the name of the variable must say that it contains indices.

    ## Why is this bad?
    On the CPU it raises (IndexError: Target 10 is out of bounds). On CUDA a kernel fails with "device-side assert
    triggered", reported later and elsewhere, and the process cannot use CUDA afterwards. With `torch.randint(0, 11)`
    only some batches contain the index, so the failure comes and goes.

    ## Example
    ```python
    labels = torch.tensor([1, 2, 3])
    loss = F.cross_entropy(torch.randn(3, 3), labels)
    ```
    Use instead:
    ```python
    labels = torch.tensor([0, 1, 2])
    loss = F.cross_entropy(torch.randn(3, 3), labels)
    ```

    ## Fix safety
    Unsafe: it changes the values that `torch.randint` draws, or the size of the embedding.
    """

    code, name, since = "DG302", "index-out-of-range", "0.1"
    severity = "error"
    calls = _LOSSES | _ALONG_DIMENSION | {"embedding", "one_hot"}
    VALID = [
        Valid(
            """
            class Users(nn.Module):
                def __init__(self, user2id, lengths, sizes, dim):
                    super().__init__()
                    self.rows = nn.Embedding(max(user2id.values()), dim)
                    self.positions = nn.Embedding(max(lengths), dim)
                    self.kinds = nn.Embedding(max(user2id.values()) + 1, dim)
                    self.sizes = nn.Embedding(max(sizes, 9), dim)

                def forward(self, users, positions):
                    return self.rows(users - 1) + self.positions(positions) + self.kinds(users) + self.sizes(users)
            """
        ),
        Valid("def hot(labels: torch.Tensor):\n    return F.one_hot(labels - 1, int(labels.max()))"),
        Valid("loss = F.cross_entropy(torch.randn(3, 4), torch.tensor([0, 3, -100]))"),
        Valid("loss = nn.CrossEntropyLoss(ignore_index=-1)(torch.randn(3, 4), torch.tensor([0, 3, -1]))"),
        Valid("loss = F.cross_entropy(torch.randn(8, 10), torch.randint(0, 10, (8,)))"),
        Valid("loss = F.cross_entropy(torch.randn(8, 10), torch.randint(10, (8,)))"),
        Valid("vectors = nn.Embedding(1000, 16)(torch.arange(1000))"),
        Valid("# a subscript counts negative indices from the end\nlast = torch.randn(3, 4)[torch.tensor([-1])]"),
        Valid("onehot = F.one_hot(torch.tensor([0, 7]))"),
        Valid("def f(n):\n    return nn.Embedding(n, 16)(torch.randint(0, 1000, (8,)))"),
        Valid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))

                def widen(self, classes):
                    self.net[1] = nn.Linear(4, classes)

                def forward(self, x):
                    return self.net(x)

            model = Net()
            model.widen(10)
            loss = F.cross_entropy(model(torch.randn(8, 4)), torch.full((8,), 7))
            """
        ),
    ]
    INVALID = [
        Invalid("loss = F.cross_entropy(torch.randn(3, 3), torch.tensor([1, 2, 3]))", at=(1, 42, 1, 65)),
        Invalid("loss = F.nll_loss(torch.randn(3, 3).log_softmax(1), torch.tensor([1, 2, -1]))"),
        Invalid(
            """
            class Classifier(nn.Module):
                def __init__(self, vocabulary, classes):
                    super().__init__()
                    self.embedding = nn.Embedding(vocabulary, 32)
                    self.out = nn.Linear(32, classes)

                def forward(self, tokens):
                    return self.out(self.embedding(tokens).mean(dim=1))

            model = Classifier(vocabulary=1000, classes=5)
            tokens = torch.randint(0, 1001, (16, 20))
            labels = torch.randint(0, 5, (16,))
            loss = F.cross_entropy(model(tokens), labels)
            """,
            """
            class Classifier(nn.Module):
                def __init__(self, vocabulary, classes):
                    super().__init__()
                    self.embedding = nn.Embedding(vocabulary, 32)
                    self.out = nn.Linear(32, classes)

                def forward(self, tokens):
                    return self.out(self.embedding(tokens).mean(dim=1))

            model = Classifier(vocabulary=1000, classes=5)
            tokens = torch.randint(0, 1000, (16, 20))
            labels = torch.randint(0, 5, (16,))
            loss = F.cross_entropy(model(tokens), labels)
            """,
            severity="warning",
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader, TensorDataset

            data = TensorDataset(torch.randn(60, 4), torch.randint(1, 4, (60,)))
            model = nn.Linear(4, 3)
            for x, y in DataLoader(data, batch_size=6):
                loss = nn.CrossEntropyLoss()(model(x), y)
            """,
            """
            from torch.utils.data import DataLoader, TensorDataset

            data = TensorDataset(torch.randn(60, 4), torch.randint(1, 3, (60,)))
            model = nn.Linear(4, 3)
            for x, y in DataLoader(data, batch_size=6):
                loss = nn.CrossEntropyLoss()(model(x), y)
            """,
            severity="warning",
        ),
        Invalid("picked = torch.randn(3, 4).gather(1, torch.tensor([[0], [4], [1]]))"),
        Invalid("picked = torch.randn(3, 4).index_select(0, torch.tensor([-1]))"),
        Invalid(
            """
            class Users(nn.Module):
                def __init__(self, user2id, dim):
                    super().__init__()
                    rows = max(user2id.values())
                    self.rows = nn.Embedding(rows, dim)

                def forward(self, users):
                    return self.rows(users)
            """,
            """
            class Users(nn.Module):
                def __init__(self, user2id, dim):
                    super().__init__()
                    rows = max(user2id.values()) + 1
                    self.rows = nn.Embedding(rows, dim)

                def forward(self, users):
                    return self.rows(users)
            """,
            at=(4, 15, 4, 36),
            severity="info",
        ),
        Invalid(
            "def hot(labels: torch.Tensor):\n    return F.one_hot(labels, int(labels.max()))",
            "def hot(labels: torch.Tensor):\n    return F.one_hot(labels, int(labels.max()) + 1)",
            severity="info",
        ),
        Invalid("onehot = F.one_hot(torch.tensor([1, 2, 3]), num_classes=3)"),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is not None and call.operation in ("embedding", "one_hot"):
            yield from self._largest(call, ctx)
        lookup = _lookup(ctx, call) if call else None
        held = index_values(ctx.value(lookup.expression)) if lookup else None
        if lookup is None or held is None or not isinstance(lookup.bound, int):
            return
        index = held.outside(lookup.bound, lookup.ignored)
        if index is None:
            return
        comes = "is" if held.certain else "may be"
        yield ctx.finding(
            self,
            lookup.expression,
            f"an index {comes} {index}, but {lookup.noun} 0 to {lookup.bound - 1}",
            severity=None if held.certain else "warning",
            related=[]
            if held.origin.node is lookup.expression
            else [("the indices are created here", held.origin.node)],
            fixes=[_fix(ctx, held, index, lookup.bound)],
        )

    def _largest(self, call: TorchCall, ctx: Context) -> Iterator[Finding]:
        """Find sizes that are the largest index, which judges by the name of what holds the indices."""
        size = largest_index(call, ctx)
        if size is not None:
            yield ctx.finding(
                self,
                size,
                f"`{ctx.source_of(size)}` is the largest index itself; it needs one more row",
                severity="info",
                related=[("the indices are looked up here", call.node)],
                fixes=[ctx.fix("Add 1 to the size", ctx.replace(size, f"{ctx.source_of(size)} + 1"))],
            )


def _fix(ctx: Context, held: IndexValues, index: int, bound: int) -> Fix | None:
    high = held.high
    if high is None or index < 0 or held.indices[0] >= bound:
        return None
    return ctx.fix(f"Draw indices below {bound}", ctx.replace(high, str(bound)))


def _lookup(ctx: Context, call: TorchCall) -> _Lookup | None:
    if call.operation in _LOSSES:
        return _class_lookup(ctx, call)
    if call.operation in _ALONG_DIMENSION:
        return _dimension_lookup(ctx, call)
    expression = call.operand("input")
    if expression is None:
        return None
    if call.operation == "one_hot":
        return _Lookup(expression, _number(call.value("num_classes")), "one_hot only has classes")
    rows = _number(call.value("num_embeddings")) if call.module else _size(call.value("weight"), 0)
    return _Lookup(expression, rows, "the embedding only has rows")


def _class_lookup(ctx: Context, call: TorchCall) -> _Lookup | None:
    target, given = call.operand("target"), ctx.tensor(call.operand("input"))
    ignored = call.constant("ignore_index", -100)
    if target is None or given is None or given.shape is None or not isinstance(ignored, int):
        return None
    return _Lookup(target, _size(given, 1 if len(given.shape) > 1 else 0), "the input only has classes", ignored)


def _dimension_lookup(ctx: Context, call: TorchCall) -> _Lookup | None:
    dim = call.keyword_values.get("dim") or (call.values[1] if len(call.values) > 1 else None)
    expression = call.keywords.get("index") or (call.operands[2] if len(call.operands) > 2 else None)
    if expression is None or not isinstance(dim, Constant) or not isinstance(dim.value, int):
        return None
    source = next(iter(call.values), None)
    return _Lookup(expression, _size(source, dim.value), f"dimension {dim.value} only has")


def _number(value: Value | None) -> Dim:
    return value.value if isinstance(value, Constant) and isinstance(value.value, int) and value.value > 0 else None


def _size(value: Value | None, dim: int) -> Dim:
    shape = value.shape if isinstance(value, Tensor) else None
    return shape[dim] if shape and -len(shape) <= dim < len(shape) else None
