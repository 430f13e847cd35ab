"""Rule DG204: a constant tensor of a module that is no buffer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Safety, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_buffer
from drygrad.static.facts.places.meeting import MAKERS, Fault
from drygrad.static.facts.values import INTEGERS, Object, Tensor
from drygrad.static.rules.device.apart import apart, by_init
from drygrad.static.syntax import called
from drygrad.static.tree import walk

_MOVES_ALL = frozenset({"_apply", "to", "cuda"})


class TensorAttributeNotBuffer(Rule):
    """
    ## What it does
    Finds `self.mask = torch.tril(...)` in the `__init__` of an `nn.Module` if a method combines `self.mask` with inputs
    or parameters.

    ## Why is this bad?
    `.to(device)` and `.cuda()` only move a module's parameters and buffers. A plain tensor attribute stays on the CPU,
    and on a GPU its first use raises "Expected all tensors to be on the same device".

    ## Example
    ```python
    class Causal(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.mask = torch.tril(torch.ones(size, size))

        def forward(self, q, k):
            return (q @ k.mT).masked_fill(self.mask == 0, float("-inf")).softmax(dim=-1)
    ```
    Use instead:
    ```python
    class Causal(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.register_buffer("mask", torch.tril(torch.ones(size, size)), persistent=False)

        def forward(self, q, k):
            return (q @ k.mT).masked_fill(self.mask == 0, float("-inf")).softmax(dim=-1)
    ```

    ## Fix safety
    The buffer is not persistent, so checkpoints do not change. Safe for integers and booleans; unsafe for floats, which
    the module's `.half()` and `.double()` now convert too.
    """

    code, name, since = "DG204", "tensor-attribute-not-buffer", "0.1"
    VALID = [
        Valid(
            """
            class M(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.linear = nn.Linear(3, 3)
                    self.table = torch.empty(0, 0, 3)

                def freeze(self):
                    del self.table
                    self.register_buffer("table", torch.zeros(5, 5, 3))

                def forward(self, x, index):
                    return self.linear(x) + self.table[index[0], index[1]]
            """
        ),
        Valid(
            """
            class M(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("mask", torch.ones(3))

                def forward(self, x):
                    return x.exp() * self.mask
            """
        ),
        Valid(
            """
            class M(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.mask = torch.ones(3)

                def forward(self, x):
                    return x.exp() * self.mask.to(x.device)
            """
        ),
        Valid(
            """
            class M(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.mask = torch.ones(3)

                def _apply(self, fn):
                    self.mask = fn(self.mask)
                    return super()._apply(fn)

                def forward(self, x):
                    return x.exp() * self.mask
            """
        ),
        Valid(
            """
            class M(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = torch.tensor(0.5)
                    self.weight = nn.Parameter(torch.ones(3))

                def forward(self, x):
                    return x.exp() * self.scale * self.weight
            """
        ),
        Valid(
            """
            class M(nn.Module):
                def __init__(self, device):
                    super().__init__()
                    self.mask = torch.ones(3, device=device)
                    self.order = torch.arange(3)

                def forward(self, x):
                    return x.exp()[:, self.order] * self.mask
            """
        ),
        Valid(
            """
            class Data(torch.utils.data.Dataset):
                def __init__(self):
                    self.mean = torch.zeros(3)

                def __getitem__(self, index):
                    return self.items[index].exp() - self.mean
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Grids(nn.Module):
                def __init__(self, sizes=(8, 16)):
                    super().__init__()
                    self.grids = [torch.linspace(0, 1, size) for size in sizes]

                def forward(self, x):
                    outputs = []
                    for grid in self.grids:
                        outputs.append(x.exp() * grid)
                    return outputs
            """,
            at=(4, 8, 4, 18),
        ),
        Invalid(
            """
            from torch.distributions import Normal, kl_divergence

            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = nn.Linear(4, 4)
                    self.prior = Normal(torch.zeros(2), torch.ones(2))

                def forward(self, x):
                    mean, scale = self.net(x).chunk(2, -1)
                    return kl_divergence(Normal(mean, scale.exp()), self.prior)
            """,
            at=(7, 8, 7, 18),
        ),
        Invalid(
            """
            class M(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = torch.ones(3)  # per channel

                def forward(self, x):
                    return x.exp() * self.scale
            """,
            """
            class M(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("scale", torch.ones(3), persistent=False)  # per channel

                def forward(self, x):
                    return x.exp() * self.scale
            """,
            at=(4, 8, 4, 18),
        ),
        Invalid(
            """
            import torch
            from torch import nn

            class PositionalEncoding(nn.Module):
                def __init__(self, dim: int, longest: int = 5000):
                    super().__init__()
                    self.dropout = nn.Dropout(0.1)
                    encoding = torch.zeros(longest, dim)
                    position = torch.arange(0, longest).unsqueeze(1)
                    encoding[:, 0::2] = torch.sin(position / 100)
                    encoding[:, 1::2] = torch.cos(position / 100)
                    self.encoding = encoding.unsqueeze(0)

                def forward(self, x):
                    x = x + self.encoding[:, : x.size(1)]
                    return self.dropout(x)
            """,
            """
            import torch
            from torch import nn

            class PositionalEncoding(nn.Module):
                def __init__(self, dim: int, longest: int = 5000):
                    super().__init__()
                    self.dropout = nn.Dropout(0.1)
                    encoding = torch.zeros(longest, dim)
                    position = torch.arange(0, longest).unsqueeze(1)
                    encoding[:, 0::2] = torch.sin(position / 100)
                    encoding[:, 1::2] = torch.cos(position / 100)
                    self.register_buffer("encoding", encoding.unsqueeze(0), persistent=False)

                def forward(self, x):
                    x = x + self.encoding[:, : x.size(1)]
                    return self.dropout(x)
            """,
        ),
        Invalid(
            """
            class Attention(nn.Module):
                def __init__(self, dim: int, size: int):
                    super().__init__()
                    self.proj = nn.Linear(dim, dim)
                    self.mask = torch.triu(
                        torch.ones(size, size), diagonal=1
                    ).bool()

                def forward(self, x):
                    scores = self.proj(x) @ x.transpose(1, 2)
                    mask = self.mask[: x.size(1), : x.size(1)]
                    return scores.masked_fill(mask, float("-inf"))
            """,
            """
            class Attention(nn.Module):
                def __init__(self, dim: int, size: int):
                    super().__init__()
                    self.proj = nn.Linear(dim, dim)
                    self.register_buffer("mask", torch.triu(
                        torch.ones(size, size), diagonal=1
                    ).bool(), persistent=False)

                def forward(self, x):
                    scores = self.proj(x) @ x.transpose(1, 2)
                    mask = self.mask[: x.size(1), : x.size(1)]
                    return scores.masked_fill(mask, float("-inf"))
            """,
        ),
        Invalid(
            """
            class Shift(nn.Module):
                def __init__(self, size: int):
                    super().__init__()
                    self.offset: torch.Tensor = torch.zeros((size,))
                    self.layer = nn.Linear(size, size)

                def forward(self, x):
                    return self.layer(x) + self.offset
            """,
            """
            class Shift(nn.Module):
                def __init__(self, size: int):
                    super().__init__()
                    self.register_buffer("offset", torch.zeros((size,)), persistent=False)
                    self.layer = nn.Linear(size, size)

                def forward(self, x):
                    return self.layer(x) + self.offset
            """,
        ),
    ]

    def visit_file(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        told: set[ast.AST] = set()
        for found in apart(ctx):
            statement = by_init(found)
            if statement is not None and statement not in told:
                told.add(statement)
                yield self._finding(statement, found.fault, ctx)

    def visit_class(self, node: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
        methods = [member for member in node.body if isinstance(member, ast.FunctionDef)]
        init = next((method for method in methods if method.name == "__init__"), None)
        if init is None or _MOVES_ALL & {method.name for method in methods} or not ctx.is_module_class(node):
            return
        for statement in init.body:
            for use in _uses_of_distribution(statement, methods, ctx):
                yield self._of_distribution(statement, use, ctx)
                break

    def _finding(self, statement: ast.Assign | ast.AnnAssign, fault: Fault, ctx: Context) -> Finding:
        target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
        text = ctx.source_of(target)
        tensor = ctx.tensor(statement.value) if statement.value is not None else None
        kind = "is a plain tensor" if tensor is not None else "holds plain tensors"
        return ctx.finding(
            self,
            target,
            f"`{text}` {kind}, which the module's `.to(device)` does not move; on a GPU the operation on it and "
            f"`{ctx.source_of(fault.other)}` raises",
            related=[("the two meet here", fault.node)],
            fixes=[_fix(statement, ctx)],
        )

    def _of_distribution(self, statement: ast.stmt, use: ast.Call, ctx: Context) -> Finding:
        assert isinstance(statement, ast.Assign)
        target = statement.targets[0]
        text = ctx.source_of(target)
        message = (
            f"the tensors of the distribution `{text}` do not move with the module's `.to(device)`; on a GPU "
            f"`{ctx.source_of(use.func)}` of it and another tensor raises"
        )
        return ctx.finding(self, target, message, related=[("the two meet here", use)])


def _uses_of_distribution(statement: ast.stmt, methods: list[ast.FunctionDef], ctx: Context) -> Iterator[ast.Call]:
    """Yield where a distribution made of tensors of the CPU, that a statement assigns, meets something else."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self")) as target], value=ast.Call() as made):
            value = ctx.value(made)
        case _:
            return
    if not isinstance(value, Object) or not value.type.startswith("torch.distributions."):
        return
    if not any(_is_made(ctx.tensor(a)) for a in (*made.args, *(k.value for k in made.keywords))):
        return
    name = ast.unparse(target)
    for method in methods:
        for call in walk(method):
            if not isinstance(call, ast.Call) or method.name == "__init__" or not call.args:
                continue
            measured = called(call) == "kl_divergence" and name in map(ast.unparse, call.args)
            if measured or (isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == f"{name}.log_prob"):
                yield call


def _is_made(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.device == "cpu" and tensor.shape != () and tensor.made_by(*MAKERS)


def _fix(statement: ast.Assign | ast.AnnAssign, ctx: Context) -> Fix | None:
    tensor = ctx.tensor(statement.value) if statement.value is not None else None
    if tensor is None:
        return None
    return ctx.fix("Register it as a buffer", as_buffer(ctx, statement), safety=_safety(tensor))


def _safety(tensor: Tensor | None) -> Safety:
    return "safe" if tensor is not None and tensor.dtype in INTEGERS | {"bool"} else "unsafe"
