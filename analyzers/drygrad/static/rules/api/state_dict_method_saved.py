"""Rule DG802: the state_dict method where its result is meant."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Severity, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import UNKNOWN
from drygrad.static.roles import role_of
from drygrad.static.tree import walk


class StateDictMethodSaved(Rule):
    """
    ## What it does
    Finds `state_dict` without parentheses in `torch.save` and `load_state_dict`.

    ## Why is this bad?
    `torch.save(model.state_dict, path)` pickles the bound method with the whole model: the file does not contain a
    state dict, and `torch.load` rejects it (weights only) or returns a method. `load_state_dict(model.state_dict)`
    raises a TypeError.

    ## Example
    ```python
    torch.save(model.state_dict, "model.pt")
    ```
    Use instead:
    ```python
    torch.save(model.state_dict(), "model.pt")
    ```

    ## Fix safety
    Unsafe: the contents of the file change.
    """

    code, name, since = "DG802", "state-dict-method-saved", "0.1"
    severity = "warning"
    VALID = [
        Valid('torch.save(model.state_dict(), "model.pt")'),
        Valid("model.load_state_dict(other.state_dict())"),
        Valid("save = model.state_dict\ntorch.save(save(), path)"),
        Valid('torch.save({"model": model.state_dict(), "get": fetch(model.state_dict)}, path)'),
        Valid("model.load_state_dict(checkpoint.model)"),
        Valid("def restore(model: nn.Linear, saved):\n    model.load_state_dict(saved.state_dict)"),
        Valid(
            """
            class EarlyStopping:
                def __init__(self, model):
                    self.model, self.state_dict = model, None

                def keep(self):
                    self.state_dict = copy.deepcopy(self.model.state_dict())

                def restore(self):
                    self.model.load_state_dict(self.state_dict)
            """
        ),
    ]
    INVALID = [
        Invalid(
            'torch.save(model.state_dict, "model.pt")', 'torch.save(model.state_dict(), "model.pt")', at=(1, 11, 1, 27)
        ),
        Invalid(
            "target = nn.Linear(2, 2)\ntarget.load_state_dict(model.state_dict)",
            "target = nn.Linear(2, 2)\ntarget.load_state_dict(model.state_dict())",
            severity="error",
        ),
        Invalid(
            """
            def save(epoch, model, optimizer, path):
                checkpoint = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict}
                torch.save(checkpoint, path)
            """,
            """
            def save(epoch, model, optimizer, path):
                checkpoint = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(checkpoint, path)
            """,
        ),
    ]

    def visit_attribute(self, node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
        if node.attr != "state_dict" or not isinstance(node.ctx, ast.Load) or _may_be_a_field(node, ctx):
            return
        severity = self._severity(ctx, node)
        if severity is None:
            return
        yield ctx.finding(
            self,
            node,
            "this is the method state_dict itself, not its result; call it"
            + ("; load_state_dict raises a TypeError" if severity == "error" else ""),
            severity=severity,
            fixes=[ctx.fix("Call `state_dict()`", ctx.insert_after(node, "()"))],
        )

    def _severity(self, ctx: Context, node: ast.Attribute) -> Severity | None:
        """Return how bad it is where the method goes; None where it may be wanted."""
        whole: ast.expr = node
        parent = ctx.parent(whole)
        while isinstance(parent, (ast.Dict, ast.List, ast.Tuple)):
            whole, parent = parent, ctx.parent(parent)
        if isinstance(parent, ast.Call) and whole in parent.args:
            if ctx.name(parent.func) == "torch.save":
                return "warning"
            loads = isinstance(parent.func, ast.Attribute) and parent.func.attr == "load_state_dict"
            return "error" if loads and whole is node else None
        if isinstance(parent, ast.Assign) and isinstance(whole, ast.Dict) and isinstance(parent.targets[0], ast.Name):
            return "warning" if self._is_saved(ctx, node, parent.targets[0].id) else None
        return None

    def _is_saved(self, ctx: Context, node: ast.Attribute, name: str) -> bool:
        """Say whether a dict of this name is what ``torch.save`` gets in the same body."""
        body = ctx.function(node) or ctx.tree
        return any(
            isinstance(call, ast.Call)
            and ctx.name(call.func) == "torch.save"
            and call.args
            and ctx.text(call.args[0]) == name
            for call in walk(body)
        )


def _may_be_a_field(node: ast.Attribute, ctx: Context) -> bool:
    """Say whether an attribute of this name may hold a state: the file assigns one, or nothing tells of its owner."""
    if any(isinstance(other.ctx, ast.Store) for other in ctx.nodes(ast.Attribute) if other.attr == node.attr):
        return True
    owner = ctx.value(node.value)
    return owner is UNKNOWN and role_of(ctx, node.value) is None
