"""Rule DG212: cuda() in a program that chooses its device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.editing import as_operand
from drygrad.static.facts.operations import FACTORIES
from drygrad.static.facts.values import Object
from drygrad.static.loops import is_guarded
from drygrad.static.rules.device.apart import apart, repaired, whose
from drygrad.static.rules.device.placement import device_expression
from drygrad.static.syntax import calls_in, parameter_names

_CHOICE = re.compile(r"""["']cuda(:\d+)?["']\)?\s*if\s+torch\.cuda\.is_available\(\)\s*else""")
_INSISTS = re.compile(r"(if not|assert) torch\.cuda\.is_available\(\)")


class CudaWithoutChoice(Rule):
    """
    ## What it does
    Finds an unconditional `.cuda()` in a file that chooses its device with `torch.cuda.is_available()`. Also finds
    `torch.empty(..., device="cuda")` in a function that creates another tensor on its argument's device, and a tensor
    that is put on the GPU and meets an argument or a parameter of its module in a file that moves nothing else.

    ## Why is this bad?
    The file is meant to run without a GPU too, where `cuda()` raises "Torch not compiled with CUDA enabled" or "Found
    no NVIDIA driver". It also ignores which of several GPUs was chosen: `"cuda"` is the current one.

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
    Unsafe: without a GPU the code now continues on the CPU.
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
        Valid(
            """
            def statistics(x: torch.Tensor):
                out = torch.empty(3, device=x.device)
                with torch.cuda.device(x.device):
                    mean = torch.empty(3, device="cuda")
                return out, mean, torch.empty(3, device="cuda" if x.is_cuda else "cpu")
            """
        ),
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
        Invalid(
            """
            def statistics(x: torch.Tensor):
                out = torch.empty(x.shape, device=x.device)
                mean = torch.empty(3, dtype=torch.float32, device="cuda")
                return out, mean
            """,
            """
            def statistics(x: torch.Tensor):
                out = torch.empty(x.shape, device=x.device)
                mean = torch.empty(3, dtype=torch.float32, device=x.device)
                return out, mean
            """,
            at=(3, 11, 3, 61),
        ),
        Invalid(
            """
            class Shift(nn.Module):
                def forward(self, values, delay):
                    start = torch.arange(values.size(-1)).unsqueeze(0).cuda()
                    index = start + delay.unsqueeze(-1)
                    return torch.gather(values.repeat(1, 2), dim=-1, index=index)
            """,
            """
            class Shift(nn.Module):
                def forward(self, values, delay):
                    start = torch.arange(values.size(-1)).unsqueeze(0).to(delay.device)
                    index = start + delay.unsqueeze(-1)
                    return torch.gather(values.repeat(1, 2), dim=-1, index=index)
            """,
            at=(3, 16, 3, 65),
        ),
        Invalid(
            "def f(x: torch.Tensor):\n    return x + torch.ones(3, device='cuda')",
            "def f(x: torch.Tensor):\n    return x + torch.ones(3, device=x.device)",
        ),
    ]

    def visit_file(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        """What is on the current GPU and meets what is wherever others want it."""
        found = apart(ctx, "cuda")
        if not found or ctx.derived(_may_run_without) or _moves_others({f.fault.made.factory for f in found}, ctx):
            return
        for each in found:
            made = each.fault.made.factory
            if _owner_beside(made, ctx) is None:
                other = ctx.source_of(each.fault.other)
                yield ctx.finding(
                    self,
                    each.site,
                    f"{_spoken(made)} puts its tensor on the current GPU; `{other}` is {whose(each, ctx)}; if"
                    " that is another device, the operation on both raises",
                    related=[("they meet here", each.fault.node)],
                    fixes=[repaired(each, ctx)],
                )

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=moved, attr="cuda"), args=[], keywords=[]):
                value = ctx.value(moved)
            case _:
                yield from self._made(node, ctx)
                return
        known = ctx.tensor(moved) is not None or (isinstance(value, Object) and value.is_module)
        if not known or not ctx.derived(_may_run_without) or is_guarded(node, ctx.tree, ctx):
            return
        message = "this file supports running without a GPU, but cuda() raises there"
        yield ctx.finding(self, node, message, fixes=[_fix(node, moved, ctx)])

    def _made(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """Yield a tensor that is made on the current GPU where another is made on that of an argument."""
        told = next((k.value for k in node.keywords if k.arg == "device"), None)
        owner = _owner_beside(node, ctx)
        if owner is None or told is None:
            return
        message = (
            f'"cuda" is the current GPU, but `{owner}` may be on another one; the other tensors are created on '
            "its device"
        )
        fix = ctx.fix(f"Create it on the device of `{owner}`", ctx.replace(told, f"{owner}.device"))
        yield ctx.finding(self, node, message, fixes=[fix])


def _owner_beside(node: ast.Call, ctx: Context) -> str | None:
    """Return the argument on whose device a function makes a tensor besides the one that it makes on the GPU."""
    told = next((k.value for k in node.keywords if k.arg == "device"), None)
    call, function = ctx.call(node), ctx.function(node)
    if not isinstance(told, ast.Constant) or told.value != "cuda" or function is None:
        return None
    if call is None or call.operation not in FACTORIES or _chooses_gpu(node, ctx):
        return None
    return next(_owners(function), None)


def _spoken(made: ast.Call) -> str:
    return "`.cuda()`" if isinstance(made.func, ast.Attribute) and made.func.attr == "cuda" else '`device="cuda"`'


def _moves_others(made: set[ast.Call], ctx: Context) -> bool:
    """Say whether a file puts on the GPU what it has not made: all of it runs there, by intention."""
    functions = (node.func for node in ctx.nodes(ast.Call) if node not in made)
    return any(isinstance(function, ast.Attribute) and function.attr == "cuda" for function in functions)


def _owners(function: FunctionNode) -> Iterator[str]:
    """Yield the parameters of a function on whose device it makes a tensor."""
    parameters = parameter_names(function)
    for call in calls_in(function):
        for keyword in call.keywords:
            match keyword:
                case ast.keyword(arg="device", value=ast.Attribute(value=ast.Name(id=name), attr="device")):
                    if name in parameters:
                        yield name
                case _:
                    pass


def _chooses_gpu(node: ast.Call, ctx: Context) -> bool:
    """Say whether a block around a call makes another GPU the current one."""
    blocks = (a for a in ctx.ancestors(node) if isinstance(a, (ast.With, ast.AsyncWith)))
    return any("device" in ast.unparse(item.context_expr) for block in blocks for item in block.items)


def _may_run_without(ctx: Context) -> bool:
    return ctx.mentions(_CHOICE) and not ctx.mentions(_INSISTS)


def _fix(node: ast.Call, moved: ast.expr, ctx: Context) -> Fix | None:
    device = device_expression("auto", node, ctx)
    if device is None or "is_available" in device:
        return None
    return ctx.fix(f"Move it to `{device}`", ctx.replace(node, f"{as_operand(ctx, moved)}.to({device})"))
