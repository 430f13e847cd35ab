"""DG901: a function that cannot be dry-run, for nothing says what to call it with."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class NoInputs(Rule):
    """## What it does
    Says why a function could not be dry-run: no comment gives its arguments and no call in the file does, or the
    comment cannot be read, or what it uses is not in the file.

    ## Why is this bad?
    Nothing is wrong with the code. But without inputs it cannot be run, and what only a run can see stays unseen.

    ## Example
    ```python
    def training_step(model, x, target):
        return F.cross_entropy(model(x), target)
    ```
    Use instead:
    ```python
    # dry-run: model=nn.Linear(8, 5), x=torch.randn(4, 8), target=torch.randint(0, 5, (4,))
    def training_step(model, x, target):
        return F.cross_entropy(model(x), target)
    ```

    ## Fix safety
    Safe: it inserts a comment, in which each `...` is to be filled in.
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
            "import torch\n\n\ndef total(x, *, scale):\n    return torch.sum(x) * scale\n",
            "import torch\n\n\n# dry-run: x=..., scale=...\ndef total(x, *, scale):\n    return torch.sum(x) * scale\n",
            at=(4, 4, 4, 9),
        ),
        Invalid("import torch\n\n\n# dry-run: y=torch.ones(3)\ndef total(x):\n    return x.sum()\n", at=(4, 11, 4, 12)),
        Invalid("import torch\n\n\n# dry-run: x=torch.ones(3\ndef total(x):\n    return x.sum()\n", at=(4, 0, 4, 25)),
        Invalid("import torch\n\n\n# dry-run: x=ones(3)\ndef total(x):\n    return x.sum()\n", at=(5, 4, 5, 9)),
    ]
