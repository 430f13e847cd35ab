"""Rule DG775: a module's constructor that Python never calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.syntax import own_nodes


class ConstructorMisspelt(Rule):
    """
    ## What it does
    Finds a method of an `nn.Module` that is named `_init_`, `___init___` or the like and calls `super().__init__()`, in
    a class without an `__init__`.

    ## Why is this bad?
    Python never calls it: the module has no layers. Passing arguments raises `TypeError: ... takes 1 positional
    argument`, and using a layer raises AttributeError.

    ## Example
    ```python
    class Net(nn.Module):
        def _init_(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)
    ```
    Use instead:
    ```python
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)
    ```

    ## Fix safety
    Unsafe: the constructor now runs.
    """

    code, name, since = "DG775", "constructor-misspelt", "0.1"
    severity = "error"
    VALID = [
        Valid(
            "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.f = nn.Linear(1, 1)"
        ),
        Valid("class N(nn.Module):\n    def _init_weights(self):\n        super().__init__()"),
        Valid(
            "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n    def _init_(self):\n"
            "        super().__init__()"
        ),
        Valid("class N(nn.Module):\n    def init(self):\n        self.a = 1\n    def _init(self):\n        self.b = 1"),
    ]
    INVALID = [
        Invalid(
            "class N(nn.Module):\n    def ___init___(self):\n        super().__init__()\n        self.f = nn.ReLU()",
            "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.f = nn.ReLU()",
            at=(2, 8, 2, 18),
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __int__(self, size):
                    super(Net, self).__init__()
                    self.fc = nn.Linear(size, 2)
            """,
            """
            class Net(nn.Module):
                def __init__(self, size):
                    super(Net, self).__init__()
                    self.fc = nn.Linear(size, 2)
            """,
        ),
    ]

    def visit_class(self, node: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
        methods = [statement for statement in node.body if isinstance(statement, ast.FunctionDef)]
        misspelt = next((m for m in methods if _is_meant_as_constructor(m)), None)
        if misspelt is None or any(m.name == "__init__" for m in methods) or not ctx.is_module_class(node):
            return
        line = ctx.source.line_text(misspelt.lineno)
        start = line.find(misspelt.name, misspelt.col_offset)
        place = ast.Name(misspelt.name, ast.Load())
        place.lineno = place.end_lineno = misspelt.lineno
        place.col_offset, place.end_col_offset = start, start + len(misspelt.name)
        yield ctx.finding(
            self,
            place,
            f"Python never calls `{misspelt.name}`; `{node.name}` is created without running it. Did you mean "
            "`__init__`?",
            fixes=[ctx.fix("Rename it to `__init__`", ctx.replace(place, "__init__"))],
        )


def _is_meant_as_constructor(method: ast.FunctionDef) -> bool:
    """Say whether a method has nearly the constructor's name, and runs the constructor of a base."""
    letters = method.name.strip("_")
    near = method.name not in ("__init__", letters) and letters in ("init", "int", "inti", "ini", "init_")
    return near and any(
        isinstance(n, ast.Attribute) and n.attr == "__init__" for s in method.body for n in own_nodes(s)
    )
