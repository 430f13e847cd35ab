"""Rule DG203: a tensor made on the CPU that meets what a caller or a module places."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Rule
from drygrad.static.context import Context
from drygrad.static.rules.device.apart import apart, by_init, called_model, repaired, whose
from drygrad.static.rules.device.factory_examples import INVALID, VALID


class FactoryWithoutDeviceInForward(Rule):
    """
    ## What it does
    Finds `torch.zeros`, `torch.arange`, `torch.tensor([...])` and the like without `device=` in a function or method,
    where the new tensor meets an argument or a parameter of the module: directly, through other names or functions of
    the file, or later, if `forward` stores it on `self` (such as a table that grows with the input).

    It may also meet a tensor that was moved to a device chosen at run time (`self.device`) or computed from one by a
    model, the parameters of an optimizer or its state, or a tensor that was passed to the constructor of an object. A
    model whose code is not known (`self.model(x, mask)`) may move its inputs itself, so that is an info.

    ## Why is this bad?
    The new tensor is on the CPU; arguments and parameters are wherever the caller put them. On a GPU the first
    operation on both raises "Expected all tensors to be on the same device". `register_buffer` and the module's
    `.to(device)` do not help with a tensor that is created in every call. Functions that work on the CPU by design
    (datasets, plots), and those that the file only calls with CPU tensors, are skipped.

    ## Example
    ```python
    def embed(tokens: torch.Tensor, table: torch.Tensor):
        positions = torch.arange(tokens.size(1))
        return table[tokens] + positions[:, None]
    ```
    Use instead:
    ```python
    def embed(tokens: torch.Tensor, table: torch.Tensor):
        positions = torch.arange(tokens.size(1), device=tokens.device)
        return table[tokens] + positions[:, None]
    ```

    ## Fix safety
    Safe: if everything is on the CPU the tensor is the same, and otherwise the code raised. Unsafe if the device is
    taken from the module's parameters, since there may be none.
    """

    code, name, since = "DG203", "factory-without-device-in-forward", "0.1"
    VALID = VALID
    INVALID = INVALID

    def visit_file(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for found in apart(ctx):
            if by_init(found) is not None:
                continue
            other = ctx.source_of(found.fault.other)
            made, model = found.fault.made, called_model(found)
            raises = f"`{ctx.source_of(model)}` is given both" if model is not None else "the operation on both raises"
            yield ctx.finding(
                self,
                found.site,
                f"`{ctx.source_of(made.factory.func)}` creates its tensor on the CPU; `{other}` is "
                f"{whose(found, ctx)}, so on a GPU {raises}",
                severity="info" if model is not None else None,
                related=[("the two meet here", found.fault.node)],
                fixes=[repaired(found, ctx)],
            )
