"""Rule DG736: a best value so far that is compared the wrong way, never kept, or forgotten at each turn."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant
from drygrad.static.syntax import assigned_in, block_of, called, own_nodes, scope_of

_RECORD = re.compile(r"(^|_)(best|lowest|highest|minimum|maximum)(_|$|\d)", re.I)
_NEVER_NEGATIVE = re.compile(
    r"(^|_)(acc|accuracy|loss|err|error|mse|mae|rmse|f1|auc|auroc|iou|miou|dice|recall|precision|perplexity|ppl|wer|cer)(_|$)",
    re.I,
)
_SAVES = frozenset({"save", "deepcopy", "state_dict", "save_pretrained", "save_checkpoint", "save_model"})
_INFINITE = frozenset({"numpy.inf", "math.inf", "torch.inf"})


class BestNeverImproves(Rule):
    """
    ## What it does
    Finds `if loss < best_loss:` that saves a model although `best_loss` is never updated, is reset in every iteration,
    or starts at a value that can never be beaten in this direction: `best_acc = 0` compared with `acc < best_acc`, or
    infinity with `>`.

    ## Why is this bad?
    The saved checkpoint is not the best one. Without the assignment, every epoch that beats the initial value
    overwrites it; with the wrong direction, no checkpoint is ever saved, or the worst one is.

    ## Example
    ```python
    best_loss = float("inf")
    for epoch in range(epochs):
        loss = evaluate(model)
        if loss < best_loss:
            torch.save(model.state_dict(), "best.pt")
    ```
    Use instead:
    ```python
    best_loss = float("inf")
    for epoch in range(epochs):
        loss = evaluate(model)
        if loss < best_loss:
            best_loss = loss
            torch.save(model.state_dict(), "best.pt")
    ```

    ## Fix safety
    Unsafe: it changes what is saved.
    """

    code, name, since = "DG736", "best-never-improves", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            best_loss = float("inf")
            for epoch in range(5):
                loss = evaluate(model)
                if loss < best_loss:
                    best_loss = loss
                    torch.save(model.state_dict(), "best.pt")
            """
        ),
        Valid(
            """
            best_acc = 0
            for epoch in range(5):
                acc = evaluate(model)
                is_best = acc > best_acc
                best_acc = max(acc, best_acc)
                if acc >= best_acc:
                    torch.save(model.state_dict(), "best.pt")
            """
        ),
        Valid(
            """
            for fold in range(5):
                best_loss = float("inf")
                for epoch in range(9):
                    loss = evaluate(model)
                    if loss < best_loss:
                        best_loss = loss
                        torch.save(model.state_dict(), "best.pt")
            """
        ),
        Valid(
            """
            class Keeper:
                def __init__(self):
                    self.best_score = None

                def __call__(self, score, model):
                    if self.best_score is None or score > self.best_score:
                        self.best_score = score
                        torch.save(model.state_dict(), "best.pt")
            """
        ),
        Valid(
            "best_threshold = 0.5\nfor p in scores:\n    if p < best_threshold:\n        print(p)\ntorch.save(p, 'p')"
        ),
        Valid(
            """
            best_energy, best_loss = 0, float("inf")
            for epoch in range(5):
                loss, energy = evaluate(model)
                if loss < best_loss:
                    best_loss, state = loss, model.state_dict()
                if energy < best_energy:
                    best_energy = energy
                    torch.save(state, "x")
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            best_loss = float("inf")
            for epoch in range(5):
                loss = evaluate(model)
                if loss < best_loss:
                    torch.save(model.state_dict(), "best.pt")
            """,
            """
            best_loss = float("inf")
            for epoch in range(5):
                loss = evaluate(model)
                if loss < best_loss:
                    best_loss = loss
                    torch.save(model.state_dict(), "best.pt")
            """,
            at=(4, 7, 4, 23),
        ),
        Invalid(
            """
            def fit(model, loader):
                best_acc = 0.0
                for epoch in range(5):
                    acc = evaluate(model, loader)
                    if acc < best_acc:
                        best_acc = acc
                        torch.save(model.state_dict(), "best.pt")
            """,
            """
            def fit(model, loader):
                best_acc = 0.0
                for epoch in range(5):
                    acc = evaluate(model, loader)
                    if acc > best_acc:
                        best_acc = acc
                        torch.save(model.state_dict(), "best.pt")
            """,
            at=(5, 11, 5, 25),
        ),
        Invalid(
            """
            import copy
            import numpy as np
            import torch

            def fit(model, loader):
                best_loss, best_state = np.inf, None
                for epoch in range(5):
                    val_loss = evaluate(model, loader)
                    if val_loss > best_loss:
                        best_loss, best_state = val_loss, copy.deepcopy(model.state_dict())
            """,
            """
            import copy
            import numpy as np
            import torch

            def fit(model, loader):
                best_loss, best_state = np.inf, None
                for epoch in range(5):
                    val_loss = evaluate(model, loader)
                    if val_loss < best_loss:
                        best_loss, best_state = val_loss, copy.deepcopy(model.state_dict())
            """,
        ),
        Invalid(
            """
            for epoch in range(5):
                best_loss = 1e9
                loss = evaluate(model)
                if loss < best_loss:
                    best_loss = loss
                    torch.save(model.state_dict(), "best.pt")
            """,
            at=(2, 4, 2, 19),
        ),
    ]

    def visit_if(self, node: ast.If, ctx: Context) -> Iterator[Finding]:
        for test in node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]:
            found = _comparison(test)
            if found is not None and _saves(node):
                yield from self._judge(node, *found, ctx)

    def _judge(
        self, node: ast.If, test: ast.Compare, record: str, current: ast.expr, lower: bool, ctx: Context
    ) -> Iterator[Finding]:
        loops = ctx.loops(node)
        if not loops:
            return
        stores = [s for text, s in assigned_in(scope_of(node, ctx)) if text == record]
        starts = [s for s in stores if _begins(s, record, ctx) is not None]
        if len(starts) != 1 or (isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or)):
            return
        start, begin = starts[0], _begins(starts[0], record, ctx)
        if len(stores) == 1 and "." not in record and start not in own_nodes(*loops[0].body):
            edit = ctx.insert_statement(node.body[0], f"{record} = {ctx.source_of(current)}")
            fix = ctx.fix("Store the better value", edit) if isinstance(current, (ast.Name, ast.Attribute)) else None
            message = f"{record} is never updated; every value better than its initial one counts as the best"
            yield ctx.finding(self, test, message, related=[("initialized here", start)], fixes=[fix])
        elif begin is not None and _is_unbeatable(begin, lower, current):
            message = f"nothing is ever {'below' if lower else 'above'} {record}, which starts at {begin:g}"
            fix = ctx.fix("Flip the comparison", ctx.replace(test, _turned(test, ctx)))
            yield ctx.finding(self, test, message, related=[("initialized here", start)], fixes=[fix])
        elif start in block_of(ctx, node) and start in loops[0].body and block_of(ctx, node) is loops[0].body:
            message = f"{record} is reset in every iteration, so every value counts as the best"
            yield ctx.finding(self, start, message, related=[("compared here", test)])


def _comparison(test: ast.expr) -> tuple[ast.Compare, str, ast.expr, bool] | None:
    """Return a comparison with a record, the record's name, what is compared, and whether lower is better."""
    match test:
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() as operator], comparators=[right]):
            below = isinstance(operator, (ast.Lt, ast.LtE))
        case _:
            return None
    for record, current, lower in ((right, left, below), (left, right, not below)):
        text = dotted_text(record)
        if text is not None and _RECORD.search(text.rpartition(".")[2]) and not isinstance(current, ast.Constant):
            other = dotted_text(current)
            if other is None or not _RECORD.search(other.rpartition(".")[2]):
                return test, text, current, lower
    return None


def _saves(node: ast.If) -> bool:
    return any(isinstance(n, ast.Call) and called(n) in _SAVES for n in own_nodes(*node.body))


def _begins(statement: ast.stmt, record: str, ctx: Context) -> float | None:
    """Return the number that an assignment gives a record."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            pairs = list(zip(targets, values, strict=False))
        case ast.Assign(targets=[target], value=value):
            pairs = [(target, value)]
        case _:
            return None
    given = next((value for target, value in pairs if dotted_text(target) == record), None)
    return _number(given, ctx) if given is not None else None


def _number(node: ast.expr, ctx: Context) -> float | None:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            number = _number(inner, ctx)
            return None if number is None else -number
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return float(text) if text.strip("+-").lower() in ("inf", "infinity") else None
        case _:
            pass
    if (ctx.name(node) or "") in _INFINITE:
        return float("inf")
    value = ctx.value(node)
    known = value.value if isinstance(value, Constant) else None
    return float(known) if isinstance(known, (int, float)) and not isinstance(known, bool) else None


def _is_unbeatable(begin: float, lower: bool, current: ast.expr) -> bool:
    """Say whether nothing can be better than the first value."""
    if (begin == float("-inf") and lower) or (begin == float("inf") and not lower):
        return True
    name = (dotted_text(current) or "").rpartition(".")[2]
    return begin == 0 and lower and _NEVER_NEGATIVE.search(name) is not None


def _turned(test: ast.Compare, ctx: Context) -> str:
    signs: dict[type[ast.cmpop], str] = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<="}
    return f"{ctx.source_of(test.left)} {signs[type(test.ops[0])]} {ctx.source_of(test.comparators[0])}"
