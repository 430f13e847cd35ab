"""Rule DG509: the output of a custom function as a plain attribute of its context."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.custom_functions import CustomFunction, context_name, custom_function
from drygrad.static.syntax import called, calls_in, own_nodes, parameter_names, rebound_between
from drygrad.static.tree import walk


class OutputKeptOnContext(Rule):
    """
    ## What it does
    Finds `ctx.y = y` in the `forward` of a `torch.autograd.Function` that returns `y`.

    ## Why is this bad?
    The output's `grad_fn` owns `ctx`, and `ctx` now owns the output: a cycle that neither `backward()` nor the end of
    the step frees. Tensors of past steps pile up until Python's garbage collector happens to run, which does not know
    how full the GPU is. `save_for_backward` keeps outputs without a cycle, is freed by `backward()`, and detects
    in-place writes.

    ## Example
    ```python
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.y = y
            return y

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.y
    ```
    Use instead:
    ```python
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return grad_output * y
    ```

    ## Fix safety
    Unsafe: `backward` now raises if the output has been overwritten, or on a second backward through the graph.

    ## References
    - [Extending autograd](https://docs.pytorch.org/docs/stable/notes/extending.html)
    """

    code, name, since = "DG509", "output-kept-on-context", "0.1"
    VALID = [
        Valid(
            """
            class Exp(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    y = x.exp()
                    ctx.save_for_backward(y)
                    return y

                @staticmethod
                def backward(ctx, grad_output):
                    return grad_output * ctx.saved_tensors[0]
            """
        ),
        Valid(
            """
            class Square(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    slope = 2 * x
                    ctx.slope = slope
                    return x * x

                @staticmethod
                def backward(ctx, grad_output):
                    return grad_output * ctx.slope
            """
        ),
        Valid(
            """
            class Exp(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    y = x.exp()
                    ctx.y = y.detach()
                    ctx.size = y.shape
                    return y

                @staticmethod
                def backward(ctx, grad_output):
                    return grad_output * ctx.y
            """
        ),
        Valid(
            """
            class Choice(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    index = x.argmax(-1)
                    ctx.mark_non_differentiable(index)
                    ctx.index = index
                    return index

                @staticmethod
                def backward(ctx, grad_output):
                    return None
            """
        ),
        Valid(
            """
            class Exp(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    y = x.exp()
                    ctx.y = y
                    return y

                @staticmethod
                def backward(ctx, grad_output):
                    y = ctx.y
                    ctx.y = None
                    return grad_output * y
            """
        ),
        Valid(
            """
            class Exp(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    y = x.exp()
                    ctx.y = y
                    y = y.clone()
                    return y

                @staticmethod
                def backward(ctx, grad_output):
                    return grad_output * ctx.y
            """
        ),
        Valid(
            """
            class Identity(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x, count):
                    ctx.x = x
                    ctx.count = count
                    return x

                @staticmethod
                def backward(ctx, grad_output):
                    return grad_output / ctx.count, None
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Exp(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    y = x.exp()
                    ctx.y = y
                    return y

                @staticmethod
                def backward(ctx, grad_output):
                    return grad_output * ctx.y
            """,
            """
            class Exp(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    y = x.exp()
                    ctx.save_for_backward(y)
                    return y

                @staticmethod
                def backward(ctx, grad_output):
                    return grad_output * ctx.saved_tensors[0]
            """,
            at=(5, 8, 5, 17),
        ),
        Invalid(
            """
            from torch.autograd.function import Function

            class Gate(Function):
                @staticmethod
                def forward(x, w):
                    return torch.sigmoid(x @ w)

                @staticmethod
                def setup_context(ctx, inputs, output):
                    x, w = inputs
                    ctx.save_for_backward(x, w)
                    ctx.gate = output

                @staticmethod
                def backward(ctx, grad_gate):
                    x, w = ctx.saved_tensors
                    grad = grad_gate * ctx.gate * (1 - ctx.gate)
                    return grad @ w.T, x.T @ grad
            """,
        ),
    ]

    def visit_class_def(self, node: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
        function = custom_function(node, ctx)
        if function is None:
            return
        for method in filter(None, (function.method("forward"), function.method("setup_context"))):
            for kept in _kept(method):
                if _is_output(kept, method) and not _is_released(kept, function):
                    yield ctx.finding(
                        self,
                        kept.statement,
                        f"`{kept.name}` is an output stored on its own ctx (`{kept.owner}`); this reference cycle "
                        "outlives backward() until the garbage collector runs",
                        fixes=[_fix(kept, function, ctx)],
                    )


@dataclass(frozen=True)
class _Kept:
    """``ctx.attribute = name``."""

    statement: ast.Assign
    owner: str
    attribute: str
    name: str


def _kept(method: FunctionNode) -> Iterator[_Kept]:
    """Yield the names that a method makes attributes of its context."""
    owner = context_name(method)
    for node in own_nodes(*method.body):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id=holder), attr=attribute)], value=ast.Name(id=name)
            ) if holder == owner:
                yield _Kept(node, holder, attribute, name)
            case _:
                pass


def _is_output(kept: _Kept, method: FunctionNode) -> bool:
    """Say whether a name is, for certain, the tensor that the function returns."""
    if method.name == "setup_context":
        return parameter_names(method)[2:] == [kept.name]
    outputs = [r.value for r in own_nodes(*method.body) if isinstance(r, ast.Return)]
    if len(outputs) != 1 or kept.name in parameter_names(method):
        return False
    match outputs[0]:
        case ast.Name(id=name) as output if name == kept.name:
            return not rebound_between(name, kept.statement, output, method) and not _is_marked(name, method)
        case _:
            return False


def _is_marked(name: str, method: FunctionNode) -> bool:
    """Say whether an output is marked as not differentiable: it then has no grad_fn."""
    marks = (call for call in calls_in(method) if called(call) == "mark_non_differentiable")
    return any(isinstance(given, ast.Name) and given.id == name for call in marks for given in call.args)


def _is_released(kept: _Kept, function: CustomFunction) -> bool:
    """Say whether another statement of the class binds or deletes the attribute."""
    stores = (
        n
        for n in walk(function.node)
        if isinstance(n, ast.Attribute) and n.attr == kept.attribute and not isinstance(n.ctx, ast.Load)
    )
    return any(store is not kept.statement.targets[0] for store in stores)


def _fix(kept: _Kept, function: CustomFunction, ctx: Context) -> Fix | None:
    """Save the output, where nothing else is saved and ``backward`` has the attribute by its name only."""
    uses = [n for n in walk(function.node) if isinstance(n, ast.Attribute)]
    if any(use.attr in ("save_for_backward", "saved_tensors") for use in uses):
        return None
    reads = [use for use in uses if use.attr == kept.attribute and isinstance(use.ctx, ast.Load)]
    owners = [read.value.id for read in reads if isinstance(read.value, ast.Name)]
    if len(owners) != len(reads):
        return None
    saved = (ctx.replace(read, f"{owner}.saved_tensors[0]") for read, owner in zip(reads, owners, strict=True))
    save = ctx.replace(kept.statement, f"{kept.owner}.save_for_backward({kept.name})")
    return ctx.fix("Use `save_for_backward()`", save, *saved)
