"""Rule DG755: a causal mask that hides the past and shows the future."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Origin, Tensor

Half = Literal["lower", "upper"]
_HIDES = frozenset(
    "multi_head_attention transformer_encoder transformer_encoder_layer transformer_decoder "
    "transformer_decoder_layer transformer".split()
)
"""Layers whose boolean masks are True where attention is not allowed."""
_SHOWS = "scaled_dot_product_attention"
"""The function whose boolean mask is True where attention takes place."""
_MASKS = ("attn_mask", "mask", "src_mask", "tgt_mask")
_KEEPS = frozenset("to bool byte unsqueeze expand cuda view contiguous".split())
_INVERTS = frozenset({"logical_not", "bitwise_not"})
_DEPTH = 6


class CausalMaskInverted(Rule):
    """
    ## What it does
    Finds boolean masks made with `tril` for torch's attention and transformer layers, and with `triu` for
    `F.scaled_dot_product_attention`.

    ## Why is this bad?
    They interpret `True` in opposite ways: in `nn.MultiheadAttention` and `nn.Transformer` it marks positions to
    ignore, in `scaled_dot_product_attention` positions to attend to. With an inverted mask, each position sees the
    future, which it should predict, and never its past: the training loss falls to almost nothing, and generation is
    useless. Nothing raises.

    ## Example
    ```python
    attention = nn.MultiheadAttention(64, 4)
    mask = torch.tril(torch.ones(t, t)).bool()
    out, _ = attention(x, x, x, attn_mask=mask)
    ```
    Use instead:
    ```python
    attention = nn.MultiheadAttention(64, 4)
    mask = torch.triu(torch.ones(t, t), diagonal=1).bool()
    out, _ = attention(x, x, x, attn_mask=mask)
    ```

    ## Fix safety
    Unsafe: it changes what the model computes.
    """

    code, name, since = "DG755", "causal-mask-inverted", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

                def forward(self, x: torch.Tensor):
                    t = x.size(1)
                    hidden = torch.triu(torch.ones(t, t, device=x.device), diagonal=1).bool()
                    other = ~torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
                    x, _ = self.attention(x, x, x, attn_mask=hidden)
                    x, _ = self.attention(x, x, x, attn_mask=other)
                    seen = torch.ones(t, t, device=x.device).tril().bool()
                    return F.scaled_dot_product_attention(x, x, x, attn_mask=seen)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

                def forward(self, x: torch.Tensor):
                    t = x.size(1)
                    mask = torch.tril(torch.ones(t, t)).bool()
                    return self.attention(x, x, x, attn_mask=mask)[0]
            """,
            """
            class Block(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

                def forward(self, x: torch.Tensor):
                    t = x.size(1)
                    mask = torch.tril(torch.ones(t, t)).bool()
                    return self.attention(x, x, x, attn_mask=~mask)[0]
            """,
            at=(9, 49, 9, 53),
        ),
        Invalid(
            """
            def attend(q, k, v, t):
                mask = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
                return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            """,
            """
            def attend(q, k, v, t):
                mask = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
                return F.scaled_dot_product_attention(q, k, v, attn_mask=~mask)
            """,
        ),
    ]

    calls = tuple(sorted(_HIDES | {_SHOWS}))

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None:
            return
        for name in _MASKS:
            mask = call.keywords.get(name)
            tensor = ctx.tensor(mask)
            if mask is None or tensor is None or tensor.dtype not in (None, "bool"):
                continue
            half, is_boolean = _half(tensor)
            wrong = "upper" if call.operation == _SHOWS else "lower"
            if half != wrong or not (is_boolean or tensor.dtype == "bool"):
                continue
            means = "what takes part" if call.operation == _SHOWS else "what is hidden"
            message = f"True means {means} here, so each position sees the future instead of the past"
            text = ctx.source_of(mask)
            inverted = f"~{text}" if isinstance(mask, (ast.Name, ast.Attribute, ast.Call)) else f"~({text})"
            yield ctx.finding(self, mask, message, fixes=[ctx.fix("Invert the mask", ctx.replace(mask, inverted))])


def _half(tensor: Tensor) -> tuple[Half | None, bool]:
    """Return the triangle in which a mask is True, and whether it was made boolean on the way."""
    turned, boolean = False, tensor.dtype == "bool"
    origin: Origin | None = tensor.origin
    for _ in range(_DEPTH):
        if origin is None or origin.operation in ("tril", "triu"):
            break
        inner = next((value for value in origin.operands if isinstance(value, Tensor)), None)
        compared = next((value.value for value in origin.operands if isinstance(value, Constant)), None)
        boolean = boolean or origin.operation in ("bool", "eq", "ne", "gt")
        if origin.operation in _INVERTS or (origin.operation == "eq" and compared == 0):
            turned = not turned
        elif origin.operation not in _KEEPS | {"ne", "gt", "eq"}:
            return None, boolean
        origin = inner.origin if inner is not None else None
    if origin is None or origin.operation not in ("tril", "triu"):
        return None, boolean
    lower = (origin.operation == "tril") != turned
    return ("lower" if lower else "upper"), boolean
