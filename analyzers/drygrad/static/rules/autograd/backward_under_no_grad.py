"""Rule DG103: backward of a loss that was computed without a graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import unwrapped
from drygrad.static.rules.autograd.cutting import Cut, cut_of, roots_of
from drygrad.static.rules.autograd.graph import no_grad_block, undecorated


class BackwardUnderNoGrad(Rule):
    """
    ## What it does
    Finds `backward()` on a loss that was computed under `torch.no_grad()` or `torch.inference_mode()`.

    ## Why is this bad?
    Under `no_grad` the forward records no graph, so `backward()` raises `element 0 of tensors does not require grad and
    does not have a grad_fn`. Moving only `backward()` out of the block does not help: the forward pass and the loss
    have to move too. (Calling `backward()` itself under `no_grad` is fine.)

    If the file does not show what the model and the loss function are, drygrad assumes that whatever they compute under
    `no_grad` has no graph. If only the forward pass is inside the block, loss functions and targets are recognized by
    their names.

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
    Unsafe: everything in the block now records a graph, which takes memory.
    """

    code, name, since = "DG103", "backward-under-no-grad", "0.1"
    severity = "error"
    VALID = [
        Valid("""
            def invert(generator, criterion, target, flag):
                with torch.no_grad():
                    code = generator(target)
                code.requires_grad_(flag)
                loss = criterion(code, target)
                loss.backward()
        """),
        Valid("""
            class Perturbing(torch.optim.Optimizer):
                @torch.no_grad()
                def step(self, closure):
                    closure = torch.enable_grad()(closure)
                    loss = closure()
                    loss.backward()
        """),
        Valid("""
            def match(vgg, content, image, opt, distance):
                with torch.no_grad():
                    goal = vgg(content)
                loss = distance(goal, vgg(image))
                opt.zero_grad()
                loss.backward()
                opt.step()
        """),
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
            """,
            """
            model = nn.Linear(8, 3)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

            def train_step(x, y):
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

            train_step(torch.rand(4, 8), torch.randint(0, 3, (4,)))
            """,
        ),
        Invalid(
            """
            @torch.no_grad()
            def train(net, opt, crit, a, b):
                opt.zero_grad()
                loss = crit(net(a), b)
                loss.backward()
                opt.step()
            """,
            """
            def train(net, opt, crit, a, b):
                opt.zero_grad()
                loss = crit(net(a), b)
                loss.backward()
                opt.step()
            """,
        ),
        Invalid(
            """
            def finetune(net, opt, batches):
                torch.set_grad_enabled(False)
                for batch in batches:
                    out = net(**batch)
                    out.loss.backward()
                    opt.step()
            """,
            at=(5, 8, 5, 27),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        for root in roots_of(node, ctx):
            cut = cut_of(root, ctx)
            if cut is not None and cut.kind == "mode":
                yield self._finding(node, root, cut, ctx)
                return

    def _finding(self, node: ast.Call, root: ast.expr, cut: Cut, ctx: Context) -> Finding:
        block = no_grad_block(ctx, cut.at)
        together = no_grad_block(ctx, node) is block and ctx.function(cut.at) is ctx.function(node)
        return ctx.finding(
            self,
            node,
            f"backward() raises: `{ctx.source_of(root)}` was computed without a graph"
            + (f", inside the no_grad block on line {block.lineno}" if block else ", with gradients disabled"),
            severity="error" if cut.certain or together else "warning",
            related=[("no graph is recorded in this block", block.items[0].context_expr)] if block else [],
            fixes=[_fix(ctx, block, node, cut.at)],
        )


def _fix(ctx: Context, block: ast.With | None, backward: ast.Call, origin: ast.expr) -> Fix | None:
    """Remove the block or the decorator, where it is around all of forward, loss and backward."""
    function = ctx.function(backward)
    if block is None:
        edit = undecorated(ctx, function) if function is not None and function is ctx.function(origin) else None
        return ctx.fix("Remove the decorator", edit) if edit is not None else None
    if len(block.items) > 1 or any(no_grad_block(ctx, n) is not block for n in (backward, origin)):
        return None
    edit = unwrapped(ctx, block)
    return ctx.fix("Remove the `no_grad` block", edit) if edit is not None else None
