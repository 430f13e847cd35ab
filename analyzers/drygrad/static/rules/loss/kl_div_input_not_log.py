"""Rule DG311: kl_div of probabilities where it takes their logarithms, or the other way round."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.shapes.losses import is_bare
from drygrad.static.rules.loss.asking import Asked, DomainRule, as_logarithm, optioned
from drygrad.static.rules.loss.origins import LOGITS

_INPUT = "kl_div expects log-probabilities as its input; {what}"
_TARGET = "kl_div with log_target={} gets the result of {} as its target"


def _target(made_by: str, in_logs: bool) -> Asked:
    repair, option = optioned("Use", "log_target", not in_logs), ("log_target", False, in_logs)
    message = _TARGET.format(in_logs, made_by)
    return Asked("kl_div", frozenset({made_by}), message, repair, "target", option=option, there=False)


class KlDivInputNotLog(DomainRule):
    """
    ## What it does
    Finds `kl_div` whose input is not a log-probability, whose target does not match `log_target`, or which uses the
    default reduction.

    ## Why is this bad?
    `kl_div` takes the *logarithm* of the model's probabilities and, unless `log_target=True`, plain probabilities as
    the target. If they are mixed up, it returns a number that is no divergence and may be negative or NaN, without an
    error. The default reduction "mean" also divides by the number of classes; "batchmean" gives the divergence.

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
    asked = (
        Asked("kl_div", LOGITS, _INPUT),
        Asked("kl_div", frozenset({"softmax"}), _INPUT, as_logarithm, there="assigned"),
        _target("log_softmax", False),
        _target("softmax", True),
    )
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
        yield from super().visit_call(node, ctx)
        if call is None or is_bare(call) or any(map(call.value, ("reduction", "reduce", "size_average"))):
            return
        place = call.module.node if call.module is not None else node
        yield ctx.finding(
            self,
            node.func,
            'reduction="mean" also divides by the number of classes; use "batchmean" for the KL divergence',
            severity="hint",
            fixes=[ctx.fix('Use `reduction="batchmean"`', with_keyword(ctx, place, "reduction", '"batchmean"'))],
        )
