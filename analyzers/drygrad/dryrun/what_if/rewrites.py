"""What a change is in the text: edits where it is certain what they mean, nothing where it is not."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeAlias

from drygrad.dryrun.what_if.around_forward import in_bfloat16, on_host
from drygrad.dryrun.what_if.attention import in_one_kernel
from drygrad.dryrun.what_if.micro_batches import in_parts
from drygrad.dryrun.what_if.vocabulary import in_chunks
from drygrad.model import Edit, Span
from drygrad.settings import Settings
from drygrad.static.context import Context
from drygrad.static.editing import free_name, inserted, unit_of, with_keyword, written_as
from drygrad.static.facts.module import ModuleFacts
from drygrad.static.source import Source, SourceError
from drygrad.static.tree import Tree

Edits: TypeAlias = list[Edit | None]
_CONTAINERS = ("torch.nn.ModuleList", "torch.nn.Sequential")
_FUSIBLE = ("torch.optim.Adam", "torch.optim.AdamW", "torch.optim.SGD", "torch.optim.Adagrad")
_SETTING = 'os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")'


class Rewriter:
    """Writes changes into one text."""

    def __init__(self, source: Source) -> None:
        self._ctx = _context(source)

    def of(self, word: str) -> tuple[Edit, ...]:
        """Return the edits that make a change, by the word that the worker is told; none where they are not certain."""
        kind, _, argument = word.partition(":")
        if self._ctx is None or kind not in _WAYS:
            return ()
        edits = _WAYS[kind](self._ctx, argument)
        made = tuple(edit for edit in edits if edit is not None)
        return made if len(made) == len(edits) else ()


def _context(source: Source) -> Context | None:
    try:
        tree = Tree.parse(source)
        return Context(tree, ModuleFacts(tree.module, source.text), Settings())
    except (SourceError, RecursionError):
        return None


def _checkpointed(ctx: Context, block: str) -> Edits:
    """Call the blocks of a class that a container has through a checkpoint."""
    name = block.rpartition(".")[2]
    calls: Edits = []
    for cls in ctx.nodes(ast.ClassDef):
        for attribute in _held_in(ctx, cls, name):
            calls += [*_looped(ctx, cls, attribute), *_passed_through(ctx, cls, attribute)]
    if not calls:
        return []
    return [*calls, _imported(ctx, "from torch.utils.checkpoint import checkpoint")]


def _held_in(ctx: Context, cls: ast.ClassDef, block: str) -> Iterator[str]:
    """Yield the attributes of a class that are bound once, to a container of such blocks and of nothing else."""
    bound: dict[str, list[ast.expr]] = {}
    for node in ast.walk(cls):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Attribute) and _is_self(target.value):
                bound.setdefault(target.attr, []).append(node.value)
    for attribute, values in bound.items():
        if len(values) == 1 and {*_contained(ctx, values[0])} == {block}:
            yield attribute


def _contained(ctx: Context, value: ast.expr) -> Iterator[str]:
    """Yield the classes of what a container is made of; an empty name for what is none."""
    if not isinstance(value, ast.Call) or ctx.name(value.func) not in _CONTAINERS or value.keywords:
        return
    items: list[ast.expr] = []
    for argument in value.args:
        inner = argument.value if isinstance(argument, ast.Starred) else argument
        if isinstance(inner, (ast.List, ast.Tuple)):
            items += inner.elts
        elif isinstance(inner, (ast.ListComp, ast.GeneratorExp)):
            items.append(inner.elt)
        else:
            items.append(inner)
    for item in items:
        function = item.func if isinstance(item, ast.Call) else None
        yield function.id if isinstance(function, ast.Name) else ""


def _looped(ctx: Context, cls: ast.ClassDef, attribute: str) -> Edits:
    """Rewrite ``x = block(x)`` in loops over the blocks."""
    edits: Edits = []
    for loop in ast.walk(cls):
        name = _item_of(loop, attribute)
        for node in ast.walk(loop) if name else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name and node.args:
                arguments = [*node.args, *node.keywords]
                whole = Span(ctx.source.start(arguments[0]), ctx.source.end(arguments[-1]))
                text = f"checkpoint({name}, {ctx.source.slice(whole)}, use_reentrant=False)"
                edits.append(ctx.replace(node, text))
    return edits


def _item_of(loop: ast.AST, attribute: str) -> str | None:
    """Return the name that each block has in a loop over them."""
    if not isinstance(loop, ast.For):
        return None
    over, target = loop.iter, loop.target
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "enumerate" and over.args:
        over, target = over.args[0], target.elts[1] if isinstance(target, ast.Tuple) else target
    is_own = isinstance(over, ast.Attribute) and _is_self(over.value) and over.attr == attribute
    return target.id if is_own and isinstance(target, ast.Name) else None


def _passed_through(ctx: Context, cls: ast.ClassDef, attribute: str) -> Edits:
    """Rewrite ``x = self.blocks(x)``, which calls one block after the other."""
    edits: Edits = []
    for statement in ast.walk(cls):
        match statement:
            case ast.Assign([ast.Name(target)], ast.Call(ast.Attribute(owner, called), [given], [])) if (
                _is_self(owner) and called == attribute
            ):
                edits.append(_written_out(ctx, statement, target, given))
            case _:
                pass
    return edits


def _written_out(ctx: Context, statement: ast.Assign, target: str, given: ast.expr) -> Edit | None:
    name = free_name(ctx, statement, "block", "one_block")
    if name is None or not isinstance(statement.value, ast.Call):
        return None
    indentation, newline = ctx.source.indentation(statement.lineno), ctx.source.newline
    before = "" if isinstance(given, ast.Name) and given.id == target else f"{target} = {ctx.source_of(given)}"
    loop = f"for {name} in {ctx.source_of(statement.value.func)}:"
    call = f"{unit_of(indentation)}{target} = checkpoint({name}, {target}, use_reentrant=False)"
    return ctx.replace(statement, f"{newline}{indentation}".join([*filter(None, [before]), loop, call]))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _imported(ctx: Context, text: str) -> Edit | None:
    """Import something behind the first import of torch, where its name is free."""
    name = text.rpartition(" ")[2]
    if any(isinstance(n, ast.ImportFrom) and any(a.name == name for a in n.names) for n in ctx.tree.body):
        there = ctx.imported_as(f"torch.utils.checkpoint.{name}") == name
        start = ctx.source.start(ctx.tree.body[0])
        return Edit(Span(start, start), "") if there else None
    first = _import_of_torch(ctx)
    return inserted(ctx, first, text, after=True) if first is not None and name not in ctx.facts.globals else None


def _import_of_torch(ctx: Context) -> ast.stmt | None:
    for node in ctx.tree.body:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        if any(name.partition(".")[0] == "torch" for name in names):
            return node
    return None


def _optimizers(ctx: Context) -> Iterator[ast.Call]:
    for call in ctx.nodes(ast.Call):
        given = {keyword.arg for keyword in call.keywords}
        if ctx.name(call.func) in _FUSIBLE and call.args and not given & {"fused", "foreach", None}:
            yield call


def _fused(ctx: Context, _: str) -> Edits:
    return [with_keyword(ctx, call, "fused", "True") for call in _optimizers(ctx)]


def _one_by_one(ctx: Context, _: str) -> Edits:
    return [with_keyword(ctx, call, "foreach", "False") for call in _optimizers(ctx)]


def _set_to_none(ctx: Context, _: str) -> Edits:
    """Let gradients go where they are filled with zeros."""
    edits: Edits = []
    for call in ctx.nodes(ast.Call):
        values = [keyword.value for keyword in call.keywords if keyword.arg == "set_to_none"]
        zeros = any(isinstance(value, ast.Constant) and value.value is False for value in values)
        if zeros and isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad":
            edits.append(ctx.remove_keyword(call, "set_to_none"))
    return edits


def _without_grad(ctx: Context, _: str) -> Edits:
    """Decorate functions that put a model into evaluation and go backward from nothing."""
    decorator = written_as(ctx, "torch.no_grad")
    found = [node for node in ctx.nodes(ast.FunctionDef) if decorator and _evaluates(node)]
    return [ctx.insert_statement(node, f"@{decorator}()") for node in found]


def _evaluates(function: ast.FunctionDef) -> bool:
    called = {n.func.attr for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
    return "eval" in called and not called & {"backward", "train", "grad", "step", "no_grad", "inference_mode"}


def _expandable(ctx: Context, _: str) -> Edits:
    """Set the allocator before torch is imported."""
    first = _import_of_torch(ctx)
    imports = [node for node in ctx.tree.body if isinstance(node, ast.Import)]
    has_os = any(a.name == "os" and a.asname is None for n in imports for a in n.names) if first else False
    if first is None or ("os" in ctx.facts.globals and not has_os):
        return []
    earlier = has_os and any(n.lineno < first.lineno and any(a.name == "os" for a in n.names) for n in imports)
    text = _SETTING if earlier else f"import os{ctx.source.newline}{_SETTING}"
    return [inserted(ctx, first, text)]


def _chunked(ctx: Context, _: str) -> Edits:
    edits = in_chunks(ctx)
    return [*edits, _imported(ctx, "from torch.utils.checkpoint import checkpoint")] if edits else []


_WAYS: dict[str, Callable[[Context, str], Edits]] = {
    "checkpoint": _checkpointed,
    "fused": _fused,
    "one-by-one": _one_by_one,
    "set-to-none": _set_to_none,
    "no-grad": _without_grad,
    "expandable": _expandable,
    "save-on-cpu": lambda ctx, _: on_host(ctx),
    "autocast": lambda ctx, dtype: in_bfloat16(ctx) if dtype == "bf16" else [],
    "accumulate": lambda ctx, _: in_parts(ctx),
    "sdpa": lambda ctx, _: in_one_kernel(ctx),
    "chunked-loss": _chunked,
}
