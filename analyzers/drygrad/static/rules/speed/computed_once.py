"""The repair of what is computed anew for each sample: computed once, in ``__init__``, and kept on the object."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from drygrad.model import Edit, Fix
from drygrad.static.context import Context, FunctionNode
from drygrad.static.editing import inserted
from drygrad.static.facts.frame import dotted_text
from drygrad.static.syntax import bound_names, called, own_attributes, parameter_names
from drygrad.static.tree import walk

_ALWAYS_THE_SAME = frozenset(
    "mean std var sum min max amin amax median quantile norm sort argsort unique cumsum logsumexp prod nanmean nanstd "
    "std_mean var_mean aminmax percentile nanmin nanmax value_counts bincount normalize float double long int numpy "
    "to_numpy astype to cpu clone copy detach stack cat concatenate vstack hstack array asarray tensor as_tensor "
    "from_numpy clamp clamp_min clamp_max clip sqrt log log1p exp abs pow square reshape view unsqueeze squeeze item "
    "transpose permute flatten ravel sorted set list tuple len add sub mul div values load loadtxt genfromtxt read_csv "
    "read_parquet read_pickle load_npz imread loadmat".split()
)
"""Methods and functions that draw nothing and change nothing: called again with the same, they give the same."""
_CHANGES = frozenset("append extend insert add update pop popleft remove clear setdefault sort reverse fill".split())
_STEADY = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context, ast.keyword, ast.Slice)
_INNER = (ast.Subscript, ast.Tuple, ast.List, ast.GeneratorExp, ast.ListComp, ast.comprehension)


def computed_once(nodes: Sequence[ast.expr], function: FunctionNode, ctx: Context) -> Fix | None:
    """Keep what some expressions of a method amount to on the object; None where it may differ from call to call."""
    owner = ctx.parent(function)
    body = owner.body if isinstance(owner, ast.ClassDef) else []
    init = next((s for s in body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
    if not isinstance(owner, ast.ClassDef) or init is None or function is init or writes_into(function):
        return None
    steady = _Steady(function, init, ctx)
    whole = list({id(top): top for top in map(steady.most, nodes) if top is not None}.values())
    if not whole or any(not any(n is node for top in whole for n in walk(top)) for node in nodes):
        return None
    taken = {*own_attributes(owner), *(s.name for s in body if isinstance(s, ast.FunctionDef))}
    edits: list[Edit | None] = []
    names: dict[str, str] = {}
    for node in whole:
        text = ctx.source_of(node)
        name = names.get(text) or next((n for n in _names(node, ctx) if n not in taken), None)
        anchor = _last_setting({*own_attributes(node)}, init)
        if name is None or anchor is None:
            return None
        if text not in names:
            edits.append(inserted(ctx, anchor, f"self.{name} = {text}", after=True))
        names[text] = name
        taken.add(name)
        edits.append(ctx.replace(node, f"self.{name}"))
    return ctx.fix("Compute it once, in `__init__`", *edits)


class _Steady:
    """Which expressions of a method come to the same at every call: made of what only the constructor sets."""

    def __init__(self, function: FunctionNode, init: ast.FunctionDef, ctx: Context) -> None:
        self._ctx = ctx
        self._local = bound_names(function) | {*parameter_names(function)} - {"self"}
        self._set = {*_stored(init)} - _changed(ctx.tree, init)

    def most(self, node: ast.expr) -> ast.expr | None:
        """Return the largest steady expression around one; None where this itself is not steady."""
        if not self.is_steady(node):
            return None
        found = node
        while isinstance(parent := self._ctx.parent(node), ast.expr) and self._may_hold(parent):
            node = parent
            if not isinstance(node, ast.Attribute):
                found = node
        return found

    def _may_hold(self, node: ast.expr) -> bool:
        return not isinstance(node, (ast.Tuple, ast.List)) and self.is_steady(node)

    def is_steady(self, root: ast.expr) -> bool:
        """Say whether an expression comes to the same at every call."""
        inside = bound_names(root)
        return all(self._is_steady(node, inside) for node in walk(root))

    def _is_steady(self, node: ast.AST, inside: set[str]) -> bool:
        match node:
            case ast.Name(id=name):
                return name == "self" or name in inside or name not in self._local
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return name in self._set
            case ast.Attribute():
                return True
            case ast.Call():
                return called(node) in _ALWAYS_THE_SAME
            case _:
                return isinstance(node, (*_STEADY, *_INNER))


def writes_into(scope: ast.AST) -> bool:
    """Say whether a method or a loop writes into anything: what is kept could change with it."""
    for node in walk(scope):
        match node:
            case ast.AugAssign() | ast.Subscript(ctx=ast.Store()) | ast.keyword(arg="out"):
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(), attr=name)) if name in _CHANGES:
                return True
            case ast.Call(func=ast.Attribute(attr=name)) if name.endswith("_") and not name.endswith("__"):
                return True
            case _:
                pass
    return False


def _stored(root: ast.AST) -> Iterator[str]:
    for node in walk(root):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and dotted_text(node.value) == "self":
            yield node.attr


def _changed(tree: ast.Module, init: ast.FunctionDef) -> set[str]:
    """Return the attributes that something outside of a constructor sets or writes into."""
    own = {id(node) for node in walk(init)}
    found: set[str] = set()
    for node in walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()) if id(node) not in own:
                found.add(name)
            case ast.Subscript(value=ast.Attribute(attr=name), ctx=ast.Store() | ast.Del()) if id(node) not in own:
                found.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name), attr=method)) if id(node) not in own:
                found |= {name} if method in _CHANGES or method.endswith("_") else set()
            case _:
                pass
    return found


def _last_setting(names: set[str], init: ast.FunctionDef) -> ast.stmt | None:
    """Return the statement of a constructor after which all of some attributes are set."""
    setting = [s for s in init.body if names & {*_stored(s)}] if names else init.body
    return setting[-1] if names <= {n for s in setting for n in _stored(s)} else None


def _names(node: ast.expr, ctx: Context) -> Iterable[str]:
    """Yield what to call the result: as the method does, or after what it is of."""
    match ctx.parent(node):
        case ast.Assign(targets=[ast.Name(id=name)]):
            yield name
        case _:
            pass
    first = next(own_attributes(node), "data")
    last = node.func if isinstance(node, ast.Call) else None
    done = last.attr if isinstance(last, ast.Attribute) else getattr(last, "id", "prepared")
    yield f"{first}_{done}"
    yield f"kept_{first}_{done}"
