"""Rule DG903: a side effect that a dry run refuses, and could not go on without."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class BlockedSideEffect(Rule):
    """
    ## What it does
    Names the line where a dry run ended because the sandbox refuses what the code needs: a network connection, another
    program, or user input. Writing files is allowed; they are discarded after the run.

    ## Why is this bad?
    The code is fine. But nothing after that line was executed, so the run says nothing about it.

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
