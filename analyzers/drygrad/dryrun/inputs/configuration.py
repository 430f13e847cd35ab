"""Values that a configuration gives: the defaults of ``add_argument`` and of dataclass fields of the file."""

from __future__ import annotations

import ast

from drygrad.dryrun.inputs import conventions
from drygrad.dryrun.inputs.nodes import Node, text, with_others
from drygrad.dryrun.inputs.usage import Usage

SOURCE = "default"


def argparse_defaults(tree: ast.Module) -> dict[str, str]:
    """Return the defaults of the arguments that the file's parsers know, as expressions, by their names."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
        ):
            continue
        flags = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        keywords = {k.arg: k.value for k in node.keywords}
        longest = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
        name = ast.literal_eval(keywords["dest"]) if isinstance(keywords.get("dest"), ast.Constant) else longest
        value = _default(keywords)
        if value is not None and isinstance(name, str):
            found[name.lstrip("-").replace("-", "_")] = value
    return found


def words_of(tree: ast.Module) -> dict[str, str]:
    """Return the texts that parameters have by default, as expressions, by their names; the first of each."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            named = [*node.args.posonlyargs, *node.args.args]
            pairs = [*zip(named[len(named) - len(node.args.defaults) :], node.args.defaults, strict=True)]
            pairs += [(p, d) for p, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d]
            for parameter, default in pairs:
                if isinstance(default, ast.Constant) and isinstance(default.value, str) and default.value:
                    found.setdefault(parameter.arg, ast.unparse(default))
    return found


def _default(keywords: dict[str | None, ast.expr]) -> str | None:
    if "default" in keywords:
        value = keywords["default"]
        return ast.unparse(value) if isinstance(value, (ast.Constant, ast.List, ast.UnaryOp, ast.Tuple)) else None
    action = keywords.get("action")
    if isinstance(action, ast.Constant) and action.value in ("store_true", "store_false"):
        return str(action.value == "store_false")
    return None


def value(name: str, defaults: dict[str, str], usage: Usage) -> Node:
    """Return what an entry of a configuration is: the parser's default, else what its name stands for."""
    if name in defaults:
        return text(defaults[name], SOURCE)
    known = conventions.by_names(usage.names)
    if known is not None and known["kind"] == "text":
        return known
    if usage.choices:
        found = [text(written, "search") for written in dict.fromkeys(usage.choices)][:6]
        return with_others(found[0], *found[1:])
    if "folder" in usage.kinds:
        return text(conventions.FOLDER, conventions.SOURCE)
    if "path" in usage.kinds:
        return text("'dry-run.tmp'", conventions.SOURCE)
    others = (text("None", conventions.SOURCE), text("0.5", "search"))
    return with_others(conventions.number_by_names(usage.names), *others)
