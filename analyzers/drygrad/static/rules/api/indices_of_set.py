"""Rule DG812: numbers of classes or words that depend on the order of a set."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import ATOMS
from drygrad.static.syntax import called, last_assignment
from drygrad.static.tree import walk

_STRINGS = re.compile(
    r"(^|_)(text|texts|chars?|characters?|words?|tokens?|vocab|vocabulary|names?|class_names?|species|tags?|labels?|"
    r"categor(y|ies)|classes|intents?|genres?|breeds?|users?|items?|symbols?)(_|$)",
    re.I,
)
_KEEPS = frozenset({"save", "load", "load_state_dict", "state_dict"})


class IndicesOfSet(Rule):
    """
    ## What it does
    Finds `{name: i for i, name in enumerate(set(names))}` and the like over an unsorted set of strings, in a file that
    saves or loads weights, or in a dataset.

    ## Why is this bad?
    The order of a set of strings differs from process to process. When a saved model is loaded in another process, its
    classes or its vocabulary are permuted, and it guesses. Training and test datasets that each build such a table
    disagree too.

    ## Example
    ```python
    vocab = {char: i for i, char in enumerate(set(text))}
    torch.save(model.state_dict(), "model.pt")
    ```
    Use instead:
    ```python
    vocab = {char: i for i, char in enumerate(sorted(set(text)))}
    torch.save(model.state_dict(), "model.pt")
    ```

    ## Fix safety
    Unsafe: indices are assigned differently; weights saved earlier use another order.
    """

    code, name, since = "DG812", "indices-of-set", "0.1"
    severity = "warning"
    VALID = [
        Valid("vocab = {c: i for i, c in enumerate(sorted(set(text)))}\ntorch.save(model.state_dict(), 'm.pt')"),
        Valid("chars = list(set(text))\nvocab = {c: i for i, c in enumerate(sorted(chars))}\ntorch.save(m, 'm.pt')"),
        Valid("vocab = {c: i for i, c in enumerate(set(text))}"),
        Valid("ids = {u: i for i, u in enumerate(set(numbers))}\ntorch.save(m, 'm.pt')"),
    ]
    INVALID = [
        Invalid(
            "vocab = {c: i for i, c in enumerate(set(text))}\ntorch.save(model.state_dict(), 'm.pt')",
            "vocab = {c: i for i, c in enumerate(sorted(set(text)))}\ntorch.save(model.state_dict(), 'm.pt')",
            at=(1, 36, 1, 45),
        ),
        Invalid(
            """
            import torch

            class Animals(torch.utils.data.Dataset):
                def __init__(self, records):
                    names = set(name for _, name in records)
                    self.index = {name: i for i, name in enumerate(names)}

                def __getitem__(self, i):
                    return self.index[i]

                def __len__(self):
                    return len(self.index)
            """,
            """
            import torch

            class Animals(torch.utils.data.Dataset):
                def __init__(self, records):
                    names = set(name for _, name in records)
                    self.index = {name: i for i, name in enumerate(sorted(names))}

                def __getitem__(self, i):
                    return self.index[i]

                def __len__(self):
                    return len(self.index)
            """,
        ),
        Invalid(
            "chars = list(set(text))\nstoi = {ch: i for i, ch in enumerate(chars)}\n"
            "net.load_state_dict(torch.load('m.pt'))",
            "chars = sorted(set(text))\nstoi = {ch: i for i, ch in enumerate(chars)}\n"
            "net.load_state_dict(torch.load('m.pt'))",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Name(id="enumerate"), args=[listed, *_]):
                pass
            case _:
                return
        parent = ctx.parent(node)
        table = ctx.parent(parent) if isinstance(parent, ast.comprehension) else None
        if not isinstance(table, ast.DictComp) or parent is None or not _numbers(table, parent):
            return
        found = _unsorted(listed, node, ctx)
        if (
            found is None
            or not _matters(node, ctx)
            or not (_names_strings(found) or _names_strings(ctx.statement(node)))
        ):
            return
        fix = ctx.fix("Sort it", ctx.replace(found, _sorted(found, ctx)))
        message = "a set of strings has a different order in each process, so these numbers differ too"
        related = [("the numbers are assigned here", node)] if found not in walk(node) else []
        yield ctx.finding(self, found, message, related=related, fixes=[fix])


def _names_strings(node: ast.AST) -> bool:
    """Say whether something in an expression or statement is called like words, classes or other strings."""
    names = (
        n.id if isinstance(n, ast.Name) else n.attr for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute))
    )
    return any(_STRINGS.search(name) for name in names)


def _numbers(table: ast.DictComp, comprehension: ast.AST) -> bool:
    """Say whether a table gives a number to each element, or the element to each number."""
    match comprehension:
        case ast.comprehension(target=ast.Tuple(elts=[ast.Name(id=number), _])):
            return any(isinstance(n, ast.Name) and n.id == number for n in (table.value, table.key))
        case _:
            return False


def _unsorted(node: ast.expr, at: ast.AST, ctx: Context) -> ast.expr | None:
    """Return what gives a set's elements in no order, where an expression is that, or a name of it."""
    match node:
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
            return node if _is_set(inner, at, ctx) else None
        case ast.Name(id=name):
            before = last_assignment(ctx, name, ctx.statement(at))
            if before is None:
                return None
            if _is_set(before, at, ctx):
                return node
            match before:
                case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]) if _is_set(inner, before, ctx):
                    return before
                case _:
                    return None
        case _:
            return node if _is_set(node, at, ctx) else None


def _is_set(node: ast.expr, at: ast.AST, ctx: Context) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="set" | "frozenset")) | ast.SetComp() | ast.Set():
            return True
        case ast.Name(id=name):
            before = last_assignment(ctx, name, ctx.statement(at))
            return before is not None and not isinstance(before, ast.Name) and _is_set(before, at, ctx)
        case _:
            return False


def _matters(node: ast.AST, ctx: Context) -> bool:
    """Say whether the numbers outlive the process, or stand in a dataset of which there may be several."""
    if any(called(call) in _KEEPS for call in ctx.nodes(ast.Call)):
        return True
    owner = next((a for a in ctx.ancestors(node) if isinstance(a, ast.ClassDef)), None)
    return owner is not None and any(
        isinstance(member, ast.FunctionDef) and member.name == "__getitem__" for member in owner.body
    )


def _sorted(node: ast.expr, ctx: Context) -> str:
    match node:
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
            return f"sorted({ctx.source_of(inner)})"
        case _:
            return f"sorted({ctx.source_of(node)})" if isinstance(node, (*ATOMS, ast.SetComp, ast.Set)) else ""
