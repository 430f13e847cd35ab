"""Rule DG318: a view where a permutation is meant."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.operations import FACTORIES
from drygrad.static.rules.loss.heads import joins_heads_before_time
from drygrad.static.rules.loss.sizes_of_view import Layout, View, layout_of, view_of

_ALIKE = FACTORIES - {"tensor", "as_tensor", "from_numpy", "new_tensor", "arange", "linspace"}
"""Factories whose elements are all alike, or drawn alike: their order means nothing."""
_SHIFTED = frozenset({"pad", "cat"})
_SHIFTS = ("shift", "skew")


class ViewMovesAxes(Rule):
    """
    ## What it does
    Finds `view` and `reshape` that list a tensor's sizes in a different order, such as `x.view(batch, channels, time)`
    for an `x` of shape (batch, time, channels), or that put a new dimension before an existing one, such as
    `x.view(batch, heads, time, -1)`; and those that merge attention heads while the head dimension is still before
    time.

    ## Why is this bad?
    `view` and `reshape` do not swap dimensions: they keep the elements in memory order and only change the sizes. The
    shape is the expected one, so nothing raises, but every row now mixes elements of several times, channels or
    samples.

    ## Example
    ```python
    batch, time, channels = x.shape
    x = self.conv(x.view(batch, channels, time))
    ```
    Use instead:
    ```python
    x = self.conv(x.transpose(1, 2))
    ```

    ## Fix safety
    Unsafe: it changes what is computed.
    """

    code, name, since = "DG318", "view-moves-axes", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            class Attention(nn.Module):
                def __init__(self, dim, heads):
                    super().__init__()
                    self.heads = heads
                    self.q = nn.Linear(dim, dim)

                def forward(self, x):
                    b, t, c = x.size()
                    q = self.q(x).view(b, t, self.heads, c // self.heads).transpose(1, 2)
                    return q.transpose(1, 2).reshape(b, t, c), x.view(b, -1, t, c), x.view(b * t, c), x.view(b, -1, c)
            """
        ),
        Valid(
            """
            def to_map(tokens: torch.Tensor, h, w):
                b, n, c = tokens.shape
                return tokens.transpose(1, 2).view(b, c, h, w)
            """
        ),
        Valid(
            """
            def windows(x: torch.Tensor, size):
                b, h, w, c = x.shape
                x = x.view(b, h // size, size, w // size, size, c)
                return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size, size, c)
            """
        ),
        Valid(
            """
            def relative_shift(x: torch.Tensor):
                b, h, t, m = x.size()
                x = F.pad(x, (1, 0))
                return x.view(b, h, -1, t)[:, :, 1:]
            """
        ),
        Valid(
            """
            def shuffle(x: torch.Tensor, groups):
                b, c, h, w = x.shape
                x = x.view(b, groups, c // groups, h, w).transpose(1, 2)
                return x.reshape(b, c, h, w)
            """
        ),
        Valid(
            """
            def sizes(x: torch.Tensor, h: torch.Tensor):
                rows = x.view(x.size(0), -1), x.view(-1, x.size(2), x.size(3)), h.view(h.size(1), -1)
                return rows, x.reshape(x.shape[0], x.shape[1] * x.shape[2])

            def rows(x):
                b, mics, channels, frames = x.size()
                flat = x.permute(0, 3, 1, 2).reshape(b * mics * frames, channels)
                return flat.reshape(b, frames, mics, channels)
            """
        ),
        Valid(
            """
            def stacked(x: torch.Tensor, stride):
                b, t, d = x.shape
                frames = t - t % stride
                x = x[:, :frames]
                return x.reshape(b, frames // stride, d * stride)
            """
        ),
        Valid(
            """
            def rearranged(x):
                b, t, c = x.shape
                x = x.transpose(1, 2)
                return x.reshape(b, c, t)
            """
        ),
        Valid(
            """
            class Attention(nn.Module):
                def __init__(self, dim, heads):
                    super().__init__()
                    self.heads = heads
                    self.qkv = nn.Linear(dim, 3 * dim)

                def forward(self, x):
                    b, t, c = x.shape
                    q, k, v = (
                        part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1)
                    )
                    out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
                    per_time = torch.einsum("bhts,bhsd->bthd", q @ k.transpose(-2, -1), v)
                    return out.reshape(b, t, c), per_time.reshape(b, t, c)
            """
        ),
        Valid(
            """
            def channels(x, q, k, heads):
                b, t, c = x.shape
                v = x.view(b, t, heads, c // heads).transpose(2, 3)
                return (q @ v).reshape(b, t, c)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Attention(nn.Module):
                def __init__(self, dim, heads):
                    super().__init__()
                    self.heads = heads
                    self.drop = nn.Dropout(0.1)
                    self.qkv = nn.Linear(dim, 3 * dim)

                def forward(self, x):
                    b, t, c = x.shape
                    q, k, v = (
                        part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1)
                    )
                    weights = (q @ k.transpose(-2, -1)).softmax(-1)
                    out = self.drop(weights) @ v
                    return out.reshape(b, t, c)
            """,
            """
            class Attention(nn.Module):
                def __init__(self, dim, heads):
                    super().__init__()
                    self.heads = heads
                    self.drop = nn.Dropout(0.1)
                    self.qkv = nn.Linear(dim, 3 * dim)

                def forward(self, x):
                    b, t, c = x.shape
                    q, k, v = (
                        part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1)
                    )
                    weights = (q @ k.transpose(-2, -1)).softmax(-1)
                    out = self.drop(weights) @ v
                    return out.transpose(1, 2).reshape(b, t, c)
            """,
            at=(15, 15, 15, 35),
        ),
        Invalid(
            """
            def attention(qkv, x, heads):
                b, n, c = x.shape
                q, k, v = qkv(x).reshape(b, n, 3, heads, c // heads).permute(2, 0, 3, 1, 4).unbind(0)
                y = F.scaled_dot_product_attention(q, k, v)
                return y.contiguous().view(b, n, c)
            """,
            """
            def attention(qkv, x, heads):
                b, n, c = x.shape
                q, k, v = qkv(x).reshape(b, n, 3, heads, c // heads).permute(2, 0, 3, 1, 4).unbind(0)
                y = F.scaled_dot_product_attention(q, k, v)
                return y.contiguous().transpose(1, 2).reshape(b, n, c)
            """,
        ),
        Invalid(
            """
            def caption_loss(logits, targets):
                batch, time, vocab = logits.shape
                return F.cross_entropy(logits.view(batch, vocab, time), targets)
            """,
            """
            def caption_loss(logits, targets):
                batch, time, vocab = logits.shape
                return F.cross_entropy(logits.transpose(1, 2), targets)
            """,
            at=(3, 27, 3, 58),
        ),
        Invalid(
            """
            class Attention(nn.Module):
                def __init__(self, dim, heads):
                    super().__init__()
                    self.heads = heads
                    self.q = nn.Linear(dim, dim)

                def forward(self, x):
                    b, t, c = x.size()
                    return self.q(x).view(b, self.heads, t, c // self.heads)
            """,
            """
            class Attention(nn.Module):
                def __init__(self, dim, heads):
                    super().__init__()
                    self.heads = heads
                    self.q = nn.Linear(dim, dim)

                def forward(self, x):
                    b, t, c = x.size()
                    return self.q(x).view(b, t, self.heads, c // self.heads).transpose(1, 2)
            """,
            at=(9, 15, 9, 64),
        ),
        Invalid(
            """
            def tagging_loss(model, logits, tags):
                batch, time, _ = logits.shape
                return F.cross_entropy(logits.view(batch, model.n_tags, time), tags)
            """,
            """
            def tagging_loss(model, logits, tags):
                batch, time, _ = logits.shape
                return F.cross_entropy(logits.transpose(1, 2), tags)
            """,
        ),
        Invalid(
            """
            def tokens(features: torch.Tensor):
                b, c, h, w = features.shape
                return features.reshape(b, h * w, c)
            """
        ),
        Invalid(
            """
            import numpy as np
            import torch

            def to_batch(frames):
                batch, height, width, channels = frames.shape
                x = torch.from_numpy(np.ascontiguousarray(frames))
                return x.view(batch, channels, height, width).float() / 255
            """,
            """
            import numpy as np
            import torch

            def to_batch(frames):
                batch, height, width, channels = frames.shape
                x = torch.from_numpy(np.ascontiguousarray(frames))
                return x.permute(0, 3, 1, 2).float() / 255
            """,
        ),
        Invalid(
            """
            import numpy as np
            import torch

            class Faces(torch.utils.data.Dataset):
                def __getitem__(self, i):
                    img = self.images[i]
                    h, w, c = img.shape
                    img = torch.from_numpy(img).float().div(255).view(c, h, w)
                    return img

                def __len__(self):
                    return len(self.images)
            """,
            """
            import numpy as np
            import torch

            class Faces(torch.utils.data.Dataset):
                def __getitem__(self, i):
                    img = self.images[i]
                    h, w, c = img.shape
                    img = torch.from_numpy(img).float().div(255).permute(2, 0, 1)
                    return img

                def __len__(self):
                    return len(self.images)
            """,
        ),
        Invalid(
            "def time_major(x: torch.Tensor):\n    return x.view(x.shape[1], x.shape[0], -1)",
            "def time_major(x: torch.Tensor):\n    return x.transpose(0, 1)",
        ),
        Invalid(
            """
            def time_major(log_probs):
                n, t, c = log_probs.shape
                return torch.reshape(log_probs, (t, n, c))
            """,
            """
            def time_major(log_probs):
                n, t, c = log_probs.shape
                return log_probs.transpose(0, 1)
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        view = view_of(node, ctx)
        if view is None or _is_meant(view, ctx):
            return
        if joins_heads_before_time(view, ctx):
            yield self._joined(view, ctx)
            return
        layout = layout_of(view, ctx)
        moved = layout.moved() if layout is not None else None
        if layout is None or moved is None:
            return
        name = moved.partition("@")[0]
        message = (
            f"{view.operation} reinterprets memory and does not move the axis of size {name}; elements of different "
            "axes mix. Use permute or transpose"
        )
        yield ctx.finding(self, node, message, fixes=[_exchanged(view, layout, ctx)])

    def _joined(self, view: View, ctx: Context) -> Finding:
        sizes = ", ".join(map(ctx.source_of, view.sizes))
        text = f"{as_operand(ctx, view.receiver)}.transpose(1, 2).reshape({sizes})"
        message = (
            f"{view.operation} merges the heads without moving them behind time first; elements of different steps mix"
        )
        return ctx.finding(self, view.node, message, fixes=[ctx.fix("Transpose first", ctx.replace(view.node, text))])


def _is_meant(view: View, ctx: Context) -> bool:
    """Say whether the layout may be what is wanted: a shift by way of padding, or elements that are all alike."""
    tensor = ctx.tensor(view.receiver)
    if tensor is not None and tensor.made_by(*_SHIFTED, *_ALIKE):
        return True
    function = ctx.function(view.node)
    if function is not None and any(word in function.name.lower() for word in _SHIFTS):
        return True
    parent = ctx.parent(view.node)
    return isinstance(parent, ast.Subscript) and parent.value is view.node


def _exchanged(view: View, layout: Layout, ctx: Context) -> Fix | None:
    """Exchange the axes, where the view asks for no more than that; else take the heads out behind the time."""
    receiver = ctx.source_of(view.receiver)
    order = layout.order
    if order is not None:
        swapped = [index for index, axis in enumerate(order) if index != axis]
        dims = ", ".join(map(str, order))
        how = f"transpose({swapped[0]}, {swapped[1]})" if len(swapped) == 2 else f"permute({dims})"
        return ctx.fix("Transpose instead", ctx.replace(view.node, f"{receiver}.{how}"))
    sizes = view.sizes
    if len(sizes) == 4 and len(layout.before) == 3 and layout.after[:1] == layout.before[:1]:
        batch, heads, time, rest = map(ctx.source_of, sizes)
        if layout.after[2:3] == layout.before[1:2]:
            text = f"{receiver}.{view.operation}({batch}, {time}, {heads}, {rest}).transpose(1, 2)"
            return ctx.fix("Split the features, then transpose", ctx.replace(view.node, text))
    return None
