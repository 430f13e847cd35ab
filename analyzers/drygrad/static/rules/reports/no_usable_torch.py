"""DG905: a dry run was asked for, and the interpreter has no torch that it could run with."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class NoUsableTorch(Rule):
    """
    ## What it does
    Says why no dry run is possible: the chosen interpreter cannot be started, has no torch, or its torch cannot be
    imported or is older than 2.7.

    ## Why is this bad?
    Nothing is wrong with the code, but faults that only a run can see stay hidden. Often the wrong interpreter was
    found: drygrad tries `--python` or the editor's setting, VIRTUAL_ENV, the project's `.venv`, CONDA_PREFIX, and
    finally PATH.

    ## Example
    ```console
    drygrad run train.py
    ```
    Use instead:
    ```console
    drygrad run --python /opt/envs/train/bin/python train.py
    ```
    """

    code, name, since = "DG905", "no-usable-torch", "0.2"
    severity: ClassVar[Severity] = "error"
    reports: ClassVar[bool] = True
    run_only: ClassVar[bool] = True
    VALID: ClassVar[list[Valid]] = [
        Valid("import torch\n\n\n# dry-run: x=torch.ones(3)\ndef total(x):\n    return x.sum()\n")
    ]
    INVALID: ClassVar[list[Invalid]] = [
        Invalid("import torch\n\n\n# dry-run: x=torch.ones(3)\ndef total(x):\n    return x.sum()\n", at=(5, 4, 5, 9))
    ]
