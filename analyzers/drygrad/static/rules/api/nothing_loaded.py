"""Rule DG813: a checkpoint of which a module takes nothing."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class NothingLoaded(Rule):
    """
    ## What it does
    Reports `load_state_dict(state, strict=False)` if no key of the state matches a name in the module.

    ## Why is this bad?
    `strict=False` silently ignores keys that do not match. If the keys start with `module.` (saved from
    `DataParallel`), or the weights are one level deeper, under `checkpoint["model"]`, nothing is loaded: the module
    keeps its random weights and is evaluated with them.

    ## Example
    ```python
    torch.save(nn.DataParallel(net).state_dict(), "net.pt")
    net.load_state_dict(torch.load("net.pt"), strict=False)
    ```
    Use instead:
    ```python
    torch.save(net.state_dict(), "net.pt")
    net.load_state_dict(torch.load("net.pt"))
    ```
    """

    code, name, since = "DG813", "nothing-loaded", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            # dry-run: n=3
            def load(n):
                net = nn.Sequential(nn.Linear(n, n), nn.Linear(n, 2))
                net.load_state_dict({"0.weight": torch.zeros(n, n)}, strict=False)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn as nn

            # dry-run: n=3
            def load(n):
                net = nn.Linear(n, n)
                net.load_state_dict({"module." + k: v for k, v in net.state_dict().items()}, strict=False)
            """,
            at=(7, 4, 7, 94),
        ),
    ]
