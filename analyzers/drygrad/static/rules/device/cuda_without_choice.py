"""Rule DG212: cuda() in a program that chooses its device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Object
from drygrad.static.loops import is_guarded
from drygrad.static.rules.device.placement import device_expression

_CHOICE = re.compile(r"""["']cuda(:\d+)?["']\)?\s*if\s+torch\.cuda\.is_available\(\)\s*else""")
_INSISTS = re.compile(r"(if not|assert) torch\.cuda\.is_available\(\)")


class CudaWithoutChoice(Rule):
    """
    ## What it does
    Finds `.cuda()` that no condition decides about, in a file that chooses its device by `torch.cuda.is_available()`.

    ## Why is this bad?
    The file is meant to run without a GPU, too, and there `cuda()` raises "Torch not compiled with CUDA enabled" or
    "Found no NVIDIA driver". It also ignores which of several GPUs was chosen.

    ## Example
    ```python
    device = "cuda" if torch.cuda.is_available() else "cpu"
    index = torch.randperm(n).cuda()
    ```
    Use instead:
    ```python
    device = "cuda" if torch.cuda.is_available() else "cpu"
    index = torch.randperm(n).to(device)
    ```

    ## Fix safety
    Unsafe: without a GPU the code goes on, on the CPU.
    """

    code, name, since = "DG212", "cuda-without-choice", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

            def move(model, x, use_cuda=False):
                if use_cuda:
                    model = model.cuda()
                x = x.cuda() if torch.cuda.is_available() else x
                return model.to(device)(x.to(device))
            """
        ),
        Valid("def move(x):\n    return x.cuda()"),
    ]
    INVALID = [
        Invalid(
            """
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

            def mixup(x):
                index = torch.randperm(x.size(0)).cuda()
                return x[index]

            model = nn.Linear(4, 2).to(device)
            print(model(mixup(torch.ones(2, 4, device=device))))
            """,
            """
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

            def mixup(x):
                index = torch.randperm(x.size(0)).to(device)
                return x[index]

            model = nn.Linear(4, 2).to(device)
            print(model(mixup(torch.ones(2, 4, device=device))))
            """,
            at=(4, 12, 4, 44),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=moved, attr="cuda"), args=[], keywords=[]):
                value = ctx.value(moved)
            case _:
                return
        known = ctx.tensor(moved) is not None or (isinstance(value, Object) and value.is_module)
        if not known or not ctx.derived(_may_run_without) or is_guarded(node, ctx.tree, ctx):
            return
        message = "the file chooses its device, and may run without a GPU: cuda() raises there"
        yield ctx.finding(self, node, message, fixes=[_fix(node, moved, ctx)])


def _may_run_without(ctx: Context) -> bool:
    text = ctx.source.text
    return _CHOICE.search(text) is not None and _INSISTS.search(text) is None


def _fix(node: ast.Call, moved: ast.expr, ctx: Context) -> Fix | None:
    device = device_expression("auto", node, ctx)
    if device is None or "is_available" in device:
        return None
    return ctx.fix(f"Move it to {device}", ctx.replace(node, f"{as_operand(ctx, moved)}.to({device})"))
