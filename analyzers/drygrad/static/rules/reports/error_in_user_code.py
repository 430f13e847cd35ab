"""Rule DG907: an error that leaves the user's code, and that no rule can explain further."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class ErrorInUserCode(Rule):
    """
    ## What it does
    Reports an error that ended a dry run at the innermost line of the user's, in its own words: a `KeyError`, a failed
    assertion, or a refusal of torch's for which drygrad has no rule. So is an error of torch's that a handler
    merely prints or passes over.

    ## Why is this bad?
    The same call fails in the same way outside the dry run.

    ## Example
    ```python
    def rate(settings):
        return settings["lr"]
    ```
    Use instead:
    ```python
    def rate(settings):
        return settings.get("lr", 1e-3)
    ```
    """

    code, name, since = "DG907", "error-in-user-code", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            # dry-run: settings={"rate": 0.1}
            def rate(settings):
                return settings.get("lr", 1e-3)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            # dry-run: settings={"rate": 0.1}
            def rate(settings):
                return settings["lr"]
            """,
            at=(3, 11, 3, 25),
        ),
    ]
