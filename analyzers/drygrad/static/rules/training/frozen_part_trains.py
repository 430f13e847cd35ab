"""Rule DG769: a frozen part that goes back to training mode with the whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import inserted
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import UNKNOWN, Class, Object
from drygrad.static.rules.training.modes import mode_layer
from drygrad.static.syntax import body_nodes, called, calls_in, class_around, own_nodes
from drygrad.static.tree import walk

_FREEZES = re.compile(r"requires_grad_\(False\)|requires_grad = False")
_SHOWN = frozenset({"torch.nn.Sequential", "torch.nn.Linear", "torch.nn.Conv2d", "torch.nn.Embedding"})

_TEACHER = """
class Distiller(nn.Module):
    def __init__(self, student, teacher):
        super().__init__()
        self.student = student
        self.teacher = teacher.eval().requires_grad_(False)

    def forward(self, x):
        return F.mse_loss(self.student(x), self.teacher(x))
"""
_FIT = """
def fit(student, teacher, loader, optimizer):
    model = Distiller(student, teacher)
    for epoch in range(10):
        model.train()
        for x in loader:
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
"""
_TRAINER = """
class Trainer:
    def __init__(self, distiller, loader, optimizer):
        self.distiller, self.loader, self.optimizer = distiller, loader, optimizer

    def epoch(self):
        self.distiller.train()
        for x in self.loader:
            self.optimizer.zero_grad()
            self.distiller(x).backward()
            self.optimizer.step()
"""


class FrozenPartTrains(Rule):
    """
    ## What it does
    Finds `train()` on a module with a part that was frozen and put into eval mode in the constructor: a teacher, a
    pretrained encoder.

    ## Why is this bad?
    `train()` switches all submodules. In the frozen part dropout is active again, and batch norms use and update batch
    statistics, although no optimizer touches it: a teacher's targets become noise, features drift. Nothing raises.

    ## Example
    ```python
    class Distiller(nn.Module):
        def __init__(self, student, teacher):
            super().__init__()
            self.student = student
            self.teacher = teacher.eval().requires_grad_(False)


    distiller.train()
    ```
    Use instead:
    ```python
    distiller.train()
    distiller.teacher.eval()
    ```
    Or override `train` in the module, which then works for every caller.

    ## Fix safety
    Unsafe: it changes how the model trains.
    """

    code, name, since = "DG769", "frozen-part-trains", "0.1"
    severity = "warning"
    VALID = [
        Valid(_TEACHER + _FIT.replace("model.train()", "model.train()\n        model.teacher.eval()")),
        Valid(_TEACHER + _FIT.replace("model.train()", "model.student.train()")),
        Valid(
            _TEACHER
            + "    def train(self, mode=True):\n        super().train(mode)\n        self.teacher.train(False)\n"
            + _FIT
        ),
        Valid(_TEACHER.replace(".requires_grad_(False)", "") + _FIT),
        Valid(_TEACHER.replace(".eval()", "") + _FIT),
        Valid(_TEACHER + _FIT.replace("model.train()", "model.train(False)")),
        Valid(_TEACHER + _FIT.replace("model = Distiller(student, teacher)", "model = student")),
        Valid(_TEACHER.replace("= teacher.eval()", "= nn.Linear(4, 2).eval()") + _FIT),
    ]
    INVALID = [
        Invalid(
            _TEACHER + _FIT,
            _TEACHER + _FIT.replace("model.train()", "model.train()\n        model.teacher.eval()"),
            at=(13, 8, 13, 21),
        ),
        Invalid(
            """
            class Probe(nn.Module):
                def __init__(self, encoder, classes):
                    super().__init__()
                    self.encoder = encoder
                    self.encoder.eval()
                    for p in self.encoder.parameters():
                        p.requires_grad = False
                    self.head = nn.Linear(512, classes)

                def forward(self, x):
                    return self.head(self.encoder(x))

                def fit(self, loader, optimizer):
                    self.train()
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(self(x), y).backward()
                        optimizer.step()
            """,
            """
            class Probe(nn.Module):
                def __init__(self, encoder, classes):
                    super().__init__()
                    self.encoder = encoder
                    self.encoder.eval()
                    for p in self.encoder.parameters():
                        p.requires_grad = False
                    self.head = nn.Linear(512, classes)

                def forward(self, x):
                    return self.head(self.encoder(x))

                def fit(self, loader, optimizer):
                    self.train()
                    self.encoder.eval()
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(self(x), y).backward()
                        optimizer.step()
            """,
            at=(14, 8, 14, 20),
        ),
        Invalid(
            _TEACHER + _TRAINER,
            _TEACHER
            + _TRAINER.replace("distiller.train()", "distiller.train()\n        self.distiller.teacher.eval()"),
            at=(15, 8, 15, 30),
        ),
    ]

    def visit_train(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=receiver, attr="train"), args=[], keywords=[]):
                pass
            case ast.Call(func=ast.Attribute(value=receiver, attr="train"), args=[ast.Constant(value=True)]):
                pass
            case _:
                return
        statement = ctx.parent(node)
        cls = _class_of(receiver, ctx)
        if cls is None or not isinstance(statement, ast.Expr):
            return
        for part, where in _kept(cls, ctx):
            if not _is_set_elsewhere(part, where, ctx):
                owner = ctx.source_of(receiver)
                message = (
                    f"train() also switches the frozen {owner}.{part} back to training mode; its dropout and batch "
                    "norm become active"
                )
                related = [("eval() was called here", where)]
                yield ctx.finding(self, node, message, related=related, fixes=[_fix(statement, f"{owner}.{part}", ctx)])


def _class_of(receiver: ast.expr, ctx: Context) -> Class | None:
    """Return the module class of the file that a receiver is of: as is known, or as it is called."""
    text = dotted_text(receiver)
    if text is None:
        return None
    if text == "self":
        owner = class_around(receiver, ctx)
        return _with_plain_train(ctx.class_of(owner) if owner is not None else None)
    value = ctx.value(receiver)
    if value is not UNKNOWN:
        return _with_plain_train(value.cls) if isinstance(value, Object) else None
    name = text.rpartition(".")[2].replace("_", "")
    named = [cls for cls in ctx.classes() if cls.name.lower() == name]
    return _with_plain_train(named[0]) if len(named) == 1 else None


def _with_plain_train(cls: Class | None) -> Class | None:
    """Return a module class whose ``train`` is nn.Module's own."""
    if cls is None or not Object(cls.name, cls=cls).is_module or cls.member("train") is not None:
        return None
    return cls


def _kept(cls: Class, ctx: Context) -> Iterator[tuple[str, ast.Call]]:
    """Yield the parts of a class's objects that its constructor freezes and puts into evaluation mode, and where."""
    init = next((n for n in cls.node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    for call in calls_in(init) if init is not None else ():
        part = _part_of(call, ctx) if called(call) == "eval" and not call.args else None
        if part is not None and init is not None and _is_frozen(part, init, ctx) and _may_act_by_mode(part, ctx):
            yield part.attr, call


def _part_of(call: ast.Call, ctx: Context) -> ast.Attribute | None:
    """Return the attribute of ``self`` that a call, or the chain of calls that it stands in, speaks of."""
    statement = ctx.parent(call)
    while isinstance(statement, (ast.Attribute, ast.Call)):
        statement = ctx.parent(statement)
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self")) as part]):
            return part
        case ast.Expr(value=chain):
            while isinstance(chain, (ast.Call, ast.Attribute)):
                if isinstance(chain, ast.Attribute) and isinstance(chain.value, ast.Name):
                    return chain if chain.value.id == "self" else None
                chain = chain.func if isinstance(chain, ast.Call) else chain.value
        case _:
            pass
    return None


def _is_frozen(part: ast.Attribute, init: ast.FunctionDef, ctx: Context) -> bool:
    """Say whether the constructor takes a part's parameters out of the training."""
    text = f"self.{part.attr}"
    given = next((n.value for n in body_nodes(init) if isinstance(n, ast.Assign) and part in n.targets), None)
    names = {text, *(n.id for n in own_nodes(given) if isinstance(n, ast.Name))} if given is not None else {text}
    for node in body_nodes(init):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="requires_grad_"), args=[ast.Constant(value=False)]):
                frozen = any(dotted_text(n) in names for n in walk(owner) if isinstance(n, ast.expr))
            case ast.For(iter=ast.Call(func=ast.Attribute(value=owner, attr="parameters"))):
                frozen = dotted_text(owner) in names and _FREEZES.search(ctx.source_of(node)) is not None
            case _:
                continue
        if frozen:
            return True
    return False


def _may_act_by_mode(part: ast.Attribute, ctx: Context) -> bool:
    """Say whether a part may have dropout or batch norms: not where the file shows all of it."""
    value = ctx.value(part)
    statement = ctx.statement(part)
    if value is UNKNOWN and isinstance(statement, ast.Assign):
        value = ctx.value(statement.value)
    if not isinstance(value, Object) or (value.cls is None and value.type not in _SHOWN):
        return True
    return mode_layer(ctx, value) is not None


def _is_set_elsewhere(part: str, where: ast.Call, ctx: Context) -> bool:
    """Say whether the file sets the mode of a part at another place, too: it knows what it does."""
    return any(
        call is not where
        and called(call) in ("eval", "train")
        and isinstance(call.func, ast.Attribute)
        and (dotted_text(call.func.value) or "").rpartition(".")[2] == part
        for call in ctx.nodes(ast.Call)
    )


def _fix(statement: ast.Expr, part: str, ctx: Context) -> Fix | None:
    return ctx.fix(f"Insert `{part}.eval()`", inserted(ctx, statement, f"{part}.eval()", after=True))
