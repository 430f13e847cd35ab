"""Rule DG104: an edit through ``.data`` that autograd does not see."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.events import InplaceWrite
from drygrad.static.facts.values import Tensor
from drygrad.static.rules.autograd.inplace import rebinding, replaced, spelled, through_data


class DataAttributeEdit(Rule):
    """
    ## What it does
    Finds in-place writes through `.data` to a tensor that an earlier operation saved for backward.

    ## Why is this bad?
    `.data` hides the write from autograd. An ordinary in-place write, or one through `detach()`, would make
    `backward()` raise; this one silently gives wrong gradients: after `y = w.sigmoid(); y.data.zero_()` the gradient of
    `w = 0.3` is 0.0 instead of 0.2445. Editing parameters between backward and the next forward is harmless and not
    reported.

    ## Example
    ```python
    y = torch.sigmoid(nn.Linear(8, 1)(x))
    y.data.clamp_(min=0.1)
    loss = y.log().sum()
    loss.backward()
    ```
    Use instead:
    ```python
    y = torch.sigmoid(nn.Linear(8, 1)(x))
    y = y.clamp(min=0.1)
    loss = y.log().sum()
    loss.backward()
    ```

    ## Fix safety
    Unsafe: the gradients change, and other names for the tensor keep its old content.
    """

    code, name, since = "DG104", "data-attribute-edit", "0.1"
    severity = "warning"
    VALID = [
        Valid("w = torch.rand(3, requires_grad=True)\nw.sigmoid().sum().backward()\nw.data -= 0.1 * w.grad"),
        Valid("fc = nn.Linear(2, 2)\nfc.weight.data.normal_(0, 0.02)\nfc.bias.data.zero_()"),
        Valid("w = torch.rand(3, requires_grad=True)\ny = w + 1\ny.data.mul_(2)\ny.sum().backward()"),
        Valid("w = torch.rand(3, requires_grad=True)\nwith torch.no_grad():\n    y = w.exp()\n    y.data.mul_(2)"),
        Valid("def ema(model, average):\n    for p, q in zip(model.parameters(), average.parameters()):\n"
              "        q.data.mul_(0.9).add_(p.data, alpha=0.1)"),
        Valid("w = torch.rand(3, requires_grad=True)\ny = w.exp()\ny.data.clone().mul_(2)\ny.sum().backward()"),
    ]  # fmt: skip
    INVALID = [
        Invalid(
            "w = torch.rand(3, requires_grad=True)\ny = w.sigmoid()\ny.data.zero_()\ny.sum().backward()",
            at=(3, 0, 3, 6),
        ),
        Invalid("w = torch.rand(3, requires_grad=True)\ny = w * 2\nz = y * y\ny.data[0] = 0.0\nz.sum().backward()"),
        Invalid(
            """
            class Attention(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.query, self.key = nn.Linear(dim, dim), nn.Linear(dim, dim)

                def forward(self, x, mask):
                    scores = self.query(x) @ self.key(x).transpose(1, 2)
                    weights = scores.softmax(dim=-1)
                    weights.data.masked_fill_(mask, 0.0)
                    return weights @ x
            """,
            """
            class Attention(nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.query, self.key = nn.Linear(dim, dim), nn.Linear(dim, dim)

                def forward(self, x, mask):
                    scores = self.query(x) @ self.key(x).transpose(1, 2)
                    weights = scores.softmax(dim=-1)
                    weights = weights.masked_fill(mask, 0.0)
                    return weights @ x
            """,
        ),
    ]  # fmt: skip

    def visit_write(self, write: InplaceWrite, ctx: Context) -> Iterator[Finding]:
        behind = through_data(write.target)
        saved = next((saved for saved in write.saved if saved.records), None)
        if not isinstance(behind, Tensor) or behind.leaf is not False or saved is None:
            return
        yield ctx.finding(
            self,
            write.expression,
            f"{spelled(write)} through .data changes what {saved.operation} saved for backward (line "
            f"{saved.node.lineno}); autograd cannot see it, so the gradients are silently wrong",
            related=[(f"{saved.operation} saves its {saved.role} here", saved.node)],
            fixes=[_fix(write, ctx)],
        )


def _fix(write: InplaceWrite, ctx: Context) -> Fix | None:
    """Bind the local name to the result of the same operation, which autograd then records."""
    match write.expression:
        case ast.Attribute(value=ast.Name(id=name), attr="data"):
            edits = rebinding(write, name, ctx)
            title = replaced(spelled(write), spelled(write).removesuffix("_"))
            return ctx.fix(title, *edits) if edits else None
        case _:
            return None
