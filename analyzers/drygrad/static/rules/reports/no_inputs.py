"""DG901: a function that cannot be dry-run, for nothing says what to call it with."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class NoInputs(Rule):
    """
    ## What it does
    Says why a function could not be dry-run: no comment and no call in the file gives its arguments, and no working
    inputs were found; or the comment is invalid, or uses names that the file does not define. For a program: its
    command line lacks required arguments, and no launch of the project provides them (`drygrad launches` lists them);
    the message contains the command to complete.

    ## Why is this bad?
    Nothing is wrong with the code. But without inputs it cannot run, so faults that only a run can see stay hidden.

    ## Example
    ```python
    def score(x, *, table):
        return x.sum() * json.loads(table)["scale"]
    ```
    Use instead:
    ```python
    # dry-run: x=torch.randn(4, 8), table='{"scale": 0.5}'
    def score(x, *, table):
        return x.sum() * json.loads(table)["scale"]
    ```

    ## Fix safety
    Safe: it inserts a comment to complete, with the inputs that got furthest or `...` for each missing one.
    """

    code, name, since = "DG901", "no-inputs", "0.2"
    severity: ClassVar[Severity] = "info"
    reports: ClassVar[bool] = True
    run_only: ClassVar[bool] = True
    VALID: ClassVar[list[Valid]] = [
        Valid("import torch\n\n\n# dry-run: x=torch.ones(3)\ndef total(x):\n    return x.sum()\n"),
        Valid("import torch\n\n\ndef total(x):\n    return x.sum()\n\n\nprint(total(torch.ones(3)))\n"),
        Valid("import torch\n\n\ndef total(x=2.0):\n    return torch.ones(3) * x\n"),
    ]
    INVALID: ClassVar[list[Invalid]] = [
        Invalid(
            "import json\n\n\ndef total(x, *, table):\n    return x.sum() * json.loads(table)['scale']\n",
            "import json\n\n\n# dry-run: x=torch.randn(2, 64), table=torch.randn(2, 64)\n"
            "def total(x, *, table):\n    return x.sum() * json.loads(table)['scale']\n",
            at=(4, 4, 4, 9),
        ),
        Invalid("import torch\n\n\n# dry-run: y=torch.ones(3)\ndef total(x):\n    return x.sum()\n", at=(4, 11, 4, 12)),
        Invalid("import torch\n\n\n# dry-run: x=torch.ones(3\ndef total(x):\n    return x.sum()\n", at=(4, 0, 4, 25)),
        Invalid("import torch\n\n\n# dry-run: x=ones(3)\ndef total(x):\n    return x.sum()\n", at=(5, 4, 5, 9)),
    ]
