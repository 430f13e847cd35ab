"""Rule DG907: an error that leaves the user's code, and that no rule can explain further."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class ErrorInUserCode(Rule):
    """
    ## What it does
    Reports the error that ended a dry run, on the innermost line of your code and in its own words: a `KeyError`, a
    failed assertion, or a torch error without a rule of its own. Torch errors that a handler only prints or ignores are
    reported too.

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
