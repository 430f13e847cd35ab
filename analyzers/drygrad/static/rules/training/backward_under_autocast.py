"""Rule DG707: backward under autocast."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Span, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.editing import beside, is_plain
from drygrad.static.rules.training.autocasting import active_autocast
from drygrad.static.steps import Block, Event, Training, plain_trainings
from drygrad.static.syntax import has_multiline_string

_INDENT = "    "


class BackwardUnderAutocast(Rule):
    """
    ## What it does
    Finds `backward()` inside an autocast block.

    ## Why is this bad?
    Autocast is meant for the forward and the loss; backward runs each operation in the dtype of its forward anyway.
    Inside the block, backward also computes matrix products of float32 parts (a block with `enabled=False`) in half
    precision, so their gradients silently lose precision. The PyTorch documentation advises against it.

    ## Example
    ```python
    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
        loss.backward()
    ```
    Use instead:
    ```python
    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
    loss.backward()
    ```

    ## Fix safety
    Unsafe: the precision of the gradients changes.
    """

    code, name, since = "DG707", "backward-under-autocast", "0.1"
    severity = "warning"
    VALID = [
        Valid("""
            def f(model, x, y):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = F.mse_loss(model(x), y)
                loss.backward()
        """),
        Valid("""
            def f(model, x, y):
                with torch.autocast("cuda", enabled=False):
                    loss = F.mse_loss(model(x), y)
                    loss.backward()
        """),
        Valid("""
            def f(model, x, y, amp):
                with torch.autocast("cuda", enabled=amp):
                    loss = F.mse_loss(model(x), y)
                loss.backward()
        """),
        Valid("""
            def f(model, x, y):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = F.mse_loss(model(x), y)
                    with torch.autocast("cuda", enabled=False):
                        loss.backward()
        """),
    ]
    INVALID = [
        Invalid(
            """
            def f(model, x, y, optimizer, scaler):
                with torch.autocast("cuda"):
                    loss = F.mse_loss(model(x), y)
                    # the usual rest
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                return loss.item()
            """,
            """
            def f(model, x, y, optimizer, scaler):
                with torch.autocast("cuda"):
                    loss = F.mse_loss(model(x), y)
                    # the usual rest
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                return loss.item()
            """,
            at=(5, 8, 5, 37),
        ),
        Invalid(
            """
            import torch
            import torch.cuda.amp as amp

            scaler = amp.GradScaler()
            model.train()

            with amp.autocast():
                for i, (data, target) in enumerate(data_loader):
                    data, target = data.cuda(), target.cuda()
                    optimizer.zero_grad()
                    outputs = model(data)
                    loss = loss_fn(outputs, target)
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
            """,
            """
            import torch
            import torch.cuda.amp as amp

            scaler = amp.GradScaler()
            model.train()

            for i, (data, target) in enumerate(data_loader):
                data, target = data.cuda(), target.cuda()
                optimizer.zero_grad()
                with amp.autocast():
                    outputs = model(data)
                    loss = loss_fn(outputs, target)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
        ),
        Invalid(
            """
            def f(model, x, y):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    first = F.mse_loss(model(x), y)
                    first.backward()
                    return model(y)
            """
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            for backward in training.of("backward"):
                active = active_autocast(ctx, backward.node) if not backward.via else None
                if active is not None:
                    yield ctx.finding(
                        self,
                        backward.node,
                        "backward() runs under autocast, which is meant for forward and loss only",
                        related=[("autocast is enabled here", active[0].items[0].context_expr)],
                        fixes=[self._fix(ctx, training, backward, active[0])],
                    )

    def _fix(self, ctx: Context, training: Training, backward: Event, block: Block) -> Fix | None:
        if len(block.items) != 1 or not _can_move(ctx, block):
            return None
        inner = beside(ctx, block.body[0], backward.statement)
        if inner is backward.statement:
            return self._end_before(ctx, training, backward, block)
        if len(block.body) == 1 and isinstance(inner, (ast.For, ast.While)):
            return self._wrap_inside(ctx, training, backward, block, inner)
        return None

    def _end_before(self, ctx: Context, training: Training, backward: Event, block: Block) -> Fix | None:
        """Let the block end before its backward: move the rest out."""
        position = block.body.index(backward.statement)
        rest = block.body[position:]
        later = [e for e in training.of("forward", "loss") if e.index > backward.index and active_autocast(ctx, e.node)]
        if position == 0 or later or not is_plain(ctx, rest[0]):
            return None
        width = ctx.source.start(rest[0]).column - ctx.source.start(block).column
        first, last = rest[0].lineno, rest[-1].end_lineno or rest[-1].lineno
        lines = [ctx.source.line_text(number).rstrip("\r\n") for number in range(first, last + 1)]
        text = "\n".join(_dedented(lines, width))
        return ctx.fix("End the autocast block before `backward()`", _replace_lines(ctx, first, last, text))

    def _wrap_inside(self, ctx: Context, training: Training, backward: Event, block: Block, loop: Loop) -> Fix | None:
        """Put the block around forward and loss inside its only loop."""
        if backward.statement not in loop.body:
            return None
        end = loop.body.index(backward.statement)
        forwards = [e.statement for e in training.of("forward", "loss") if e.statement in loop.body]
        indices = [loop.body.index(statement) for statement in forwards]
        if not indices or max(indices) >= end or not is_plain(ctx, loop.body[0]) or loop.orelse:
            return None
        width = ctx.source.start(loop).column - ctx.source.start(block).column
        header = ctx.source.line_text(block.lineno).strip()
        first, last = loop.lineno, block.end_lineno or block.lineno
        lines = _dedented([ctx.source.line_text(n).rstrip("\r\n") for n in range(first, last + 1)], width)
        start, stop = loop.body[min(indices)].lineno - first, loop.body[end].lineno - first
        margin = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
        wrapped = [*lines[:start], margin + header, *(_INDENT + line if line else line for line in lines[start:stop])]
        text = "\n".join([*wrapped, *lines[stop:]])
        return ctx.fix("Autocast the forward and loss only", _replace_lines(ctx, block.lineno, last, text))


def _can_move(ctx: Context, block: Block) -> bool:
    """Say whether the lines of a block can be indented anew: a header on one line, no string over several."""
    if has_multiline_string(block):
        return False
    return block.items[0].context_expr.end_lineno == block.lineno < block.body[0].lineno


def _dedented(lines: list[str], width: int) -> list[str]:
    return [line[min(width, len(line) - len(line.lstrip())) :] for line in lines]


def _replace_lines(ctx: Context, first: int, last: int, text: str) -> Edit:
    end = ctx.source.line_text(last).rstrip("\r\n")
    return Edit(Span.of(first, 0, last, len(end)), text)
