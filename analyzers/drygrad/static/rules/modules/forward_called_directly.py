"""Rule DG749: forward called instead of the module."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Invalid, Position, Rule, Span, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Object, Value, options_of

_LONGEST = 30


class ForwardCalledDirectly(Rule):
    """
    ## What it does
    Finds `model.forward(x)` where `model` is an `nn.Module`.

    ## Why is this bad?
    Calling the module runs its hooks and `forward`; the direct call silently skips the hooks. Features that a forward
    hook should collect are missing, `nn.utils.weight_norm` and `nn.utils.spectral_norm` keep an old weight, and FSDP2
    (`fully_shard`) does not gather the parameters.

    ## Example
    ```python
    model = nn.Linear(8, 4)
    output = model.forward(images)
    ```
    Use instead:
    ```python
    model = nn.Linear(8, 4)
    output = model(images)
    ```

    ## Fix safety
    Unsafe: the module's hooks now run.
    """

    code, name, since = "DG749", "forward-called-directly", "0.1"
    severity = "info"
    VALID = [
        Valid("model = nn.Linear(3, 4)\ny = model(torch.ones(2, 3))"),
        Valid("def run(engine, x):\n    return engine.forward(x)  # may be anything that has such a method"),
        Valid(
            """
            class Block(nn.Linear):
                def forward(self, x):
                    return super().forward(x).relu() + nn.Linear.forward(self, x)

                def features(self, x):
                    return self.forward(x)
            """
        ),
        Valid(
            """
            net = nn.Linear(3, 4)
            compiled = torch.compile(net.forward)
            net.forward = compiled
            """
        ),
        Valid(
            """
            class Head:
                def forward(self, x):
                    return x + 1

            y = Head().forward(torch.ones(3))
            """
        ),
        Valid(
            """
            class Wrapper(nn.Module):
                def __init__(self, inner: nn.Module):
                    super().__init__()
                    self.inner = inner

                def __call__(self, *inputs):
                    return self.inner.forward(*inputs)
            """
        ),
    ]
    INVALID = [
        Invalid(
            "model = nn.Linear(3, 4)\ny = model.forward(torch.ones(2, 3))",
            "model = nn.Linear(3, 4)\ny = model(torch.ones(2, 3))",
            at=(2, 10, 2, 17),
        ),
        Invalid(
            "y = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).forward(torch.ones(2, 3))",
            "y = nn.Sequential(nn.Linear(3, 4), nn.ReLU())(torch.ones(2, 3))",
        ),
        Invalid(
            """
            def score(model: nn.Module, images):
                return model.forward(
                    images,  # as they come
                ).softmax(dim=-1)
            """,
            """
            def score(model: nn.Module, images):
                return model(
                    images,  # as they come
                ).softmax(dim=-1)
            """,
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.encoder = nn.utils.weight_norm(nn.Linear(8, 8))
                    self.head = nn.Linear(8, 3)

                def forward(self, x):
                    return self.head.forward(self.encoder(x).relu())

            def train(loader):
                model = Net()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for images, labels in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model.forward(images), labels)
                    loss.backward()
                    optimizer.step()
            """,
            count=2,
            fixed="""
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.encoder = nn.utils.weight_norm(nn.Linear(8, 8))
                    self.head = nn.Linear(8, 3)

                def forward(self, x):
                    return self.head(self.encoder(x).relu())

            def train(loader):
                model = Net()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for images, labels in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model.forward(images), labels)
                    loss.backward()
                    optimizer.step()
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr != "forward":
            return
        called = ctx.receiver(node)
        if called is None or not all(_runs_hooks(value) for value in options_of(called[1])):
            return
        if _is_own(function.value, ctx):
            return
        start, end = ctx.source.end(function.value), ctx.source.end(function)
        text = ctx.source_of(function.value)
        spoken = f"`{text}(...)`" if len(text) <= _LONGEST and "\n" not in text else "the module"
        yield ctx.finding(
            self,
            function,
            f"calling `.forward(...)` skips the module's hooks; call {spoken} itself",
            span=Span(Position(end.line, end.column - len("forward")), end),
            fixes=[ctx.fix("Call the module", Edit(Span(start, end), ""))],
        )


def _runs_hooks(value: Value) -> bool:
    """Say whether a value is surely an ``nn.Module`` that is called as modules are: hooks first, then ``forward``."""
    if not isinstance(value, Object) or not value.is_module:
        return False
    if value.cls is not None:
        return value.cls.known_bases and value.cls.member("__call__") is None
    return all(base.startswith(("torch.", "builtins.")) for base in value.bases)


def _is_own(receiver: ast.expr, ctx: Context) -> bool:
    """Say whether a call stands in a method of the receiver itself, or in a ``__call__`` that stands for another."""
    methods = [
        f for f in ctx.ancestors(receiver) if isinstance(f, ast.FunctionDef) and isinstance(ctx.parent(f), ast.ClassDef)
    ]
    if any(method.name == "__call__" for method in methods):
        return True
    return isinstance(receiver, ast.Name) and any(
        method.args.args and method.args.args[0].arg == receiver.id for method in methods
    )
