"""Rule DG820: a keyword that a function of torch does not take."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Span, Valid
from drygrad.static.context import Context
from drygrad.static.expected_errors import is_expected
from drygrad.static.facts.values import Reference
from drygrad.static.rules.api.guards import is_guarded
from drygrad.torchmodel.operations import keywords_of, torch_version


class UnknownKeyword(Rule):
    """
    ## What it does
    Finds keyword arguments that a function or class of torch does not take: misspelled ones, such as `dims=` in
    `torch.cat`, and removed ones, such as `verbose=` of learning rate schedulers.

    The keywords are those of the torch release that drygrad was built against. Code that checks the version or catches
    the error is left alone. Methods of tensors, `**arguments`, and functions that take any keyword are not checked.

    ## Why is this bad?
    The call raises TypeError when it is reached, which may be after hours of training.

    ## Example
    ```python
    joined = torch.cat([torch.ones(2, 3), torch.ones(2, 3)], dims=1)
    ```
    Use instead:
    ```python
    joined = torch.cat([torch.ones(2, 3), torch.ones(2, 3)], dim=1)
    ```

    ## Fix safety
    Unsafe: the fix takes the keyword of the nearest spelling, or removes an argument that is True or False.
    """

    code, name, since = "DG820", "unknown-keyword", "0.1"
    severity = "warning"
    torch = (torch_version(), None)
    VALID = [
        Valid("joined = torch.cat([torch.ones(2), torch.ones(2)], axis=0)"),
        Valid("import torch.nn.functional as F\n\np = F.softmax(torch.ones(2, 3), dim=-1, dtype=torch.float64)"),
        Valid("total = torch.sum(torch.ones(2, 3), dim=0, keepdims=True)"),
        Valid(
            "model = torch.nn.LSTM(3, 4, batch_first=True)\nm = torch.nn.Conv2d(3, 4, kernel_size=3, padding='same')"
        ),
        Valid("def f(**kwargs):\n    return torch.zeros(3, **kwargs)"),
        Valid("def cat(tensors, dims):\n    return tensors\n\n\njoined = cat([], dims=1)"),
        Valid("try:\n    x = torch.zeros(3, names=('N',))\nexcept TypeError:\n    x = torch.zeros(3)"),
        Valid("import torch.optim as optim\n\ns = optim.lr_scheduler.StepLR(opt, 3, verbose=True)", target_torch="2.1"),
        Valid(
            "class Low(torch.nn.Linear):\n    def __init__(self, rank):\n        super().__init__(3, rank)\n\n\n"
            "Low(rank=2)"
        ),
    ]
    INVALID = [
        Invalid(
            "joined = torch.cat([torch.ones(2), torch.ones(2)], dims=0)",
            at=(1, 51, 1, 57),
            fixed="joined = torch.cat([torch.ones(2), torch.ones(2)], dim=0)",
        ),
        Invalid(
            "from torch.nn import functional as F\n\np = F.softmax(torch.ones(2, 3), dims=-1)",
            fixed="from torch.nn import functional as F\n\np = F.softmax(torch.ones(2, 3), dim=-1)",
        ),
        Invalid(
            "from torch.optim.lr_scheduler import ReduceLROnPlateau\n\n"
            "s = ReduceLROnPlateau(opt, patience=3, verbose=True)",
            fixed="from torch.optim.lr_scheduler import ReduceLROnPlateau\n\ns = ReduceLROnPlateau(opt, patience=3)",
        ),
        Invalid("layer = torch.nn.Conv2d(3, 4, kernal_size=3)", fixed="layer = torch.nn.Conv2d(3, 4, kernel_size=3)"),
        Invalid("import torch\n\nopt = torch.optim.AdamW(params, learning_rate=0.1)"),
        Invalid("product = torch.einsum(equation='ij,jk->ik', operands=matrices)", count=2),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        called = ctx.value(node.func) if node.keywords else None
        if not isinstance(called, Reference):
            return
        taken = keywords_of(called.name)
        if taken is None or is_guarded(node, ctx) or is_expected(node, ctx):
            return
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg not in taken:
                message = f"`{called.name}` takes no `{keyword.arg}` in torch {torch_version()}; this raises TypeError"
                fix = _fix(node, keyword, keyword.arg, taken, ctx)
                yield ctx.finding(self, keyword, message, fixes=[fix])


def _fix(call: ast.Call, keyword: ast.keyword, name: str, taken: frozenset[str], ctx: Context) -> Fix | None:
    given = {other.arg for other in call.keywords}
    near = get_close_matches(name, sorted(taken - given), 1)
    if near:
        start = ctx.source.start(keyword)
        end = start._replace(column=start.column + len(name))
        return ctx.fix(f"Rename `{name}` to `{near[0]}`", Edit(Span(start, end), near[0]))
    if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool):
        return ctx.fix(f"Remove `{name}`", ctx.remove_keyword(call, name))
    return None
