"""Rule DG928: an input, or features of one, that change no result."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class InputIgnored(Rule):
    """
    ## What it does
    Changes one tensor argument after the other, in several ways. Where a target computes with it and every result
    stays the same to the last bit, it tells where the influence ends: the last operation that changes, or the one that
    reads it and comes to the same. Of a module's inputs it then looks for features (the second axis of two or four)
    to which no gradient comes back, changes them, and tells those that change nothing.

    What is not computed with is left out: arguments that only give a shape, or that nothing reads; so are inputs whose
    values go into a buffer, or that the target refuses to have otherwise. Parameters that are 0 throughout get other
    values first: a gate that is closed opens while it trains. It is an info, for an input may be meant for later.

    ## Why is this bad?
    A mask that is filled into a discarded copy, a branch that is left out of the sum, a slice that is read twice: the
    program runs, and learns from less than it is given.

    ## Example
    ```python
    scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(-1)
    ```
    Use instead:
    ```python
    scores = scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(-1)
    ```
    """

    code, name, since = "DG928", "input-ignored", "0.1"
    severity: ClassVar[Severity] = "info"
    run_only = True
    relation = "inputs matter"
    VALID = [
        Valid(
            """
            import torch

            # dry-run: scores=torch.randn(3, 5), mask=torch.ones(3, 5, dtype=torch.bool)
            def attend(scores, mask):
                scores = scores.masked_fill(~mask, -1e9)
                return scores.softmax(-1)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: scores=torch.randn(3, 5), mask=torch.ones(3, 5, dtype=torch.bool)
            def attend(scores, mask):
                weights = scores.masked_fill(~mask, -1e9)
                return scores.softmax(-1)
            """,
        ),
    ]
