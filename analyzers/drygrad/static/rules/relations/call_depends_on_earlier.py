"""Rule DG929: a call that comes to something else because another came before it."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class CallDependsOnEarlier(Rule):
    """
    ## What it does
    Calls a function, or a module in eval mode, with other values and sizes: once in a fresh process, and once after the
    run's first call. If the second fails or differs, it reports the line that uses state left by the first call.

    ## Why is this bad?
    A mask created for the first length, a state for the first batch, a cache with an incomplete key, or a modified
    default argument: the first batch is right, and the next one fails or, worse, gets the first one's answer. State
    kept on purpose is not reported: objects with methods, `global`, lists and dicts passed in.

    ## Example
    ```python
    def forward(self, x):
        if self.mask is None:
            self.mask = torch.ones(x.shape[1], x.shape[1]).tril().bool()
        return x.masked_fill(~self.mask, float("-inf")).softmax(-1)
    ```
    Use instead:
    ```python
    def forward(self, x):
        if self.mask is None or len(self.mask) != x.shape[1]:
            self.mask = torch.ones(x.shape[1], x.shape[1]).tril().bool()
        return x.masked_fill(~self.mask, float("-inf")).softmax(-1)
    ```
    """

    code, name, since = "DG929", "call-depends-on-earlier", "0.1"
    run_only = True
    relation = "calls are independent"
    VALID = [
        Valid(
            """
            import torch

            # dry-run: x=torch.randn(4)
            def f(x, seen=None):
                seen = seen or []
                seen.append(x)
                return torch.stack(seen).mean(0)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: x=torch.randn(4)
            def f(x, seen=[]):
                seen.append(x)
                return torch.stack(seen).mean(0)
            """,
        ),
    ]
