"""DG904: a comment that silences nothing."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Tag, Valid


class UnusedSuppression(Rule):
    """
    ## What it does
    Finds codes in `# drygrad: ignore[...]` that match no finding of the statement. Codes of disabled rules, codes of
    faults that only a run may see, and `# noqa` comments are not reported.

    ## Why is this bad?
    The comment claims a fault where there is none, and will hide the next one that appears there.

    ## Example
    ```python
    total = a + b  # drygrad: ignore[DG705]
    ```
    Use instead:
    ```python
    total = a + b
    ```

    ## Fix safety
    Safe: only a comment changes. A reason after the brackets stays.
    """

    code, name, since = "DG904", "unused-suppression", "0.1"
    severity: ClassVar[Severity] = "hint"
    tags: ClassVar[tuple[Tag, ...]] = ("unnecessary",)
    reports: ClassVar[bool] = True
    VALID: ClassVar[list[Valid]] = [
        Valid("total = 1 + 2\n"),
        Valid("total = 1 + 2  # drygrad: ignore\n"),
        Valid("total = 1 + 2  # noqa: DG705\n"),
        Valid("total = 1 + 2  # drygrad: ignore[DG999]\n"),
        Valid("total = 1 + 2  # drygrad: ignore[DG304] a run may see it\n"),
        Valid("total = 1 + 2  # drygrad: ignore[DG3]\n"),
        Valid("text = '''\n# drygrad: ignore[DG705]\n'''\n"),
    ]
    INVALID: ClassVar[list[Invalid]] = [
        Invalid("total = 1 + 2  # drygrad: ignore[DG705]\n", "total = 1 + 2\n", at=(1, 15, 1, 39)),
        Invalid(
            "total = 1 + 2  # drygrad: ignore[DG705] they alias\n", "total = 1 + 2  # they alias\n", at=(1, 15, 1, 50)
        ),
        Invalid("# drygrad: ignore[DG705]\ntotal = 1 + 2\n", "total = 1 + 2\n", at=(1, 0, 1, 24)),
    ]
