"""Expressions that are written over several statements: what a name was bound to, where nothing else reads it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

from drygrad.model import Edit
from drygrad.static.context import Context
from drygrad.static.editing import is_plain
from drygrad.static.syntax import block_of, class_around


class Chain:
    """Follows names backward from an expression, statement by statement of one block."""

    def __init__(self, ctx: Context, last: ast.expr) -> None:
        self.ctx = ctx
        self.statement = ctx.statement(last)
        self.links: list[ast.stmt] = []
        """The statements that the chain is made of, but for the last."""
        self.guard: ast.Name | None = None
        """A name: a link that was followed is for the case that it is not None, which whoever follows must see to."""
        self._block = block_of(ctx, self.statement)
        self._at = self._block.index(self.statement) if self.statement in self._block else 0
        self._end = self._at
        self._scope = ctx.function(last) or ctx.tree
        self._uses: Counter[str] = Counter()

    def follow(self, node: ast.expr) -> ast.expr | None:
        """Return what a name was bound to, and any other expression as it is; None where that is not certain."""
        if not isinstance(node, ast.Name):
            return node
        value = self.peek(node)
        if value is None:
            return None
        self._at = next(n for n in range(self._at - 1, -1, -1) if node.id in stored(self._block[n]))
        link = self._block[self._at]
        self.guard = _guard(link) or self.guard
        self.links.append(link)
        self._uses[node.id] += 1
        return value

    def peek(self, node: ast.expr) -> ast.expr | None:
        """Return what a name was bound to, and leave it at that."""
        if not isinstance(node, ast.Name):
            return node
        for link in reversed(self._block[: self._at]):
            if node.id in stored(link):
                bound = link.body[0] if isinstance(link, ast.If) and _guard(link) is not None else link
                match bound:
                    case ast.Assign([ast.Name(name)], value) if name == node.id:
                        return value
                    case _:
                        return None
        return None

    def read(self, nodes: Iterable[ast.AST]) -> None:
        """Count what these read as read by the chain: they go with it."""
        self._uses.update(name for node in nodes for name in loaded(node) if name in self._uses)

    def holds(self, operands: Iterable[ast.AST]) -> bool:
        """Say whether the links can go: nothing else reads what they bind, and operands are the same at the end."""
        reads, writes = Counter(loaded(self._scope)), Counter(stored(self._scope))
        links = Counter(name for link in self.links for name in stored(link))
        if any(reads[name] != uses or writes[name] != links[name] for name, uses in self._uses.items()):
            return False
        needed = {name for operand in operands for name in loaded(operand)}
        between = [each for each in self._block[self._at : self._end] if each not in self.links]
        return all(map(self._is_plain, self.links)) and not any(_touches(each, needed) for each in between)

    def _is_plain(self, link: ast.stmt) -> bool:
        return is_plain(self.ctx, link)

    def removed(self) -> list[Edit | None]:
        """Return the edits that take the links away."""
        return [self.ctx.delete_statement(link) for link in self.links]


def stored(node: ast.AST) -> list[str]:
    """Return the names that a statement binds."""
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]


def loaded(node: ast.AST) -> Iterator[str]:
    """Yield the names that are read."""
    yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


def _guard(link: ast.stmt) -> ast.Name | None:
    """Return the name of ``if name is not None``, where one statement hangs on it."""
    match link:
        case ast.If(ast.Compare(ast.Name() as name, [ast.IsNot()], [ast.Constant(None)]), [ast.Assign()], []):
            return name
        case _:
            return None


def _touches(statement: ast.stmt, names: set[str]) -> bool:
    """Say whether a statement could change what names stand for; methods such as ``mul_`` write in place."""
    if not isinstance(statement, ast.Assign) or names & {*stored(statement)}:
        return True
    targets = [n for target in statement.targets for n in ast.walk(target)]
    if any(isinstance(n, (ast.Attribute, ast.Subscript)) for n in targets):
        return True
    called = (n.func for n in ast.walk(statement) if isinstance(n, ast.Call))
    return any(isinstance(f, ast.Attribute) and f.attr.endswith("_") for f in called)


def made_by(ctx: Context, node: ast.AST, attribute: str) -> str | None:
    """Return what makes an attribute of the class around a node, where one statement binds it."""
    call = maker_of(ctx, node, attribute)
    return ctx.name(call.func) if call is not None else None


def maker_of(ctx: Context, node: ast.AST, attribute: str) -> ast.Call | None:
    """Return the call that makes an attribute of the class around a node, where one statement binds it."""
    cls = class_around(node, ctx)
    values = [
        s.value
        for s in (ast.walk(cls) if cls is not None else ())
        if isinstance(s, ast.Assign)
        for target in s.targets
        if isinstance(target, ast.Attribute) and target.attr == attribute
    ]
    call = values[0] if len(values) == 1 else None
    return call if isinstance(call, ast.Call) else None
