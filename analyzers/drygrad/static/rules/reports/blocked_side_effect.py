"""Rule DG903: a side effect that a dry run refuses, and could not go on without."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class BlockedSideEffect(Rule):
    """
    ## What it does
    Names the line where a dry run ended because it refuses what the code asks for: a network connection, another
    program, or an answer of the user's. Files may be written; they vanish with the run.

    ## Why is this bad?
    It is no fault of the code. But nothing behind that line was executed, so that the run says nothing of it.

    ## Example
    ```python
    def train(model):
        name = input("Name of the run? ")
        model.train()
    ```
    Use instead:
    ```python
    def train(model, name):
        model.train()
    ```
    """

    code, name, since = "DG903", "blocked-side-effect", "0.1"
    severity = "hint"
    run_only = True
    VALID = [
        Valid(
            """
            # dry-run: name="first"
            def greet(name):
                print(name)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            # dry-run: greeting="hello"
            def greet(greeting):
                name = input("Name? ")
                print(greeting, name)
            """,
            at=(3, 11, 3, 26),
        ),
    ]
