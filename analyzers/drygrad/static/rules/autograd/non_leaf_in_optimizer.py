"""Rule DG110: the result of an operation given to an optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Mapped, Sequence, Tensor, Value
from drygrad.static.syntax import nodes_within, scope_of
from drygrad.static.tree import walk

_OPTIMIZERS = frozenset(
    "Adadelta Adafactor Adagrad Adam AdamW Adamax ASGD LBFGS Muon NAdam RAdam RMSprop Rprop SGD SparseAdam".split()
)


class NonLeafInOptimizer(Rule):
    """
    ## What it does
    Finds tensors passed to an optimizer that were computed from a tensor with `requires_grad=True`.

    ## Why is this bad?
    The optimizer raises `can't optimize a non-leaf Tensor`: it can only update leaves. `torch.randn(3,
    requires_grad=True).to(device)` is the *result* of a copy. The leaf is the tensor before the copy, which has no
    name.

    ## Example
    ```python
    w = torch.randn(3, requires_grad=True).to(device)
    optimizer = torch.optim.Adam([w])
    ```
    Use instead:
    ```python
    w = torch.randn(3).to(device).requires_grad_()
    optimizer = torch.optim.Adam([w])
    ```

    ## Fix safety
    Unsafe: if the tensor was on that device already, `.to()` copied nothing and the code worked; the tensor before it
    is then no longer the one that is optimized.
    """

    code, name, since = "DG110", "non-leaf-in-optimizer", "0.1"
    severity = "error"
    calls = _OPTIMIZERS
    VALID = [
        Valid("w = torch.randn(3, device='cuda', requires_grad=True)\ntorch.optim.Adam([w])"),
        Valid("w = (torch.randn(3, requires_grad=True) * 0.1).detach().requires_grad_()\ntorch.optim.SGD([w], lr=0.1)"),
        Valid("w = nn.Parameter(torch.randn(3).cuda())\ntorch.optim.SGD([w], lr=0.1)"),
        Valid("w = torch.randn(3, requires_grad=True).to('cpu')\ntorch.optim.SGD([w], lr=0.1)"),
        Valid("w = torch.randn(3, requires_grad=True) * 2\nw.retain_grad()\ntorch.optim.SGD([w], lr=0.1)"),
        Valid("net = nn.Linear(2, 2).cuda()\ntorch.optim.SGD(net.parameters(), lr=0.1)"),
        Valid("def build(w, device):\n    return torch.optim.SGD([w.to(device)], lr=0.1)"),
    ]
    INVALID = [
        Invalid(
            "w = torch.randn(3, requires_grad=True).double()\noptimizer = torch.optim.Adam([w], lr=0.1)",
            "w = torch.randn(3).double().requires_grad_()\noptimizer = torch.optim.Adam([w], lr=0.1)",
            at=(1, 4, 1, 47),
        ),
        Invalid(
            "w = torch.randn(3, requires_grad=True) * 0.1\nopt = torch.optim.SGD([{'params': [w]}], lr=0.1)",
            "w = (torch.randn(3) * 0.1).requires_grad_()\nopt = torch.optim.SGD([{'params': [w]}], lr=0.1)",
        ),
        Invalid(
            """
            import torch
            from torch import nn, optim

            device = "cuda" if torch.cuda.is_available() else "cpu"
            latent = nn.Parameter(torch.zeros(1, 64)).to(device)
            generator = nn.Linear(64, 3).to(device).requires_grad_(False)
            params = [latent]
            optimizer = optim.Adam(params, lr=0.01)
            for _ in range(100):
                loss = (generator(latent) - 1).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            """
            import torch
            from torch import nn, optim

            device = "cuda" if torch.cuda.is_available() else "cpu"
            latent = nn.Parameter(torch.zeros(1, 64)).to(device).detach().requires_grad_()
            generator = nn.Linear(64, 3).to(device).requires_grad_(False)
            params = [latent]
            optimizer = optim.Adam(params, lr=0.01)
            for _ in range(100):
                loss = (generator(latent) - 1).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """,
            severity="warning",
        ),
        Invalid(
            "image = torch.rand(1, 3, 8, 8)\nimage.requires_grad = True\nimage = image.view(3, 64)\n"
            "torch.optim.LBFGS([image])",
            "image = torch.rand(1, 3, 8, 8)\nimage.requires_grad = True\n"
            "image = image.view(3, 64).detach().requires_grad_()\ntorch.optim.LBFGS([image])",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or not call.target.startswith("torch.optim."):
            return
        given = call.keywords.get("params") or (call.operands[0] if call.operands else None)
        if given is None:
            return
        for expression, value in _tensors(given, ctx.value(given), ctx):
            if value.requires_grad is True and value.leaf is False and not _retains(expression, ctx):
                yield self._finding(expression, value, ctx)

    def _finding(self, expression: ast.expr, tensor: Tensor, ctx: Context) -> Finding:
        origin = tensor.origin
        how = f"the result of {origin.operation}" if origin else "computed"
        moved = tensor.made_by("to") and tensor.device != "cuda" and not (tensor.device or "").startswith("cuda:")
        # Where the leaf is left behind is where the program changes; the optimizer only says so.
        origin_is_here = origin is not None and ctx.function(origin.node) is ctx.function(expression)
        at = origin.node if origin is not None and origin_is_here else expression
        places = [("passed to the optimizer here", expression)] if at is not expression else []
        if origin is not None and not origin_is_here:
            places = [("the leaf tensor is here", origin.node)]
        return ctx.finding(
            self,
            at,
            f"`{ctx.source_of(expression)}` is not a leaf but {how}; "
            + ("unless that copied nothing, " if moved else "")
            + 'the optimizer raises "can\'t optimize a non-leaf Tensor"',
            severity="warning" if moved else "error",
            related=places,
            fixes=[as_leaf(origin.node, ctx)] if origin else [],
        )


def _tensors(given: ast.expr, value: Value, ctx: Context) -> Iterator[tuple[ast.expr, Tensor]]:
    """Yield the tensors in what an optimizer is given: a list of them, or of groups."""
    match given, value:
        case (ast.List() | ast.Tuple(), _):
            for element in given.elts:
                yield from _in_element(element, ctx.value(element), ctx)
        case (_, Sequence(items=tuple(items))):
            for item in items:
                yield from _in_element(given, item, ctx)
        case _:
            pass


def _in_element(expression: ast.expr, value: Value, ctx: Context) -> Iterator[tuple[ast.expr, Tensor]]:
    if isinstance(value, Tensor):
        yield expression, value
    elif isinstance(expression, ast.Dict):
        for key, held in zip(expression.keys, expression.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "params":
                yield from _in_element(held, ctx.value(held), ctx)
                yield from _tensors(held, ctx.value(held), ctx)
    elif isinstance(value, Mapped) and isinstance(value.entries.get("params"), (Tensor, Sequence)):
        held = value.entries["params"]
        for item in held.items or () if isinstance(held, Sequence) else (held,):
            if isinstance(item, Tensor):
                yield expression, item


def _retains(expression: ast.expr, ctx: Context) -> bool:
    """Say whether ``retain_grad()`` is called here: optimizers then take the tensor."""
    calls = (n for n in nodes_within(scope_of(expression, ctx)) if isinstance(n, ast.Attribute))
    return any(node.attr == "retain_grad" for node in calls)


def as_leaf(made: ast.expr, ctx: Context) -> Fix | None:
    """Return the fix that makes the result of an operation itself the leaf."""
    title = "Make the result the leaf"
    flags = [
        call
        for call in walk(made)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == "requires_grad" and isinstance(keyword.value, ast.Constant)
    ]
    text = as_operand(ctx, made)
    if len(flags) != 1:
        return ctx.fix(title, ctx.replace(made, f"{text}.detach().requires_grad_()"))
    opening = ctx.insert_before(made, "(") if text.startswith("(") and text != ctx.source_of(made) else None
    closing = ctx.insert_after(made, ").requires_grad_()" if opening else ".requires_grad_()")
    edits = [ctx.remove_keyword(flags[0], "requires_grad"), closing]
    return ctx.fix(title, *([opening] if opening else []), *edits)
