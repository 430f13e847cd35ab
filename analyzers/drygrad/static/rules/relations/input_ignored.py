"""Rule DG928: an input, or features of one, that change no result."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class InputIgnored(Rule):
    """
    ## What it does
    Changes the tensor arguments one by one, in several ways. If a target computes with an argument but every result
    stays the same to the last bit, it reports where the influence ends: the last operation that changes, or the one
    that reads the argument without effect. For inputs of a module it also looks for features (dimension 1 of two or
    four) that get no gradient, changes them, and reports those without effect.

    Arguments that only provide a shape, or that nothing reads, are skipped, as are inputs whose values go into a
    buffer, or that the target rejects when changed. Parameters that are all 0 get other values first: a closed gate
    opens during training. It is an info, because an input may be reserved for later.

    ## Why is this bad?
    A mask filled into a discarded copy, a branch missing from a sum, the same slice read twice: the program runs, but
    learns from less than it is given.

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
