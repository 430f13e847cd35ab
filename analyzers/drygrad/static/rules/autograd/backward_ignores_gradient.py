"""Rule DG115: a custom backward that does not use the gradient it is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.custom_functions import custom_function, gradient_names
from drygrad.static.syntax import called, calls_in, own_nodes
from drygrad.static.tree import walk

_NOTHING = frozenset({"zeros", "zeros_like", "new_zeros"})


class BackwardIgnoresGradient(Rule):
    """
    ## What it does
    Finds a `backward` of a `torch.autograd.Function` that returns gradients but never reads its `grad_output`.

    ## Why is this bad?
    This breaks the chain rule: nothing after the function affects the gradient. A loss weight, the divisor of gradient
    accumulation, the factor of a `GradScaler` and every later operation are ignored. The forward values are right, and
    nothing raises.

    If this is intended, name the argument with a leading underscore (`_grad_output`).

    ## Example
    ```python
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad_output):
            (slope,) = ctx.saved_tensors
            return slope
    ```
    Use instead:
    ```python
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad_output):
            (slope,) = ctx.saved_tensors
            return grad_output * slope
    ```

    ## Fix safety
    Unsafe: the gradients change. The product is correct if the saved tensor is an elementwise derivative, or the result
    a scalar.
    """

    code, name, since = "DG115", "backward-ignores-gradient", "0.1"
    VALID = [
        Valid(
            """
            class Scale(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x * 2

                @staticmethod
                def backward(ctx, grad_output):
                    return grad_output * 2
            """
        ),
        Valid(
            """
            class Losses(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x.sum(), x.mean()

                @staticmethod
                def backward(ctx, *grads):
                    (x,) = ctx.saved_tensors
                    return sum(grads) * torch.ones_like(x)
            """
        ),
        Valid(
            """
            class Round(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x.round()

                @staticmethod
                def backward(ctx, grad_output):
                    raise NotImplementedError("not differentiable")
            """
        ),
        Valid(
            """
            class Index(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x, axis):
                    return x.argmax(axis)

                @staticmethod
                def backward(ctx, grad_output):
                    return None, None
            """
        ),
        Valid(
            """
            class Stop(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x.clone()

                @staticmethod
                def backward(ctx, grad_output):
                    (x,) = ctx.saved_tensors
                    zero = torch.zeros_like(x)
                    return zero
            """
        ),
        Valid(
            """
            class Injected(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x, gradient):
                    ctx.save_for_backward(gradient)
                    return x

                @staticmethod
                def backward(ctx, _grad_output):
                    return ctx.saved_tensors[0], None
            """
        ),
        Valid(
            """
            class Delayed(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x * 3

                @staticmethod
                def backward(ctx, grad_output):
                    def tripled():
                        return 3 * grad_output
                    return tripled()
            """
        ),
        Valid(
            """
            class Solver:
                @staticmethod
                def backward(ctx, grad_output):
                    return ctx.slope
            """
        ),
        Valid(
            """
            class Portal(torch.autograd.Function):
                @staticmethod
                def forward(ctx, portal, phony):
                    ctx.portal = portal
                    return portal.use(phony)

                @staticmethod
                def backward(ctx, grad_phony):
                    return None, ctx.portal.gradient()

            class Recompute(torch.autograd.Function):
                @staticmethod
                def forward(ctx, phony, *inputs):
                    ctx.save_for_backward(*inputs)
                    return phony

                @staticmethod
                def backward(ctx, grad_phony):
                    gradients = [None]
                    gradients.extend(None for _ in ctx.saved_tensors)
                    return tuple(gradients)
            """
        ),
        Valid(
            """
            class Wait(torch.autograd.Function):
                @staticmethod
                def forward(ctx, request, x):
                    ctx.request = request
                    return x

                @staticmethod
                def backward(ctx, *unused):
                    return None, ctx.request.gradient

            class Gathered(torch.autograd.Function):
                @staticmethod
                def forward(ctx, request, x):
                    ctx.request = request
                    return x

                @staticmethod
                def backward(ctx, grad_output):
                    ctx.request.wait()
                    return None, ctx.request.gradient
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Cube(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x**3

                @staticmethod
                def backward(ctx, grad_output):
                    (x,) = ctx.saved_tensors
                    slope = 3 * x**2
                    return slope
            """,
            """
            class Cube(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x**3

                @staticmethod
                def backward(ctx, grad_output):
                    (x,) = ctx.saved_tensors
                    slope = 3 * x**2
                    return grad_output * slope
            """,
            at=(11, 8, 11, 20),
        ),
        Invalid(
            """
            from torch.autograd import Function

            class Contrast(Function):
                @staticmethod
                def forward(ctx, scores, positives, margin):
                    ctx.slopes = scores.softmax(-1) - positives
                    return (scores * positives).sum() - margin

                @staticmethod
                def backward(ctx, grad_loss):
                    if not ctx.needs_input_grad[1]:
                        return ctx.slopes, None, None
                    return ctx.slopes, -ctx.slopes, None
            """,
            """
            from torch.autograd import Function

            class Contrast(Function):
                @staticmethod
                def forward(ctx, scores, positives, margin):
                    ctx.slopes = scores.softmax(-1) - positives
                    return (scores * positives).sum() - margin

                @staticmethod
                def backward(ctx, grad_loss):
                    if not ctx.needs_input_grad[1]:
                        return grad_loss * ctx.slopes, None, None
                    return grad_loss * ctx.slopes, grad_loss * -ctx.slopes, None
            """,
        ),
    ]

    def visit_class_def(self, node: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
        function = custom_function(node, ctx)
        backward = function.method("backward") if function is not None else None
        names = gradient_names(backward) if backward is not None else set[str]()
        if backward is None or not names or any(_is_said_unused(name) for name in names) or _reads(backward, names):
            return
        if any(called(call) == "wait" for call in calls_in(backward)):
            return  # a request of another function brings the gradient
        returned = [r for r in own_nodes(*backward.body) if isinstance(r, ast.Return)]
        saved = _saved(node)
        gradients = {r: [g for g in _gradients(r) if not _is_nothing(g, backward)] for r in returned}
        if any(_is_from_elsewhere(g, saved, backward) for each in gradients.values() for g in each):
            return
        first = next((r for r in returned if gradients[r]), None)
        if first is None:
            return
        given = ", ".join(f"`{name}`" for name in sorted(names))
        yield ctx.finding(
            self,
            first,
            f"backward never reads {given}; anything applied after the function, such as a loss weight, is missing "
            "from the gradient",
            related=[("never read", backward.args.args[1] if len(backward.args.args) > 1 else backward)],
            fixes=[_fix([g for each in gradients.values() for g in each], names, backward, ctx)],
        )


def _is_said_unused(name: str) -> bool:
    """Say whether a name tells that nothing reads it: what is wanted comes by another way, such as a request."""
    return name.startswith("_") or "unused" in name.lower() or "dummy" in name.lower()


def _reads(backward: FunctionNode, names: set[str]) -> bool:
    """Say whether a backward may read what it is given, if only by ``locals()`` or in a function inside."""
    read = {n.id for n in walk(backward) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return bool(read & (names | {"locals", "super"}))


def _gradients(returned: ast.Return) -> list[ast.expr]:
    """Return what a return statement gives for the inputs."""
    match returned.value:
        case None:
            return []
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return elements
        case value:
            return [value]


def _is_nothing(gradient: ast.expr, backward: FunctionNode) -> bool:
    """Say whether a gradient is None or zeros: where there is none, the chain rule has nothing to pass on."""
    match gradient:
        case ast.Constant():
            return True
        case ast.Call():
            return called(gradient) in _NOTHING
        case ast.Name(id=name):
            values = [value for target, value in _assignments(backward) if target == name]
            return bool(values) and all(_is_nothing(v, backward) for v in values if not _names(v, name))
        case _:
            return False


def _saved(cls: ast.ClassDef) -> set[str]:
    """Return the attributes of ``ctx`` to which the class itself assigns what it has computed."""
    return {"saved_tensors"} | {
        target.attr
        for node in walk(cls)
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Attribute)
    }


def _is_from_elsewhere(gradient: ast.expr, saved: set[str], backward: FunctionNode) -> bool:
    """Say whether a gradient may have come by another way: nothing that the forward has saved is in it."""
    context = backward.args.args[0].arg if backward.args.args else None
    waiting, seen = [gradient], set[str]()
    while waiting:
        for node in walk(waiting.pop()):
            match node:
                case ast.Attribute(value=ast.Name(id=owner), attr=attr) if owner == context and attr in saved:
                    return False
                case ast.Name(id=name) if name not in seen:
                    seen.add(name)
                    waiting += [value for target, value in _assignments(backward) if target == name]
                case _:
                    pass
    return True


def _assignments(backward: FunctionNode) -> Iterator[tuple[str, ast.expr]]:
    for node in own_nodes(*backward.body):
        match node:
            case ast.Assign(targets=targets, value=value):
                names = (n for target in targets for n in walk(target))
                yield from ((n.id, value) for n in names if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            case _:
                pass


def _names(value: ast.expr, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in walk(value))


def _fix(gradients: list[ast.expr], names: set[str], backward: FunctionNode, ctx: Context) -> Fix | None:
    """Multiply each gradient, where there is one name and each is an operand that a product can take as it stands."""
    simple = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.UnaryOp)
    if len(names) != 1 or backward.args.vararg or not all(isinstance(g, simple) for g in gradients):
        return None
    (name,) = names
    return ctx.fix(f"Multiply by {name}", *(ctx.insert_before(g, f"{name} * ") for g in gradients))
