"""How the user's text spells what an operation does: for sentences that name things as the user does."""

from __future__ import annotations

import ast

from drygrad.worker.lines import Instruction, Lines

_LONGEST = 60


def spelled(lines: Lines, instruction: Instruction | None, op: str) -> str:
    """Return how the user's text calls an operation: ```y.clamp_(min=0)```; with the operation's name where it differs.

    Where the text is not known (before Python 3.11, long or broken lines) the operation's name is all there is.
    """
    bare = op.rpartition("::")[2].split(".")[0]
    text = text_of(lines, instruction)
    if text is None:
        return f"`{bare}`"
    if _is(text, ast.Subscript):
        return f"the write to `{text}`"
    known = bare.rstrip("_") in text or _is(text, (ast.BinOp, ast.UnaryOp, ast.AugAssign))
    return f"`{text}`" if known else f"`{text}` ({bare})"


def text_of(lines: Lines, instruction: Instruction | None) -> str | None:
    """Return the expression or statement that an instruction stands for, if it is known and short."""
    text = " ".join(whole_text_of(lines, instruction).split())
    return text if 0 < len(text) <= _LONGEST else None


def whole_text_of(lines: Lines, instruction: Instruction | None) -> str:
    """Return the expression or statement that an instruction stands for, of any length; nothing where it is unknown."""
    place = lines.place(instruction)
    text = lines.text(place) if place is not None else None
    return text if text is not None and _parsed(text) is not None else ""


def operands(lines: Lines, instruction: Instruction | None) -> list[str]:
    """Return the texts of an operation's operands: of both sides of an operator, of receiver and arguments of a call.

    A function of a module (``torch.log(x)``) is taken for a method of it: its first operand is the module.
    """
    tree = _parsed(whole_text_of(lines, instruction))
    parts: list[ast.expr] = []
    if isinstance(tree, ast.BinOp):
        parts = [tree.left, tree.right]
    elif isinstance(tree, ast.UnaryOp):
        parts = [tree.operand]
    elif isinstance(tree, ast.AugAssign):
        parts = [tree.target, tree.value]
    elif isinstance(tree, ast.Call):
        receiver = [tree.func.value] if isinstance(tree.func, ast.Attribute) else []
        parts = [*receiver, *tree.args]
    return [ast.unparse(part) for part in parts]


def _parsed(text: str) -> ast.AST | None:
    try:
        [statement] = ast.parse(text.strip()).body
    except (SyntaxError, ValueError):
        return _enclosed(text)
    return statement.value if isinstance(statement, ast.Expr) else statement


def _enclosed(text: str) -> ast.AST | None:
    """Return an expression that goes over lines because a parenthesis around it does."""
    try:
        return ast.parse(f"({text})", mode="eval").body
    except SyntaxError:
        return None


def _is(text: str, kinds: type[ast.AST] | tuple[type[ast.AST], ...]) -> bool:
    return isinstance(_parsed(text), kinds)
