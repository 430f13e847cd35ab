"""Rule DG801: deprecated amp names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.api.guards import is_guarded
from drygrad.static.tree import walk

_PARAMETERS = {"autocast": ("enabled", "dtype", "cache_enabled"), "GradScaler": ()}
_DEPRECATED = {
    f"torch.{device}.amp.{name}": (device, name) for device in ("cuda", "cpu") for name in ("autocast", "GradScaler")
}


class DeprecatedAmp(Rule):
    """
    ## What it does
    Finds `autocast` and `GradScaler` from `torch.cuda.amp` and `torch.cpu.amp`.

    ## Why is this bad?
    They are deprecated since torch 2.4 and warn when used; those in `torch.amp` take the device type as their first
    argument.

    ## Example
    ```python
    scaler = torch.cuda.amp.GradScaler()
    with torch.cuda.amp.autocast():
        loss = model(x)
    ```
    Use instead:
    ```python
    scaler = torch.amp.GradScaler("cuda")
    with torch.amp.autocast("cuda"):
        loss = model(x)
    ```

    ## Fix safety
    Safe: the new names do the same, with the same defaults. There is no fix if the old module is also used in other
    ways.
    """

    code, name, since = "DG801", "deprecated-amp", "0.1"
    severity = "info"
    torch = ("2.4", None)
    tags = ("deprecated",)
    VALID = [
        Valid(
            """
            from packaging import version

            if version.parse(torch.__version__) < version.parse("2.4.0"):
                scaler = torch.cuda.amp.GradScaler()
            else:
                scaler = torch.GradScaler("cuda")
            """
        ),
        Valid('with torch.amp.autocast("cuda"):\n    y = model(x)'),
        Valid('with torch.autocast("cuda", dtype=torch.float16):\n    y = model(x)'),
        Valid("with torch.cuda.amp.autocast():\n    y = model(x)", target_torch="2.3"),
        Valid(
            "def scaler_for(new):\n"
            "    return torch.amp.GradScaler('cuda') if new else torch.cuda.amp.GradScaler()  # before 2.4"
        ),
        Valid(
            "def mixed(new):\n    if new:\n        return torch.amp.autocast('cuda')\n    else:\n"
            "        return torch.cuda.amp.autocast()"
        ),
        Valid("from apex import amp\nimport torch\nwith amp.autocast():\n    y = model(x)"),
    ]
    INVALID = [
        Invalid(
            "with torch.cuda.amp.autocast():\n    y = model(x)",
            'with torch.amp.autocast("cuda"):\n    y = model(x)',
            at=(1, 5, 1, 28),
        ),
        Invalid(
            "import torch\nfrom torch.cuda.amp import GradScaler, autocast\n\nscaler = GradScaler(init_scale=1024.0)\n"
            "with autocast(True, torch.bfloat16):\n    y = model(x)",
            "import torch\nfrom torch.amp import GradScaler, autocast\n\n"
            'scaler = GradScaler("cuda", init_scale=1024.0)\n'
            'with autocast("cuda", enabled=True, dtype=torch.bfloat16):\n    y = model(x)',
            count=2,
        ),
        Invalid(
            "import torch\nimport torch.cuda.amp as amp\n\nscaler = amp.GradScaler()\nwith amp.autocast():\n"
            "    y = model(x)",
            'import torch\nimport torch.amp as amp\n\nscaler = amp.GradScaler("cuda")\nwith amp.autocast("cuda"):\n'
            "    y = model(x)",
            count=2,
        ),
        Invalid(
            "import torch\nfrom torch.cuda import amp\n\n@amp.autocast()\ndef f(x):\n    return model(x)",
            'import torch\nfrom torch import amp\n\n@amp.autocast("cuda")\ndef f(x):\n    return model(x)',
        ),
        Invalid("scaler = torch.cpu.amp.GradScaler()", 'scaler = torch.amp.GradScaler("cpu")'),
        Invalid(
            "import torch\nfrom torch.cuda.amp import autocast, custom_fwd\n\nwith autocast():\n    y = model(x)",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        name = _deprecated_name(ctx, node)
        if name is None or _is_fallback(ctx, node) or is_guarded(node.func, ctx):
            return
        device, last = _DEPRECATED[name]
        yield ctx.finding(
            self,
            node.func,
            f'{name} is deprecated; use torch.amp.{last}("{device}")',
            fixes=[self._fix(ctx, node)],
        )

    def _fix(self, ctx: Context, node: ast.Call) -> Fix | None:
        device, last = _DEPRECATED[_deprecated_name(ctx, node) or ""]
        if ctx.text(node.func) == f"torch.{device}.amp.{last}":
            edits = [ctx.replace(node.func, f"torch.amp.{last}"), _with_device(ctx, node)]
            return ctx.fix(f"Use `torch.amp.{last}`", *edits, safety="safe")
        statement = _import_of(ctx, node)
        if statement is None:
            return None
        return ctx.fix("Import it from `torch.amp`", *_renamed_import(ctx, statement), safety="safe")


def _is_fallback(ctx: Context, node: ast.Call) -> bool:
    """Say whether another branch uses torch.amp, so that this one is for older versions of torch."""
    choices = (a for a in ctx.ancestors(node) if isinstance(a, (ast.If, ast.IfExp, ast.Try)))
    names = (
        ctx.name(part) for choice in choices for part in walk(choice) if isinstance(part, (ast.Name, ast.Attribute))
    )
    return any(name is not None and name.startswith(("torch.amp.", "torch.autocast")) for name in names)


def _deprecated_name(ctx: Context, node: ast.Call) -> str | None:
    name = ctx.name(node.func)
    return name if name in _DEPRECATED else None


def _with_device(ctx: Context, node: ast.Call) -> Edit | None:
    """Give the device as first argument; what was passed by position before gets its name."""
    device, last = _DEPRECATED[_deprecated_name(ctx, node) or ""]
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return None
    names = [f"{name}=" for name in _PARAMETERS[last]] or [""] * len(node.args)
    arguments = [f'"{device}"']
    arguments += [name + ctx.source_of(argument) for name, argument in zip(names, node.args, strict=False)]
    arguments += [ctx.source_of(keyword) for keyword in node.keywords]
    end = ctx.source.end(node.func)
    return Edit(ctx.source.span(node)._replace(start=end), f"({', '.join(arguments)})")


def _import_of(ctx: Context, node: ast.Call) -> ast.Import | ast.ImportFrom | None:
    """Return the import that a call's first name comes from."""
    first = (ctx.text(node.func) or "").partition(".")[0]
    imports = ctx.nodes(ast.Import, ast.ImportFrom)
    return next((s for s in imports if any((a.asname or a.name) == first for a in s.names)), None)


def _renamed_import(ctx: Context, statement: ast.Import | ast.ImportFrom) -> list[Edit | None]:
    """Import from torch.amp, and give each call of what is imported its device; None where other uses would break."""
    header = _new_header(ctx, statement)
    names = {alias.asname or alias.name for alias in statement.names}
    uses = [use for use in ctx.nodes(ast.Name) if use.id in names]
    calls = [_call_of(ctx, use) for use in uses]
    return [header, *(_with_device(ctx, call) if call is not None else None for call in calls)]


def _new_header(ctx: Context, statement: ast.Import | ast.ImportFrom) -> Edit | None:
    text = ctx.source_of(statement)
    imported = {alias.name for alias in statement.names}
    match statement:
        case ast.ImportFrom(module="torch.cuda.amp" | "torch.cpu.amp" as module) if imported <= set(_PARAMETERS):
            return ctx.replace(statement, text.replace(module, "torch.amp", 1))
        case ast.ImportFrom(module="torch.cuda" | "torch.cpu" as module) if imported == {"amp"}:
            return ctx.replace(statement, text.replace(module, "torch", 1))
        case ast.Import(names=[ast.alias(name="torch.cuda.amp" | "torch.cpu.amp" as module, asname=str())]):
            return ctx.replace(statement, text.replace(module, "torch.amp", 1))
        case _:
            return None


def _call_of(ctx: Context, use: ast.Name) -> ast.Call | None:
    """Return the deprecated call that a name is used in."""
    node: ast.expr = use
    parent = ctx.parent(node)
    while isinstance(parent, ast.Attribute):
        node, parent = parent, ctx.parent(parent)
    is_callee = isinstance(parent, ast.Call) and parent.func is node
    return parent if is_callee and isinstance(parent, ast.Call) and _deprecated_name(ctx, parent) else None
