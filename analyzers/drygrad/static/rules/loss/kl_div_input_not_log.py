"""Rule DG311: kl_div of probabilities where it takes their logarithms, or the other way round."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.shapes.losses import is_bare
from drygrad.static.facts.values import TorchCall
from drygrad.static.rules.loss.activations import applied, is_assigned_for, logarithm_passed, related
from drygrad.static.rules.loss.origins import LOGITS


class KlDivInputNotLog(Rule):
    """
    ## What it does
    Finds `kl_div` whose input is not a log-probability, whose target does not match `log_target`, or which uses the
    default reduction.

    ## Why is this bad?
    `kl_div` takes the *logarithm* of the model's probabilities and, unless `log_target=True`, plain probabilities as
    the target. If they are mixed up, it returns a number that is not a divergence (negative, or NaN), without an error.
    The default reduction "mean" also divides by the number of classes; "batchmean" gives the divergence.

    ## Example
    ```python
    loss = F.kl_div(F.softmax(student, dim=1), F.softmax(teacher, dim=1), reduction="batchmean")
    ```
    Use instead:
    ```python
    loss = F.kl_div(F.log_softmax(student, dim=1), F.softmax(teacher, dim=1), reduction="batchmean")
    ```

    ## Fix safety
    Unsafe: it changes the value of the loss.
    """

    code, name, since = "DG311", "kl-div-input-not-log", "0.1"
    severity = "warning"
    calls = frozenset({"kl_div"})
    VALID = [
        Valid("def f(x, y):\n    return F.kl_div(x.log_softmax(1), y.softmax(1), reduction='batchmean')"),
        Valid(
            "def f(x, y):\n    return F.kl_div(x.log_softmax(1), y.log_softmax(1), None, None, 'sum', log_target=True)"
        ),
        Valid("def f(p, q):\n    return nn.KLDivLoss(reduction='mean')(p.log(), q)"),
        Valid("def f(x, y):\n    return nn.KLDivLoss(reduction='none', log_target=True)(x, y.log_softmax(1)).sum(1)"),
        Valid("def f(p, q):\n    return torch.kl_div(p.log(), q).sum(1)  # this form reduces nothing"),
        Valid("def f(x, y, **kwargs):\n    return F.kl_div(x.log_softmax(1), y.softmax(1), **kwargs)"),
        Valid(
            """
            def smoothed(logits, target):
                log_p = F.log_softmax(logits, dim=-1)
                with torch.no_grad():
                    wanted = log_p.clone().fill_(0.1)
                    wanted.scatter_(1, target.unsqueeze(1), 0.9)
                return F.kl_div(log_p, wanted, reduction="batchmean")
            """
        ),
    ]
    INVALID = [
        Invalid(
            "def f(x, y):\n    return F.kl_div(x.softmax(1), y.softmax(1), reduction='batchmean')",
            "def f(x, y):\n    return F.kl_div(x.log_softmax(1), y.softmax(1), reduction='batchmean')",
            at=(2, 20, 2, 32),
        ),
        Invalid(
            "def f(x, y):\n    return nn.KLDivLoss(reduction='batchmean')(x.log_softmax(1), y.log_softmax(1))",
            "def f(x, y):\n"
            "    return nn.KLDivLoss(reduction='batchmean', log_target=True)(x.log_softmax(1), y.log_softmax(1))",
        ),
        Invalid(
            """
            def distill(student, teacher, images, temperature=4.0):
                with torch.no_grad():
                    wanted = F.softmax(teacher(images) / temperature, dim=1)
                given = F.log_softmax(student(images) / temperature, dim=1)
                return F.kl_div(given, wanted) * temperature**2
            """,
            """
            def distill(student, teacher, images, temperature=4.0):
                with torch.no_grad():
                    wanted = F.softmax(teacher(images) / temperature, dim=1)
                given = F.log_softmax(student(images) / temperature, dim=1)
                return F.kl_div(given, wanted, reduction="batchmean") * temperature**2
            """,
            severity="hint",
        ),
        Invalid(
            """
            def soft_loss(student, teacher):
                student = F.softmax(student, dim=1)
                teacher = F.softmax(teacher, dim=1)
                return F.kl_div(student, teacher, reduction="batchmean")
            """,
            """
            def soft_loss(student, teacher):
                student = F.log_softmax(student, dim=1)
                teacher = F.softmax(teacher, dim=1)
                return F.kl_div(student, teacher, reduction="batchmean")
            """,
            at=(2, 14, 2, 39),
        ),
        Invalid(
            "head = nn.Linear(8, 4)\ndef f(x, y):\n    return F.kl_div(head(x), y.softmax(1), reduction='batchmean')",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or any(keyword.arg is None for keyword in node.keywords):
            return
        yield from self._input(ctx, call)
        yield from self._target(ctx, call)
        if (
            not is_bare(call)
            and call.value("reduction") is None
            and call.value("reduce") is None
            and call.value("size_average") is None
        ):
            place = call.module.node if call.module is not None else node
            yield ctx.finding(
                self,
                node.func,
                'reduction="mean" also divides by the number of classes; use "batchmean" for the KL divergence',
                severity="hint",
                fixes=[ctx.fix('Use `reduction="batchmean"`', with_keyword(ctx, place, "reduction", '"batchmean"'))],
            )

    def _input(self, ctx: Context, call: TorchCall) -> Iterator[Finding]:
        given = call.operand("input")
        origin = applied(ctx, call, LOGITS | {"softmax"})
        if given is None or origin is None:
            return
        fix = logarithm_passed(ctx, given, origin) if origin.operation == "softmax" else None
        place, elsewhere = given, related(ctx, given, origin)
        if origin.operation == "softmax" and is_assigned_for(ctx, given, origin):
            place, elsewhere = origin.node, [("passed to kl_div here", given)]
        yield ctx.finding(
            self,
            place,
            f"kl_div expects log-probabilities as its input; here it gets the result of {origin.operation}",
            related=elsewhere,
            fixes=[fix],
        )

    def _target(self, ctx: Context, call: TorchCall) -> Iterator[Finding]:
        target, in_logs = call.operand("target"), call.constant("log_target", False)
        wrong = {False: "log_softmax", True: "softmax"}.get(in_logs) if isinstance(in_logs, bool) else None
        origin = applied(ctx, call, frozenset({wrong or ""}), "target")
        if target is None or origin is None:
            return
        place = call.module.node if call.module is not None else call.node
        yield ctx.finding(
            self,
            target,
            f"kl_div with log_target={in_logs} gets the result of {origin.operation} as its target",
            related=related(ctx, target, origin),
            fixes=[
                ctx.fix(f"Use `log_target={not in_logs}`", with_keyword(ctx, place, "log_target", str(not in_logs)))
            ],
        )
