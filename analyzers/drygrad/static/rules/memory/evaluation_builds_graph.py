"""Rule DG506: an evaluation that records a graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Severity, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.editing import put_under
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.operations import PARAMETERLESS
from drygrad.static.facts.values import Constant, Number, Object, Reference, Value
from drygrad.static.loops import iterates_over_loader, trains
from drygrad.static.roles import role_of
from drygrad.static.rules.memory.inferring import inferring_call
from drygrad.static.syntax import body_nodes, called, calls_in, follows

_EVALUATES = re.compile(r"^_?(evaluate|eval|validate|validation|val|test|predict|inference|infer)(_|$)")
_NEEDS_GRAPH = re.compile(
    r"\bbackward\b|autograd|\.grad\b|requires_grad|enable_grad|set_grad_enabled|no_grad|inference_mode|\.step\(|attack|"
    r"advers|salien|gradcam|grad_cam|captum|jacobian|hessian|vjp|jvp|Accelerator\(|torch\.func|torch\._C"
)
_TRANSPARENT = frozenset({"staticmethod", "classmethod"})
_FREEZES = re.compile(r"requires_grad_\(False\)|requires_grad = False")
_FRAMEWORKS = re.compile(r"\b(LightningModule|pytorch_lightning|ignite|fastai|TrainingArguments)\b")


class EvaluationBuildsGraph(Rule):
    """
    ## What it does
    Finds evaluation loops that call the model while gradients are recorded, and functions such as `predict` that switch
    the model to eval mode and return its output.

    ## Why is this bad?
    `model.eval()` switches dropout and batch norm; it does not disable autograd. Without `torch.no_grad()` each forward
    saves its activations for a backward that never comes: evaluation takes longer and needs as much memory as training
    (a common cause of out-of-memory errors during validation).

    In a function that nothing in the file calls, and in a `predict`, this is an `info`: the caller may have disabled
    gradients. Evaluations that use gradients (saliency, attacks, meta-learning) are not reported.

    ## Example
    ```python
    def evaluate(model, loader):
        model.eval()
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
    ```
    Use instead:
    ```python
    @torch.no_grad()
    def evaluate(model, loader):
        model.eval()
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
    ```

    ## Fix safety
    Safe if the function returns nothing, or only numbers; otherwise unsafe: its tensors no longer have a graph.
    """

    code, name, since = "DG506", "evaluation-builds-graph", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            class Miner(nn.Module):
                def __init__(self, margin=0.2):
                    super().__init__()
                    self.margin, self.relu = margin, nn.ReLU()

                def forward(self, anchors, others):
                    return (torch.cdist(anchors, others) < self.margin).nonzero()

            def validate(loader):
                model = Miner()
                return [model(a, b) for a, b in loader], sum(len(model(a, b)) for a, b in loader)

            def test(loader):
                model = Miner()
                model.eval()
                for a, b in loader:
                    print(len(model(a, b)))
            """
        ),
        Valid("""
            @torch.no_grad()
            def evaluate(model: nn.Module, loader):
                model.eval()
                return [model(x).argmax(1) for x in loader]
        """),
        Valid("""
            def validate(model, val_loader, criterion):
                model.eval()
                total = 0.0
                with torch.inference_mode():
                    for x, y in val_loader:
                        total += criterion(model(x), y).item()
                return total
        """),
        Valid("""
            def evaluate(model, loader):
                model.eval()
                for x in loader:
                    print(model(x).argmax(1))

            def main(model, loader):
                with torch.no_grad():
                    evaluate(model, loader)
        """),
        Valid("""
            def test_robustness(model, loader, epsilon):
                model.eval()
                for x, y in loader:
                    x.requires_grad_(True)
                    F.cross_entropy(model(x), y).backward()
                    print(model(x + epsilon * x.grad.sign()).argmax(1))
        """),
        Valid("""
            def finetune(model, loader, criterion, optimizer):
                model.eval()
                for x, y in loader:
                    optimizer.zero_grad()
                    criterion(model(x), y).backward()
                    optimizer.step()
        """),
        Valid("""
            import pytorch_lightning as pl

            class Net(pl.LightningModule):
                def validate(self, model, loader):
                    model.eval()
                    for x in loader:
                        print(model(x))
        """),
        Valid("""
            def evaluate(policy, states):
                values = []
                for state in states:
                    values.append(policy(state))
                return torch.stack(values)
        """),
        Valid(
            """
            def evaluate_boxes(model, loader, device, results):
                for images, targets in loader:
                    results.update(model(images), targets)
                return results.evaluate()

            @torch.inference_mode()
            def evaluate(model, loader, device, results):
                model.eval()
                return evaluate_boxes(model, loader, device, results)
            """
        ),
        Valid(
            """
            class Net(nn.Module):
                @torch.no_grad()
                def predict(self, x):
                    self.eval()
                    return self.forward(x)

                def generate(self, x):
                    self.eval()
                    with torch.inference_mode():
                        return self(x)

                def features(self, x):
                    self.eval()
                    return self(x)

                def sample(self, x):
                    self.eval()
                    x.requires_grad_(True)
                    return self(x)
            """
        ),
        Valid(
            """
            def embed(encoder, x):
                encoder.eval()
                return encoder(x)

            def step(encoder, head, x, y):
                F.cross_entropy(head(embed(encoder, x)), y).backward()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Net(nn.Module):
                def predict(self, x):
                    if self.training:
                        self.eval()
                    x = self.forward(x)
                    return x.softmax(1)
            """,
            """
            class Net(nn.Module):
                @torch.no_grad()
                def predict(self, x):
                    if self.training:
                        self.eval()
                    x = self.forward(x)
                    return x.softmax(1)
            """,
            at=(5, 12, 5, 27),
            severity="info",
        ),
        Invalid(
            """
            def evaluate(model, loader, device):
                model.eval()
                correct = 0
                for x, y in loader:
                    logits = model(x.to(device))
                    correct += (logits.argmax(1) == y.to(device)).sum().item()
                return correct / len(loader.dataset)
            """,
            """
            @torch.no_grad()
            def evaluate(model, loader, device):
                model.eval()
                correct = 0
                for x, y in loader:
                    logits = model(x.to(device))
                    correct += (logits.argmax(1) == y.to(device)).sum().item()
                return correct / len(loader.dataset)
            """,
            at=(5, 17, 5, 36),
            severity="info",
        ),
        Invalid(
            """
            class Trainer:
                def __init__(self, loader):
                    self.model = nn.Sequential(nn.Linear(4, 2), nn.Dropout())
                    self.val_loader = loader

                def validate(self):
                    self.model.eval()
                    losses = []
                    for x, y in self.val_loader:
                        losses.append(F.cross_entropy(self.model(x), y).item())
                    print(sum(losses) / len(losses))

            Trainer(torch.load("data.pt")).validate()
            """,
            """
            class Trainer:
                def __init__(self, loader):
                    self.model = nn.Sequential(nn.Linear(4, 2), nn.Dropout())
                    self.val_loader = loader

                @torch.no_grad()
                def validate(self):
                    self.model.eval()
                    losses = []
                    for x, y in self.val_loader:
                        losses.append(F.cross_entropy(self.model(x), y).item())
                    print(sum(losses) / len(losses))

            Trainer(torch.load("data.pt")).validate()
            """,
        ),
        Invalid(
            """
            model = nn.Linear(4, 2)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for epoch in range(10):
                model.train()
                for x, y in train_loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                model.eval()
                correct = 0
                for x, y in val_loader:
                    # top 1

                    correct += (model(x).argmax(1) == y).sum().item()
                print(epoch, correct)
            """,
            """
            model = nn.Linear(4, 2)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for epoch in range(10):
                model.train()
                for x, y in train_loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                model.eval()
                correct = 0
                with torch.no_grad():
                    for x, y in val_loader:
                        # top 1

                        correct += (model(x).argmax(1) == y).sum().item()
                print(epoch, correct)
            """,
        ),
        Invalid(
            """
            def fit(model, train_loader, val_loader, criterion, optimizer):
                model.train()
                for x, y in train_loader:
                    optimizer.zero_grad()
                    criterion(model(x), y).backward()
                    optimizer.step()
                model.train(False)
                for batch in enumerate(val_loader):
                    print(model(batch[1][0]).argmax(1))
            """,
            """
            def fit(model, train_loader, val_loader, criterion, optimizer):
                model.train()
                for x, y in train_loader:
                    optimizer.zero_grad()
                    criterion(model(x), y).backward()
                    optimizer.step()
                model.train(False)
                with torch.no_grad():
                    for batch in enumerate(val_loader):
                        print(model(batch[1][0]).argmax(1))
            """,
        ),
    ]

    def visit_loop(self, node: ast.For, ctx: Context) -> Iterator[Finding]:
        if any(_evaluates(outer, ctx) for outer in ctx.loops(node)):
            return
        call = _evaluates(node, ctx)
        if call is None or ctx.mentions(_FRAMEWORKS):
            return
        function = ctx.function(node)
        whole = function is not None and ctx.noted(_is_evaluation, function)
        if not whole and _NEEDS_GRAPH.search(_rest_of(node, ctx)):
            return
        depends = function is not None and not ctx.callers(function) and not trains(function)
        severity: Severity = "info" if depends else "warning"
        fix = _decorated(function, ctx) if whole and function is not None else _wrapped(node, ctx)
        yield ctx.finding(self, call, _message(call, ctx), severity=severity, fixes=[fix])

    def visit_function(self, node: ast.FunctionDef, ctx: Context) -> Iterator[Finding]:
        if not ctx.noted(_is_evaluation, node) or _freezes(ctx) or _has_unknown_decorator(node):
            return
        call = inferring_call(node, ctx) if not ctx.mentions(_FRAMEWORKS) else None
        if call is None or ctx.loops(call):
            return
        model = ctx.value(call.func)
        if isinstance(model, Object) and (model.frozen or not _may_have_parameters(model, ctx)):
            return
        yield ctx.finding(self, call, _message(call, ctx), severity="info", fixes=[_decorated(node, ctx)])


def _message(call: ast.Call, ctx: Context) -> str:
    return (
        f"{ctx.source_of(call.func)} is evaluated with gradients enabled; each forward saves activations that no "
        "backward uses"
    )


def _evaluates(loop: ast.AST, ctx: Context) -> ast.Call | None:
    """Return the call of a model that a loop evaluates with a graph; None for any other loop."""
    if not isinstance(loop, ast.For) or _NEEDS_GRAPH.search(ctx.source_of(loop)):
        return None
    function = ctx.function(loop)
    if _freezes(ctx) or (function is not None and _has_unknown_decorator(function)):
        return None
    for call in calls_in(loop):
        name = dotted_text(call.func)
        if name is None or role_of(ctx, call.func) != "model" or ctx.grad_enabled(ctx.statement(call)) is not True:
            continue
        value = ctx.value(call.func)
        if isinstance(value, Object) and (value.frozen or value.training or not _may_have_parameters(value, ctx)):
            continue
        if _is_in_evaluation_mode(name, loop, ctx) or _is_named_evaluation(function, loop, ctx):
            return call
    return None


def _may_have_parameters(module: Object, ctx: Context) -> bool:
    """Say whether a module may hold parameters: one that holds none records no graph of its own."""
    if module.cls is None:
        return module.type.rpartition(".")[2] not in PARAMETERLESS
    bases = {base.name for cls in module.cls.lineage() for base in cls.bases if isinstance(base, Reference)}
    held = ctx.facts.attributes(module).values()
    return bases != {"torch.nn.Module"} or not all(_has_none(value, ctx) for value in held)


def _has_none(held: Value, ctx: Context) -> bool:
    """Say whether an attribute of a module is or holds no parameter."""
    if isinstance(held, Object):
        return held.is_module and not _may_have_parameters(held, ctx)
    return isinstance(held, (Constant, Number))


def _has_unknown_decorator(function: FunctionNode) -> bool:
    """Say whether a decorator may switch gradients off; of torch's own the grad mode tells."""
    return any((dotted_text(d) or "") not in _TRANSPARENT for d in function.decorator_list)


def _freezes(ctx: Context) -> bool:
    """Say whether the file freezes parameters: a frozen model records no graph."""
    return ctx.mentions(_FREEZES)


def _is_in_evaluation_mode(name: str, loop: ast.For, ctx: Context) -> bool:
    """Say whether the last switch of a model's mode before a loop is to evaluation."""
    switches = [c for c in calls_in(ctx.function(loop) or ctx.tree) if _switches(c, name) and follows(loop, c)]
    return bool(switches) and (called(switches[-1]) == "eval" or _is_off(switches[-1]))


def _switches(call: ast.Call, name: str) -> bool:
    switch = isinstance(call.func, ast.Attribute) and call.func.attr in ("eval", "train")
    return switch and isinstance(call.func, ast.Attribute) and dotted_text(call.func.value) == name


def _is_off(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and not call.args[0].value


def _is_named_evaluation(function: FunctionNode | None, loop: ast.For, ctx: Context) -> bool:
    """Say whether a loop over a loader stands in a function that is called ``validate`` or the like."""
    if function is None or not _EVALUATES.match(function.name) or not iterates_over_loader(loop, ctx):
        return False
    return not any(called(call) == "train" for call in calls_in(function))


def _is_evaluation(function: FunctionNode, ctx: Context) -> bool:
    """Say whether nothing in a function needs a graph."""
    return not _NEEDS_GRAPH.search(ctx.source_of(function))


def _rest_of(loop: ast.For, ctx: Context) -> str:
    """Return the text of what follows a loop in its block."""
    parent = ctx.parent(loop)
    body = [child for child in ast.iter_child_nodes(parent or ctx.tree) if isinstance(child, ast.stmt)]
    return "\n".join(ctx.source_of(statement) for statement in body if follows(statement, loop))


def _decorated(function: FunctionNode, ctx: Context) -> Fix | None:
    """Put ``@torch.no_grad()`` on the function."""
    torch = ctx.imported_as("torch")
    if torch is None:
        return None
    returned = [node.value for node in body_nodes(function) if isinstance(node, (ast.Return, ast.Yield))]
    keeps = any(value is not None and not isinstance(ctx.value(value), (Number, Constant)) for value in returned)
    stores = any(isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) for node in body_nodes(function))
    edit = ctx.insert_statement(function, f"@{torch}.no_grad()")
    return ctx.fix("Decorate with `no_grad()`", edit, safety="unsafe" if keeps or stores else "safe")


def _wrapped(loop: ast.For, ctx: Context) -> Fix | None:
    """Put the loop into ``with torch.no_grad():``."""
    torch = ctx.imported_as("torch")
    if torch is None:
        return None
    return ctx.fix("Wrap the loop in `no_grad()`", put_under(ctx, loop, loop, f"with {torch}.no_grad():"))
