"""Rule DG209: a tensor created on the CPU and moved at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Safety, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.values import Constant, TorchCall
from drygrad.static.rules.device.placement import (
    EXACT_FACTORIES,
    device_of,
    is_plain_factory,
    name_span,
    removed_call,
    spoken,
)


class CreateOnCpuThenMove(Rule):
    """
    ## What it does
    Finds `torch.zeros(...).cuda()` and `torch.zeros(...).to(device)`: a tensor created on the CPU and moved right away,
    in a function or a loop. One-time work of a script, a constructor or a test is not reported.

    ## Why is this bad?
    The tensor is filled in host memory and then copied, which is slower than filling it on the device, and copying from
    unpinned memory makes the CPU wait. With `device=` nothing is copied.

    ## Example
    ```python
    def causal_mask(n, device):
        return torch.zeros(n, n).to(device)
    ```
    Use instead:
    ```python
    def causal_mask(n, device):
        return torch.zeros(n, n, device=device)
    ```

    ## Fix safety
    Safe for constants. Unsafe for random tensors, which then use the device's generator and get other values, and for
    fractional ranges, whose last digits may differ between devices.
    """

    code, name, since = "DG209", "create-on-cpu-then-move", "0.1"
    severity = "hint"
    costs = frozenset({"h2d"})
    VALID = [
        Valid("def f(n, device):\n    return torch.zeros(n, device=device)"),
        Valid("x = torch.zeros(3).to(torch.float16)"),
        Valid("w = torch.zeros(3, requires_grad=True).to('cuda')"),
        Valid("def f(x: torch.Tensor, device):\n    return torch.zeros_like(x).to(device)"),
        Valid("x = torch.zeros(3).to('cpu')"),
        Valid("obs = torch.zeros(128, 8).to('cuda')  # once, before training"),
        Valid("def test_mean(device):\n    for n in (1, 2):\n        x = torch.rand(n).to(device)"),
        Valid(
            "class Net(nn.Module):\n    def __init__(self, n, device):\n        super().__init__()\n"
            "        self.atoms = torch.linspace(0, 1, n).to(device)"
        ),
        Valid("def f(n, kind):\n    return torch.zeros(n).to(kind)"),
        Valid("torch.set_default_device('cuda')\nx = torch.zeros(3).to('cuda')"),
        Valid("def f(data, device):\n    return torch.from_numpy(data).to(device)"),
        Valid(
            "def f(device):\n    # values of Python are copied from the CPU in either form\n"
            "    return torch.tensor([1, 2]).to(device)"
        ),
    ]
    INVALID = [
        Invalid(
            "for i in range(9):\n    x = torch.zeros(3).cuda()",
            "for i in range(9):\n    x = torch.zeros(3, device='cuda')",
            at=(2, 23, 2, 27),
        ),
        Invalid(
            "def f(n, device):\n    return torch.randn(\n        n,\n        n,\n    ).to(device, non_blocking=True)",
            "def f(n, device):\n    return torch.randn(\n        n,\n        n,\n        device=device,\n    )",
        ),
        Invalid(
            "def f(rank):\n    return torch.ones(2).cuda(rank)", "def f(rank):\n    return torch.ones(2, device=rank)"
        ),
        Invalid(
            "def f(args):\n    return torch.eye(2).to(device=args.device)",
            "def f(args):\n    return torch.eye(2, device=args.device)",
        ),
        Invalid(
            """
            class Pool(nn.Module):
                def forward(self, x: torch.Tensor):
                    weights = torch.linspace(0, 1, x.size(1)).to(x.device)  # from left to right
                    return (x * weights).sum(1)
            """,
            """
            class Pool(nn.Module):
                def forward(self, x: torch.Tensor):
                    weights = torch.linspace(0, 1, x.size(1), device=x.device)  # from left to right
                    return (x * weights).sum(1)
            """,
        ),
        Invalid("def f():\n    return torch.zeros(3).to('cuda', torch.float16)"),
    ]
    calls = frozenset({"to", "cuda"})

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.func, ast.Attribute) or ctx.facts.default_device is None:
            return
        made = ctx.call(node.func.value)
        device = _destination(node, ctx)
        if made is None or device is None or not is_plain_factory(made):
            return
        place = device_of(ctx, device) if isinstance(device, ast.expr) else "cuda"
        if place == "cpu" or _runs_once(node, ctx):
            return
        told = spoken(place or "cuda")
        if place is not None and place.startswith("$") and isinstance(device, ast.expr):
            told = f"`{ctx.source_of(device)}`"
        yield ctx.finding(
            self,
            node,
            f"torch.{made.operation} creates the tensor on the CPU and then copies it to {told}",
            span=name_span(node.func, ctx),
            fixes=[_fix(node, made, device, ctx)],
        )


def _runs_once(node: ast.Call, ctx: Context) -> bool:
    """Say whether a call stands where a copy more does not matter: in a script's setup, a constructor or a test."""
    functions = [f.name for f in ctx.ancestors(node) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if any(name.startswith(("test", "_test")) for name in functions):
        return True
    return not ctx.loops(node) and (not functions or functions[0] in ("__init__", "main"))


def _destination(node: ast.Call, ctx: Context) -> ast.expr | str | None:
    """Return the device that a call moves to; None where it may be something else."""
    assert isinstance(node.func, ast.Attribute)
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    given = keywords.get("device") or (node.args[0] if node.args else None)
    if node.func.attr == "cuda":
        return given or "'cuda'"
    if node.func.attr != "to" or given is None or isinstance(given, ast.Starred):
        return None
    return given if device_of(ctx, given) is not None else None


def _fix(node: ast.Call, made: TorchCall, device: ast.expr | str, ctx: Context) -> Fix | None:
    if len(node.args) > 1 or {keyword.arg for keyword in node.keywords} - {"device", "non_blocking"}:
        return None
    text = device if isinstance(device, str) else ctx.source_of(device)
    place = with_keyword(ctx, made.node, "device", text)
    return ctx.fix("Create the tensor on the device", place, removed_call(node, ctx), safety=_safety(made))


def _safety(made: TorchCall) -> Safety:
    whole = all(isinstance(value, Constant) and isinstance(value.value, int) for value in made.values)
    exact = made.operation in EXACT_FACTORIES or (made.operation in ("arange", "range") and whole)
    return "safe" if exact else "unsafe"
