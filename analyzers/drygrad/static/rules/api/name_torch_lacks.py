"""Rule DG819: a name of torch that there is no longer, or never was."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.expected_errors import is_expected
from drygrad.static.facts.values import Reference
from drygrad.static.rules.api.guards import is_guarded
from drygrad.torchmodel.operations import names_of, torch_version


class NameTorchLacks(Rule):
    """
    ## What it does
    Finds calls and imports of names that torch does not have: removed functions such as `torch.gels` and `torch.rfft`,
    removed modules such as `torch._six`, and names that never existed.

    The names are those of the torch release that drygrad was built against. Code that checks the version or `hasattr`,
    catches the error, or assigns the name itself is left alone. Packages whose names depend on how torch was built,
    such as `torch.cuda`, are not checked.

    ## Why is this bad?
    The line raises AttributeError or ImportError when it is reached.

    ## Example
    ```python
    spectrum = torch.rfft(signal, 1)
    ```
    Use instead:
    ```python
    spectrum = torch.fft.rfft(signal)
    ```
    """

    code, name, since = "DG819", "name-torch-lacks", "0.1"
    severity = "warning"
    torch = (torch_version(), None)
    tags = ("deprecated",)
    VALID = [
        Valid("spectrum = torch.fft.rfft(torch.ones(8))"),
        Valid("from torch.optim import lr_scheduler as s\n\ns.StepLR(opt, 3), torch.optim.swa_utils.SWALR(opt, 0.1)"),
        Valid("from torch.utils import data\nfrom torch.optim.lr_scheduler import LRScheduler"),
        Valid("from torch.nn.parallel import Anything\nimport torch.utils.tensorboard"),
        Valid("if hasattr(torch, 'rfft'):\n    s = torch.rfft(torch.ones(8), 1)"),
        Valid("try:\n    from torch._six import string_classes\nexcept ImportError:\n    string_classes = str"),
        Valid("torch.rfft = torch.fft.rfft\ns = torch.rfft(torch.ones(8))"),
        Valid("from torch.utils._config_typing import *\nimport torch\n\ntorch.autograd._RecordFunction()"),
        Valid("import torch_npu\n\ntorch.npu.synchronize()"),
        Valid("s = torch.rfft(torch.ones(8), 1)", target_torch="1.7"),
    ]
    INVALID = [
        Invalid("s = torch.rfft(torch.ones(8), 1)", at=(1, 4, 1, 14)),
        Invalid("from torch._six import string_classes", at=(1, 0, 1, 37)),
        Invalid("import torch.nn as layers\n\nlayer = layers.BatchNorm4d(3)"),
        Invalid("from torch.nn.functional import sofmax"),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.func, ast.Attribute):
            return
        name = _as_written(node.func, ctx)
        package, _, last = name.rpartition(".")
        if _lacks(package, last) and not _is_meant(node, name, ctx):
            yield ctx.finding(self, node.func, _message(name, "AttributeError"))

    def visit_import(self, node: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
        package = node.module or ""
        if node.level or not package.startswith("torch"):
            return
        above, _, module = package.rpartition(".")
        named = [package] if _lacks(above, module) else []
        named = named or [f"{package}.{alias.name}" for alias in node.names if _lacks(package, alias.name)]
        if named and not _is_meant(node, named[0], ctx):
            yield ctx.finding(self, node, _message(named[0], "ImportError"))


def _as_written(node: ast.Attribute, ctx: Context) -> str:
    """Return the full name by the path that the file takes to it, nothing where the root is no import of torch."""
    root: ast.expr = node
    parts: list[str] = []
    while isinstance(root, ast.Attribute):
        parts.append(root.attr)
        root = root.value
    value = ctx.value(root) if isinstance(root, ast.Name) else None
    name = value.name if isinstance(value, Reference) else ""
    return ".".join([name, *reversed(parts)]) if name.partition(".")[0] == "torch" else ""


def _message(name: str, error: str) -> str:
    return f"torch {torch_version()} has no `{name}`; this raises {error}"


def _lacks(package: str, name: str) -> bool:
    """Say whether torch lacks a name; private ones of its packages are bound as it was built, or are stubs."""
    known = names_of(package) if package.startswith("torch") else None
    private = name.startswith("__" if package == "torch" else "_")
    return known is not None and name not in known and not private and name != "*"


def _is_meant(node: ast.AST, name: str, ctx: Context) -> bool:
    """Say whether the file asks for the name, expects the error, or gives torch the name itself."""
    if is_guarded(node, ctx) or is_expected(node, ctx):
        return True
    last = name.rpartition(".")[2]
    gives = any(a.attr == last and isinstance(a.ctx, ast.Store) for a in ctx.nodes(ast.Attribute))
    return gives or ctx.mentions("setattr(torch")
