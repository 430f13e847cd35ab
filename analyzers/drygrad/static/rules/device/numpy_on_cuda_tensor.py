"""Rule DG207: numpy() of a CUDA tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Span, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Tensor
from drygrad.static.rules.device.apart import arrays_of_chosen
from drygrad.static.rules.device.placement import is_accelerator, is_chosen, name_span, spoken

_NUMPY = frozenset({"numpy.asarray", "numpy.array", "numpy.ascontiguousarray", "numpy.asanyarray"})


class NumpyOnCudaTensor(Rule):
    """
    ## What it does
    Finds `.numpy()`, `np.asarray` and `np.array` on a GPU tensor, and `.numpy()` on what a model or an operation
    computes from inputs on a device chosen at run time (`self.device`).

    ## Why is this bad?
    NumPy arrays live in host memory, and torch does not copy implicitly: it raises "can't convert cuda:0 device type
    tensor to numpy". If the device is chosen at run time, the code only works on machines without a GPU.

    ## Example
    ```python
    model = nn.Linear(8, 4).to("cuda")
    predictions = model(x.to("cuda")).argmax(1).detach().numpy()
    ```
    Use instead:
    ```python
    model = nn.Linear(8, 4).to("cuda")
    predictions = model(x.to("cuda")).argmax(1).detach().cpu().numpy()
    ```

    ## Fix safety
    Safe: on a CPU tensor `.cpu()` does nothing.
    """

    code, name, since = "DG207", "numpy-on-cuda-tensor", "0.1"
    severity = "error"
    VALID = [
        Valid("x = torch.ones(3, device='cuda')\na = x.cpu().numpy()"),
        Valid("x = torch.ones(3)\na = x.numpy()"),
        Valid("def f(x):\n    return x.numpy()"),
        Valid("x = torch.ones(3, device='cuda')\na = x.numpy(force=True)"),
        Valid("def f(x: torch.Tensor):\n    z = torch.zeros(3, device=x.device)\n    return z.numpy()"),
        Valid("x = torch.ones(3)\nif use_cuda:\n    x = x.cuda()\nelse:\n    a = x.numpy()"),
        Valid("import numpy as np\nimport torch\nx = torch.ones(3, device='cuda')\na = np.asarray(x.tolist())"),
    ]
    INVALID = [
        Invalid(
            """
            class Predictor:
                def __init__(self, model, device):
                    self.model, self.device = model, device

                @torch.no_grad()
                def predict(self, images):
                    scores = self.model(images.to(self.device))
                    return scores.argmax(dim=1).numpy()
            """,
            """
            class Predictor:
                def __init__(self, model, device):
                    self.model, self.device = model, device

                @torch.no_grad()
                def predict(self, images):
                    scores = self.model(images.to(self.device))
                    return scores.argmax(dim=1).cpu().numpy()
            """,
            severity="warning",
        ),
        Invalid(
            "x = torch.ones(3, device='cuda')\na = (x * 2).numpy()",
            "x = torch.ones(3, device='cuda')\na = (x * 2).cpu().numpy()",
            at=(2, 12, 2, 17),
        ),
        Invalid(
            "import numpy as np\nimport torch\nx = torch.ones(3).cuda()\na = np.asarray(x + 1)",
            "import numpy as np\nimport torch\nx = torch.ones(3).cuda()\na = np.asarray((x + 1).cpu())",
            at=(4, 15, 4, 20),
        ),
        Invalid(
            "w = torch.ones(3, device='cuda', requires_grad=True)\na = w.exp().numpy()",
            "w = torch.ones(3, device='cuda', requires_grad=True)\na = w.exp().detach().cpu().numpy()",
        ),
        Invalid(
            """
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = nn.Linear(3, 2).to(device)

            @torch.no_grad()
            def predict(x):
                scores = model(x.to(device))
                return scores.argmax(dim=1).numpy()
            """,
            """
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = nn.Linear(3, 2).to(device)

            @torch.no_grad()
            def predict(x):
                scores = model(x.to(device))
                return scores.argmax(dim=1).cpu().numpy()
            """,
            severity="warning",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        given = _converted(node, ctx)
        tensor = ctx.tensor(given)
        if given is None or tensor is None or tensor.device is None:
            return
        certain = is_accelerator(tensor.device)
        if not certain and not is_chosen(tensor.device):
            return
        method = node.func if isinstance(node.func, ast.Attribute) and given is node.func.value else None
        how = ".numpy()" if method else ast.unparse(node.func)
        yield ctx.finding(
            self,
            given,
            f"{how} accepts CPU tensors only, but this one is on {spoken(tensor.device)}",
            span=name_span(method, ctx) if method else None,
            severity=None if certain else "warning",
            fixes=[_fix(given, tensor, method, ctx)],
        )

    def visit_file(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        """What a model computes of inputs on a device that is chosen at run time."""
        for call, device in ctx.derived(arrays_of_chosen):
            method = call.func
            tensor = ctx.tensor(method.value) if isinstance(method, ast.Attribute) else None
            if not isinstance(method, ast.Attribute) or (tensor is not None and tensor.device is not None):
                continue  # where its device is known, the call tells of it
            yield ctx.finding(
                self,
                method.value,
                f".numpy() accepts CPU tensors only, but this one is on `{device}`",
                span=name_span(method, ctx),
                severity="warning",
                fixes=[_fix(method.value, tensor or Tensor(), method, ctx)],
            )


def _fix(given: ast.expr, tensor: Tensor, method: ast.Attribute | None, ctx: Context) -> Fix | None:
    moved = "detach().cpu()" if tensor.requires_grad else "cpu()"
    if method is not None:
        start = name_span(method, ctx).start
        edit = Edit(Span(start, start), f"{moved}.")
    else:
        edit = ctx.replace(given, f"{as_operand(ctx, given)}.{moved}")
    return ctx.fix(f"Insert `{moved}`", edit, safety="safe")


def _converted(node: ast.Call, ctx: Context) -> ast.expr | None:
    """Return the tensor expression that a call turns into an array."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "numpy":
        return node.func.value if not node.args and not node.keywords else None
    return node.args[0] if node.args and ctx.name(node.func) in _NUMPY else None
