"""Rule DG103: backward of a loss that was computed without a graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import unwrapped
from drygrad.static.facts.values import UNKNOWN, Origin, Tensor
from drygrad.static.rules.autograd.graph import ancestors, no_grad_block, recorded
from drygrad.static.syntax import last_assignment

_LOSS = re.compile(r"loss|criterion|cross_entropy", re.IGNORECASE)
_TARGET = re.compile(r"target|label|truth|^y|^gt", re.IGNORECASE)


class BackwardUnderNoGrad(Rule):
    """
    ## What it does
    Finds `backward()` on a loss that was computed under `torch.no_grad()` or `torch.inference_mode()`.

    ## Why is this bad?
    There the forward records nothing, so there is nothing to go back through: `backward()` raises `element 0 of tensors
    does not require grad and does not have a grad_fn`. Moving `backward()` out of the block does not help; the forward
    and the loss must leave it too. (`backward()` itself may well run under `no_grad`.)

    Where the file does not show what model and loss function are, the rule goes by names: a call of something that is
    named a loss, in the same block, or of model outputs from such a block.

    ## Example
    ```python
    with torch.no_grad():
        loss = loss_fn(model(x), y)
        loss.backward()
    ```
    Use instead:
    ```python
    loss = loss_fn(model(x), y)
    loss.backward()
    ```

    ## Fix safety
    Unsafe: everything in the block records its graph afterwards, which takes memory.
    """

    code, name, since = "DG103", "backward-under-no-grad", "0.1"
    severity = "error"
    calls = frozenset({"backward"})
    VALID = [
        Valid("loss = loss_fn(model(x), y)\nwith torch.no_grad():\n    loss.backward()"),
        Valid(
            "with torch.no_grad():\n    with torch.enable_grad():\n        loss = loss_fn(x, y)\n    loss.backward()"
        ),
        Valid("with torch.no_grad():\n    soft = teacher(x)\nloss = loss_fn(student(x), soft)\nloss.backward()"),
        Valid("with torch.no_grad():\n    out = net(x)\nout.requires_grad_()\nloss = loss_fn(out, y)\nloss.backward()"),
        Valid("with torch.no_grad():\n    loss = loss_fn(model(x), y)\nloss = loss_fn(model(x), y)\nloss.backward()"),
        Valid(
            "@torch.no_grad()\ndef step(self, closure):\n    with torch.enable_grad():\n        loss = closure()\n"
            "        loss.backward()\n    return loss"
        ),
        Valid("w = torch.rand(3, requires_grad=True)\nwith torch.set_grad_enabled(train):\n    w.sum().backward()"),
        Valid("with torch.no_grad():\n    loss = trainer.training_step(batch)\n    loss.backward()"),
    ]
    INVALID = [
        Invalid(
            """
            with torch.no_grad():  # saves memory
                outputs = model(data.cuda())
                loss = loss_fn(outputs, target.cuda())
                # free what is not needed
                del outputs
                torch.cuda.empty_cache()
                loss.backward()
            """,
            """
            # saves memory
            outputs = model(data.cuda())
            loss = loss_fn(outputs, target.cuda())
            # free what is not needed
            del outputs
            torch.cuda.empty_cache()
            loss.backward()
            """,
            at=(7, 4, 7, 19),
        ),
        Invalid(
            "with torch.no_grad():\n    out = model(data)\n\nloss = loss_fn(out, target.cuda())\nloss.backward()",
            at=(5, 0, 5, 15),
            severity="warning",
        ),
        Invalid(
            "w = torch.rand(3, requires_grad=True)\nwith torch.inference_mode():\n    l = (w * 2).sum()\nl.backward()",
        ),
        Invalid(
            """
            model = nn.Linear(8, 3)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

            @torch.no_grad()
            def train_step(x, y):
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

            train_step(torch.rand(4, 8), torch.randint(0, 3, (4,)))
            """
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or not call.operands or not isinstance(node.func, ast.Attribute):
            return
        proven = _without_graph(ctx, call.operands[0])
        origin = proven or _named_loss(ctx, call.operands[0])
        if origin is None:
            return
        block = no_grad_block(ctx, origin)
        yield ctx.finding(
            self,
            node,
            f"backward() raises: `{ctx.source_of(call.operands[0])}` was computed without a graph"
            + (f", under the no_grad block of line {block.lineno}" if block else ", with gradients switched off"),
            severity="error" if proven or no_grad_block(ctx, node) is block else "warning",
            related=[("no graph is recorded in this block", block.items[0].context_expr)] if block else [],
            fixes=[_fix(ctx, block, node, origin)],
        )


def _without_graph(ctx: Context, receiver: ast.expr) -> ast.expr | None:
    """Return an operation on what requires grad that lost it, being run without gradients."""
    tensor = ctx.tensor(receiver)
    if tensor is None or tensor.requires_grad is not False or tensor.cut is not None:
        return None
    for each in ancestors(tensor):
        if each.origin is not None and _may_learn(each.origin) and recorded(ctx, each.origin.node) is False:
            return each.origin.node
    return None


def _may_learn(origin: Origin) -> bool:
    """Say whether an operation is on something that requires grad, or by a module that is not frozen."""
    if any(isinstance(operand, Tensor) and operand.requires_grad for operand in origin.operands):
        return True
    module = origin.call.module if origin.call is not None else None
    return module is not None and not module.frozen


def _named_loss(ctx: Context, receiver: ast.expr) -> ast.expr | None:
    """Return the call that makes the loss, or the model's outputs for it, without gradients, going by names."""
    if not isinstance(receiver, ast.Name) or not _is_open(ctx, receiver):
        return None
    value = last_assignment(ctx, receiver.id, ctx.statement(receiver))
    if not isinstance(value, ast.Call) or not _LOSS.search(ctx.text(value.func) or "") or not value.args:
        return None
    if recorded(ctx, value) is False:
        return value
    outputs, *others = value.args
    if not isinstance(outputs, ast.Name) or not all(_TARGET.search(ctx.source_of(other)) for other in others):
        return None
    made = last_assignment(ctx, outputs.id, ctx.statement(value))
    return made if isinstance(made, ast.Call) and _is_open(ctx, outputs) and recorded(ctx, made) is False else None


def _is_open(ctx: Context, node: ast.expr) -> bool:
    value = ctx.value(node)
    return value is UNKNOWN or (isinstance(value, Tensor) and value.requires_grad is not True)


def _fix(ctx: Context, block: ast.With | None, backward: ast.Call, origin: ast.expr) -> Fix | None:
    """Remove the block, where it holds all of forward, loss and backward."""
    if block is None or len(block.items) > 1 or any(no_grad_block(ctx, n) is not block for n in (backward, origin)):
        return None
    edit = unwrapped(ctx, block)
    return ctx.fix("Remove the no_grad block", edit) if edit is not None else None
