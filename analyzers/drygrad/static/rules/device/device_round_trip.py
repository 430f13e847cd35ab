"""Rule DG206: a computation on the CPU between two copies."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.datasets import called_by
from drygrad.static.facts.values import Constant, Dtype, Number
from drygrad.static.rules.device.placement import device_of, name_span, removed_call
from drygrad.static.syntax import nodes_within
from drygrad.static.tree import walk

_SAME_ON_BOTH = frozenset(
    "mean sum max min amax amin std var norm prod abs neg exp log log2 log10 log1p sqrt rsqrt square pow add sub mul "
    "div sigmoid tanh relu softmax log_softmax clamp clamp_min clamp_max argmax argmin eq ne lt le gt ge view reshape "
    "permute transpose t squeeze unsqueeze flatten expand contiguous clone detach float double half bfloat16 long "
    "int clip".split()
)
"""What a GPU computes as well as a CPU does: no reason to leave it."""
_FROM_ARRAYS = frozenset({"torch.from_numpy", "torch.tensor", "torch.as_tensor"})
_LONGEST = 12


class DeviceRoundTrip(Rule):
    """
    ## What it does
    Finds a tensor that is copied to the CPU, processed there and copied back: `x.cpu().mean().cuda()`.

    ## Why is this bad?
    This costs two copies, and before the first one the CPU waits until the GPU has finished all queued work. The GPU
    then has nothing to do until the result is back. Results and gradients are right: autograd follows the copies.

    ## Example
    ```python
    average = x.cpu().mean().cuda()
    ```
    Use instead:
    ```python
    average = x.mean()
    ```

    ## Fix safety
    Unsafe: the GPU may round differently, and the result stays on the device of `x`, even if the last copy was to
    another one.
    """

    code, name, since = "DG206", "device-round-trip", "0.1"
    severity = "hint"
    costs = frozenset({"d2h", "h2d"})
    VALID = [
        Valid("def size(t):\n    return t.cpu().norm()\n\ndef f(x):\n    print(size(x))\n    return size(x).cuda()"),
        Valid("def f(x):\n    return x.cpu().mean()"),
        Valid("x = torch.ones(3)\ny = x.cpu().mean().cuda()"),
        Valid("def f(x):\n    # may be faster on the CPU\n    return torch.linalg.eigvals(x.cpu()).cuda()"),
        Valid("def f(x):\n    kept = x.cpu()\n    work()\n    return kept.cuda()"),
        Valid("def f(x):\n    host = x.cpu()\n    print(host)\n    return host.mean().cuda()"),
        Valid("def f(x, y):\n    return (x.cpu() + y).cuda()"),
        Valid("def f(x, dtype):\n    return x.cpu().mean().to(dtype)"),
    ]
    INVALID = [
        Invalid(
            "def size(t):\n    return t.cpu().norm()\n\ndef f(x):\n    return size(x).cuda()",
            "def size(t):\n    return t.norm()\n\ndef f(x):\n    return size(x)",
        ),
        Invalid(
            """
            import numpy as np
            import torch

            def scale(x):
                host = np.sqrt(x.detach().cpu().numpy() + 1)
                return torch.from_numpy(host).cuda()
            """,
            at=(5, 30, 5, 33),
        ),
        Invalid("def f(x):\n    return x.cpu().mean().cuda()", "def f(x):\n    return x.mean()", at=(2, 13, 2, 16)),
        Invalid(
            "x = torch.ones(3, device='cuda', requires_grad=True)\ny = x.cpu().sum().cuda()\ny.backward()",
            "x = torch.ones(3, device='cuda', requires_grad=True)\ny = x.sum()\ny.backward()",
        ),
        Invalid(
            "def f(x, device):\n    return torch.softmax(x.to('cpu') * 2, dim=-1).to(device, non_blocking=True)",
            "def f(x, device):\n    return torch.softmax(x * 2, dim=-1)",
        ),
        Invalid(
            """
            def step(model, batch, optimizer):
                out = model(batch)
                host = out.cpu()
                loss = (host ** 2).mean()
                loss = loss.cuda()
                loss.backward()
                optimizer.step()
            """,
            """
            def step(model, batch, optimizer):
                out = model(batch)
                host = out
                loss = (host ** 2).mean()
                loss.backward()
                optimizer.step()
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.func, ast.Attribute) or not _leads_to_accelerator(node, ctx):
            return
        away = _copied_to_cpu(node.func.value, ctx)
        if away is None:
            return
        assert isinstance(away.func, ast.Attribute)
        yield ctx.finding(
            self,
            away,
            f"`{ctx.source_of(away.func.value)}` goes to the CPU and back; two copies and a sync for work the GPU "
            "could do itself",
            span=name_span(away.func, ctx),
            related=[("copied back here", node)],
            fixes=[_stayed(away, node, ctx)],
        )


def _stayed(away: ast.Call, back: ast.Call, ctx: Context) -> Fix | None:
    """Compute where the tensor is; what NumPy computes has to be written anew."""
    between = [n for n in walk(ctx.statement(back)) if isinstance(n, ast.Call) and _through_numpy(n, ctx) is not None]
    between += [n for n in walk(ctx.statement(away)) if isinstance(n, ast.Call) and _through_numpy(n, ctx) is not None]
    if between:
        return None
    return ctx.fix("Compute on the tensor's own device", removed_call(away, ctx), removed_call(back, ctx))


def _through_numpy(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what becomes an array, or a tensor of an array."""
    match node:
        case ast.Call(func=ast.Attribute(value=tensor, attr="numpy"), args=[], keywords=[]):
            return tensor
        case ast.Call(args=[array], keywords=[]) if ctx.name(node.func) in _FROM_ARRAYS:
            return array
        case _:
            return None


def _moved_to(node: ast.Call, ctx: Context) -> str | None:
    """Return the device that a method call copies to, where it does nothing else."""
    given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "device")]
    others = {keyword.arg for keyword in node.keywords} - {"device", "non_blocking"}
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if method in ("cpu", "cuda"):
        return method
    return device_of(ctx, given[0]) if method == "to" and len(given) == 1 and not others else None


def _leads_to_accelerator(node: ast.Call, ctx: Context) -> bool:
    return _moved_to(node, ctx) not in (None, "cpu")


def _copied_to_cpu(node: ast.expr, ctx: Context) -> ast.Call | None:
    """Return the copy to the CPU that a value was computed from, where every step could have run on the GPU."""
    for step in range(_LONGEST):
        if isinstance(node, ast.Call) and _moved_to(node, ctx) == "cpu":
            assert isinstance(node.func, ast.Attribute)
            tensor = ctx.tensor(node.func.value)
            on_cpu = tensor is not None and tensor.device == "cpu"
            return None if on_cpu or (tensor is None and step == 0) else node
        before = _assigned_just_before(node, ctx) if isinstance(node, ast.Name) else _operand(node, ctx)
        before = before or _returned(node, ctx)
        if before is None:
            return None
        node = before
    return None


def _returned(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what a function of the file returns that nothing else calls."""
    functions = [function for function, _ in called_by(node, ctx)] if isinstance(node, ast.Call) else []
    if len(functions) != 1 or len(ctx.callers(functions[0])) != 1:
        return None
    returns = [n for n in nodes_within(functions[0]) if isinstance(n, ast.Return)]
    return returns[0].value if len(returns) == 1 else None


def _operand(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what an operation computes on, where all other operands are literals."""
    array = _through_numpy(node, ctx)
    if array is not None:
        return array
    match node:
        case ast.Call(func=ast.Attribute(value=ast.expr() as value, attr=name) as function, args=arguments):
            if name not in _SAME_ON_BOTH:
                return None
            values = arguments if ctx.name(function) else [value, *arguments]
            values += [keyword.value for keyword in node.keywords]
        case ast.BinOp(left=left, right=right):
            values = [left, right]
        case ast.UnaryOp(operand=operand):
            values = [operand]
        case ast.Subscript(value=value, slice=index):
            values = [value, index]
        case _:
            return None
    found = [value for value in values if not _is_plain(value, ctx)]
    return found[0] if len(found) == 1 else None


def _is_plain(node: ast.expr, ctx: Context) -> bool:
    """Say whether an operand is a number, a dtype or the like, that can meet a tensor on any device."""
    if isinstance(node, (ast.Tuple, ast.UnaryOp)) and not isinstance(node, ast.Name):
        parts = node.elts if isinstance(node, ast.Tuple) else [node.operand]
        return all(_is_plain(part, ctx) for part in parts)
    return isinstance(node, (ast.Constant, ast.Slice)) or isinstance(ctx.value(node), (Constant, Number, Dtype))


def _assigned_just_before(node: ast.Name, ctx: Context) -> ast.expr | None:
    """Return the value of a name that the statement before assigned, and that is read nowhere else."""
    statement, function = ctx.statement(node), ctx.function(node)
    body: list[ast.stmt] = getattr(ctx.parent(statement), "body", [])
    position = body.index(statement) if statement in body else 0
    before = body[position - 1] if position else None
    if function is None or not isinstance(before, ast.Assign) or [ast.unparse(t) for t in before.targets] != [node.id]:
        return None
    overwritten = isinstance(statement, ast.Assign) and [ast.unparse(t) for t in statement.targets] == [node.id]
    reads = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == node.id and n is not node]
    later = [n for n in reads if isinstance(n.ctx, ast.Load) and n.lineno >= statement.lineno]
    return before.value if overwritten or not later else None
