"""What the bodies of a file do with the things they name: an object is for what it is used for.

``o.zero_grad()`` and ``o.step()`` make ``o`` an optimizer, ``f(x)`` and ``f.parameters()`` make ``f`` a model, whatever
they are called and wherever they come from.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from drygrad.static.context import Context, FunctionNode
from drygrad.static.syntax import class_around, own_nodes
from drygrad.static.tree import remembered

UsedAs: TypeAlias = Literal["optimizer", "scheduler", "scaler", "model"]
Uses: TypeAlias = Mapping[str, frozenset[str]]
"""What is done with each thing, by its text: names of methods and attributes, ``()`` where it is called itself."""

_OF_OPTIMIZERS = frozenset({"zero_grad", "param_groups", "add_param_group"})
_OF_MODELS = frozenset(
    "parameters named_parameters buffers modules children train eval state_dict load_state_dict requires_grad_".split()
)
_OF_SCHEDULERS = frozenset({"get_last_lr", "get_lr"})
_OF_SCALERS = frozenset({"step", "update", "unscale_"})
_TELLING = {"step", "scale", *_OF_OPTIMIZERS, *_OF_MODELS, *_OF_SCHEDULERS, *_OF_SCALERS}
APPLIES = "step()"
"""``o.step()`` behind a ``backward()``, where nothing else of the block steps: it applies the gradients."""


def text_of(node: ast.expr) -> str | None:
    """Return ``a.b``, ``parts["o"]`` or ``models[0].c`` as text: names, attributes, literal items; else None."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=attr):
            text = text_of(owner)
            return None if text is None else f"{text}.{attr}"
        case ast.Subscript(value=owner, slice=ast.Constant(value=key)) if isinstance(key, (str, int)):
            text = text_of(owner)
            return None if text is None else f"{text}[{key!r}]"
        case _:
            return None


def used_as(ctx: Context, node: ast.expr) -> UsedAs | None:
    """Return what the bodies around a name, or the class of an attribute, use it as; None where that tells nothing."""
    text = text_of(node)
    if text is None:
        return None
    done: frozenset[str] = frozenset()
    function = ctx.function(node)
    scopes = [ctx.tree] if function is None else _around(function, ctx)
    for scope in scopes:
        done |= uses_in(scope).get(text, frozenset())
    if text.startswith("self."):
        cls = class_around(node, ctx)
        done |= uses_by_class(ctx).get(cls, {}).get(text, frozenset()) if cls is not None else frozenset()
    return _role(done)


def uses_by_class(ctx: Context) -> Mapping[ast.ClassDef, Uses]:
    """Return what the methods of each class do with the attributes of self, taken together."""
    return ctx.derived(_by_class)


def _role(done: frozenset[str]) -> UsedAs | None:
    if "()" in done:
        return "model" if done & _OF_MODELS else None
    if "scale" in done and done & _OF_SCALERS:
        return "scaler"
    if "step" in done and done & _OF_SCHEDULERS:
        return "scheduler"
    return "optimizer" if ("step" in done and done & _OF_OPTIMIZERS) or APPLIES in done else None


def _around(function: FunctionNode, ctx: Context) -> list[ast.AST]:
    outer = [a for a in ctx.ancestors(function) if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [function, *outer]


def _by_class(ctx: Context) -> dict[ast.ClassDef, Uses]:
    found: dict[ast.ClassDef, Uses] = {}
    for cls in ctx.nodes(ast.ClassDef):
        own: defaultdict[str, set[str]] = defaultdict(set)
        for method in cls.body:
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for text, done in uses_in(method).items():
                    if text.startswith("self."):
                        own[text] |= done
        if own:
            found[cls] = {text: frozenset(done) for text, done in own.items()}
    return found


def uses_in(scope: ast.AST) -> Uses:
    """Return what a body itself does with what it names."""
    return next(_gathered(scope))


@remembered
def _gathered(scope: ast.AST) -> Iterator[Uses]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for statement in getattr(scope, "body", ()):
        for node in own_nodes(statement):
            text, done = _use(node)
            if text is not None:
                found[text].add(done)
    for text in _applying(scope):
        found[text].add(APPLIES)
    yield {text: frozenset(done) for text, done in found.items() if done != {"()"}}


def _use(node: ast.AST) -> tuple[str | None, str]:
    """Return what a node does with which thing."""
    if isinstance(node, ast.Attribute) and node.attr in _TELLING:
        return text_of(node.value), node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute, ast.Subscript)):
        return text_of(node.func), "()"
    return None, ""


def _applying(scope: ast.AST) -> Iterator[str]:
    """Yield what is the only thing of its block to ``step()``, without arguments, behind a ``backward()``."""
    for node in (scope, *(n for statement in getattr(scope, "body", ()) for n in own_nodes(statement))):
        if isinstance(node, (ast.Lambda, ast.IfExp)):
            continue
        stepping = {text_of(owner) for owner in _stepping(getattr(node, "body", ()))}
        only = stepping.pop() if len(stepping) == 1 else None
        if only is not None:
            yield only


def _stepping(block: Iterable[ast.stmt]) -> Iterator[ast.expr]:
    """Yield what steps behind a ``backward()`` in a block."""
    is_behind = False
    for statement in block:
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="backward"))):
                is_behind = True
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="step"), args=[], keywords=[])) if (
                is_behind
            ):
                yield owner
            case _:
                pass
