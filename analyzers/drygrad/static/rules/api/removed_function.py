"""Rule DG817: a function that torch has removed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.expected_errors import is_expected
from drygrad.static.rules.api.guards import is_guarded
from drygrad.torchmodel.operations import removed_functions


class RemovedFunction(Rule):
    """
    ## What it does
    Finds calls of functions that torch has removed and only keeps to say so: `torch.symeig`, `torch.lstsq`,
    `torch.solve` ...

    ## Why is this bad?
    The call raises RuntimeError. Their replacements in `torch.linalg` often take arguments in a different order, or
    return something else. The list of functions, and what to use instead, comes from torch's own messages.

    ## Example
    ```python
    values, vectors = torch.symeig(matrix, eigenvectors=True)
    ```
    Use instead:
    ```python
    values, vectors = torch.linalg.eigh(matrix)
    ```
    """

    code, name, since = "DG817", "removed-function", "0.1"
    severity = "error"
    torch = ("2.0", None)
    tags = ("deprecated",)
    calls = frozenset(name.rpartition(".")[2] for name in removed_functions())
    VALID = [
        Valid("values, vectors = torch.linalg.eigh(torch.eye(3))"),
        Valid("x = torch.linalg.solve(torch.eye(3), torch.ones(3))"),
        Valid("def f(system):\n    return system.solve()"),
        Valid(
            "def f(m):\n    if hasattr(torch.linalg, 'eigh'):\n        return torch.linalg.eigh(m)\n    else:\n"
            "        return torch.symeig(m, eigenvectors=True)"
        ),
        Valid("m = torch.eye(3)\ntry:\n    v = torch.symeig(m)\nexcept RuntimeError:\n    v = torch.linalg.eigh(m)"),
    ]
    INVALID = [
        Invalid("values, vectors = torch.symeig(torch.eye(3), eigenvectors=True)", at=(1, 18, 1, 63)),
        Invalid("def f(m: torch.Tensor):\n    return m.symeig(eigenvectors=True)"),
        Invalid("from torch import lstsq\n\nsolution, _ = lstsq(torch.ones(3, 1), torch.eye(3))"),
        Invalid("import torch as th\nrank = th.matrix_rank(th.eye(3))"),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or not call.receiver_known or is_expected(node, ctx) or is_guarded(node, ctx):
            return
        target = f"torch.{call.target}" if call.form == "method" else call.target
        words = removed_functions().get(target)
        if words is not None:
            said = ". ".join(words.split(". ")[:2]).rstrip(".")
            yield ctx.finding(self, node, f"{target} raises RuntimeError: {said}")
