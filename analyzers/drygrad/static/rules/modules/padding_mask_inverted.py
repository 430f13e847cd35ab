"""Rule DG751: a padding mask that is True where there is something to attend to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.loss.origins import maker
from drygrad.static.syntax import last_assignment

_MASKS = ("key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask")
_PADDING = re.compile(r"pad", re.I)
_MASK = re.compile(r"mask|pad", re.I)


class PaddingMaskInverted(Rule):
    """
    ## What it does
    Finds padding masks for torch's attention and transformer layers that are True for real elements: created with
    `positions < lengths` or `tokens != padding`.

    ## Why is this bad?
    `key_padding_mask` and similar arguments say which elements to *ignore*. With an inverted mask, attention only sees
    the padding, without an error, and the output depends on how much the other samples in the batch are padded. A row
    without padding attends to nothing: its output is NaN, or 0 where torch uses `scaled_dot_product_attention`.

    ## Example
    ```python
    encoder = nn.TransformerEncoderLayer(64, 4, batch_first=True)
    encoded = encoder(x, src_key_padding_mask=tokens != 0)
    ```
    Use instead:
    ```python
    encoder = nn.TransformerEncoderLayer(64, 4, batch_first=True)
    encoded = encoder(x, src_key_padding_mask=tokens == 0)
    ```

    ## Fix safety
    Unsafe: it changes what the model computes.

    ## References
    - [MultiheadAttention](https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html)
    """

    code, name, since = "DG751", "padding-mask-inverted", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            "layer = nn.TransformerEncoderLayer(8, 2)\n"
            "def f(x, ids):\n    return layer(x, src_key_padding_mask=ids == 0)"
        ),
        Valid(
            """
            attention = nn.MultiheadAttention(8, 2, batch_first=True)

            def f(x, lengths):
                seen = torch.arange(x.size(1), device=x.device) < lengths[:, None]
                return attention(x, x, x, key_padding_mask=~seen)
            """
        ),
        Valid(
            "layer = nn.TransformerEncoderLayer(8, 2)\n"
            "def f(x, is_padding_mask):\n    return layer(x, src_key_padding_mask=is_padding_mask != 0)"
        ),
        Valid("def f(model, x, ids):\n    return model(x, key_padding_mask=ids != 0)  # a model of one's own"),
    ]
    INVALID = [
        Invalid(
            "layer = nn.TransformerEncoderLayer(8, 2)\n"
            "def f(x, ids):\n    return layer(x, src_key_padding_mask=ids != 0)",
            "layer = nn.TransformerEncoderLayer(8, 2)\n"
            "def f(x, ids):\n    return layer(x, src_key_padding_mask=~(ids != 0))",
            at=(3, 41, 3, 49),
        ),
        Invalid(
            """
            attention = nn.MultiheadAttention(8, 2, batch_first=True)

            def f(x, lengths):
                steps = torch.arange(x.size(1))
                mask = steps < lengths.unsqueeze(1)
                return attention(x, x, x, key_padding_mask=mask)
            """,
            """
            attention = nn.MultiheadAttention(8, 2, batch_first=True)

            def f(x, lengths):
                steps = torch.arange(x.size(1))
                mask = steps < lengths.unsqueeze(1)
                return attention(x, x, x, key_padding_mask=~mask)
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        given = next((found for found in map(call.operand, _MASKS) if found is not None), None) if call else None
        if given is None:
            return
        made = last_assignment(ctx, given.id, ctx.statement(node)) if isinstance(given, ast.Name) else given
        if made is not None and _marks_the_real(made, ctx):
            related = [("True marks the real tokens here", made)] if made is not given else []
            message = "a key padding mask is True at padding, but this one is True at the real tokens"
            yield ctx.finding(self, given, message, related=related, fixes=[_fix(given, ctx)])


def _marks_the_real(made: ast.expr, ctx: Context) -> bool:
    match made:
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]):
            return not _MASK.search(ast.unparse(left)) and _is_padding(right)
        case ast.Call(func=ast.Attribute(value=left, attr="ne"), args=[right]):
            return not _MASK.search(ast.unparse(left)) and _is_padding(right)
        case ast.Compare(left=left, ops=[ast.Lt()], comparators=[right]):
            return _counts(left, ctx) and not _counts(right, ctx)
        case ast.Compare(left=left, ops=[ast.Gt()], comparators=[right]):
            return _counts(right, ctx) and not _counts(left, ctx)
        case _:
            return False


def _is_padding(node: ast.expr) -> bool:
    is_zero = isinstance(node, ast.Constant) and type(node.value) is int and node.value == 0
    return is_zero or (isinstance(node, (ast.Name, ast.Attribute)) and _PADDING.search(ast.unparse(node)) is not None)


def _counts(node: ast.expr, ctx: Context) -> bool:
    """Say whether a tensor holds positions: what ``arange`` made, however it is laid out."""
    origin = maker(ctx.tensor(node))
    return origin is not None and origin.operation == "arange"


def _fix(given: ast.expr, ctx: Context) -> Fix | None:
    edits = [ctx.insert_before(given, "~")]
    if isinstance(given, ast.Compare):
        edits = [ctx.insert_before(given, "~("), ctx.insert_after(given, ")")]
    return ctx.fix("Invert the mask", *edits)
