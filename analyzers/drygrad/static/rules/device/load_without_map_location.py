"""Rule DG208: a checkpoint loaded without map_location where the CPU is meant to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.places.flow import tests_device
from drygrad.static.facts.values import Device
from drygrad.static.rules.device.placement import device_expression, device_of
from drygrad.static.syntax import calls_in, follows, rebound_between
from drygrad.static.tree import walk


class LoadWithoutMapLocation(Rule):
    """
    ## What it does
    Finds `torch.load` without `map_location` in a file that is meant to run without a GPU too: it checks
    `torch.cuda.is_available()`, or moves what it has loaded to the CPU. Also finds one next to another `torch.load`
    with `map_location` in the same function, or in a function that assigns a GPU to its process
    (`torch.cuda.set_device`).

    ## Why is this bad?
    `torch.load` puts every tensor back on the device it was saved from. A checkpoint written on a GPU raises
    "Attempting to deserialize object on a CUDA device" on a machine without one; elsewhere it first takes up memory on
    that GPU.

    ## Example
    ```python
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.load_state_dict(torch.load("best.pt"))
    ```
    Use instead:
    ```python
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.load_state_dict(torch.load("best.pt", map_location=device))
    ```

    ## Fix safety
    Unsafe: tensors that are used without being loaded into a model end up on a different device.
    """

    code, name, since = "DG208", "load-without-map-location", "0.1"
    severity = "info"
    VALID = [
        Valid("state = torch.load('best.pt')"),
        Valid("def load(path, device):\n    return torch.load(path, map_location=device).to('cpu')"),
        Valid("def load(path):\n    return torch.load(path).to('cuda')"),
        Valid(
            """
            def load(path, use_cuda):
                if not use_cuda:
                    return torch.load(path, map_location="cpu")
                else:
                    return torch.load(path)
            """
        ),
        Valid("def load(path, **options):\n    return torch.load(path, **options).cpu()"),
        Valid(
            """
            device = "cuda" if torch.cuda.is_available() else "cpu"
            torch.save(model.state_dict(), "best.pt")
            model.load_state_dict(torch.load("best.pt"))  # what this very run has saved
            """
        ),
        Valid(
            "import json\nimport torch\n\ndef load(path):\n    with open(path) as file:\n        return json.load(file)"
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Predictor:
                def __init__(self):
                    self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

                def restore(self, model, path):
                    model.load_state_dict(torch.load(path))
                    return model.to(self.device)
            """,
            """
            class Predictor:
                def __init__(self):
                    self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

                def restore(self, model, path):
                    model.load_state_dict(torch.load(path, map_location="cpu"))
                    return model.to(self.device)
            """,
        ),
        Invalid(
            """
            def worker(rank, args):
                torch.cuda.set_device(rank)
                model = nn.Linear(3, 2).cuda(rank)
                state = torch.load(args.resume)
                model.load_state_dict(state["model"])
            """,
            """
            def worker(rank, args):
                torch.cuda.set_device(rank)
                model = nn.Linear(3, 2).cuda(rank)
                state = torch.load(args.resume, map_location="cpu")
                model.load_state_dict(state["model"])
            """,
            at=(4, 12, 4, 22),
        ),
        Invalid(
            "def load(path):\n    return torch.load(path).to('cpu')",
            "def load(path):\n    return torch.load(path, map_location=\"cpu\").to('cpu')",
            at=(2, 11, 2, 21),
        ),
        Invalid(
            "def load(path):\n    model = torch.load(path, weights_only=False)\n"
            "    model.eval()\n    return model.cpu()",
            'def load(path):\n    model = torch.load(path, weights_only=False, map_location="cpu")\n'
            "    model.eval()\n    return model.cpu()",
        ),
        Invalid(
            """
            def main(args):
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                model = nn.Linear(3, 2).to(device)
                checkpoint = torch.load(args.checkpoint, weights_only=True)
                model.load_state_dict(checkpoint["model"])
                return model
            """,
            """
            def main(args):
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                model = nn.Linear(3, 2).to(device)
                checkpoint = torch.load(args.checkpoint, weights_only=True, map_location=device)
                model.load_state_dict(checkpoint["model"])
                return model
            """,
            at=(4, 17, 4, 27),
        ),
        Invalid(
            """
            def restore(self, folder):
                weights = torch.load(f"{folder}/model.th", map_location=self.where())
                state = torch.load(f"{folder}/training.th")
                return weights, state["epoch"]
            """,
            """
            def restore(self, folder):
                weights = torch.load(f"{folder}/model.th", map_location=self.where())
                state = torch.load(f"{folder}/training.th", map_location=self.where())
                return weights, state["epoch"]
            """,
        ),
    ]
    calls = frozenset({"load"})

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or call.target != "torch.load" or len(node.args) != 1 or isinstance(node.args[0], ast.Starred):
            return
        hidden = any(keyword.arg in (None, "map_location", "mmap") for keyword in node.keywords)
        if hidden or _is_saved_here(node.args[0], ctx):
            return
        moved = _moved_to_cpu(node, ctx)
        device = '"cpu"' if moved else device_expression("auto", node, ctx)
        beside = None if device is not None else _beside(node, ctx)
        device = device or beside
        if device is None and _own_gpu(node, ctx) is not None:
            yield from self._of_one_gpu(node, ctx)
            return
        elsewhere = _chosen_elsewhere(node, ctx) if device is None else None
        if device is None and elsewhere is None:
            return
        meant = "it is moved to the CPU afterwards" if moved else f"`{device}` may be the CPU"
        meant = meant if beside is None else f"another checkpoint is loaded to `{beside}` here"
        meant = meant if elsewhere is None else f"this file runs without a GPU as well (`{elsewhere}`)"
        yield ctx.finding(
            self,
            node.func,
            f"torch.load restores tensors to the device they were saved from; {meant}, and a GPU checkpoint raises "
            "without a GPU",
            fixes=[_fix(node, device or '"cpu"', ctx)],
        )

    def _of_one_gpu(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """A checkpoint that every process of a training restores to the GPU of the one that wrote it."""
        gpu = _own_gpu(node, ctx)
        if gpu is not None:
            message = (
                f"torch.load restores tensors to the GPU they were saved from, not to `{gpu}`; each process fills it"
            )
            yield ctx.finding(self, node.func, message, fixes=[_fix(node, '"cpu"', ctx)])


def _chosen_elsewhere(node: ast.Call, ctx: Context) -> str | None:
    """Return where the file chooses the CPU for want of a GPU; None where it does not, or chose before this load."""
    if any(isinstance(a, (ast.If, ast.IfExp)) and tests_device(a.test) for a in ctx.ancestors(node)):
        return None
    chosen = next((n for n in ctx.nodes(ast.IfExp) if ctx.value(n) == Device("auto")), None)
    return ctx.source_of(chosen) if chosen is not None else None


def _own_gpu(node: ast.Call, ctx: Context) -> str | None:
    """Return the number of the GPU that the function makes the current one of its process; None where it makes none."""
    function = ctx.function(node)
    for other in calls_in(function) if function is not None else ():
        if ctx.name(other.func) == "torch.cuda.set_device" and other.args and follows(node, other):
            return None if isinstance(other.args[0], ast.Constant) else ctx.source_of(other.args[0])
    return None


def _beside(node: ast.Call, ctx: Context) -> str | None:
    """Return where the same function loads something else to before; None where that may have been bound anew since."""
    function = ctx.function(node)
    chosen = any(isinstance(a, (ast.If, ast.IfExp)) and tests_device(a.test) for a in ctx.ancestors(node))
    if function is None or chosen:
        return None
    for other in calls_in(function):
        call = ctx.call(other)
        if call is None or call.target != "torch.load" or other is node or not follows(node, other):
            continue
        wanted = next((keyword.value for keyword in other.keywords if keyword.arg == "map_location"), None)
        wanted = other.args[1] if wanted is None and len(other.args) > 1 else wanted
        names = [n.id for n in walk(wanted) if isinstance(n, ast.Name)] if wanted is not None else []
        if wanted is not None and not any(rebound_between(name, other, node, function) for name in names):
            return ctx.source_of(wanted)
    return None


def _fix(node: ast.Call, device: str, ctx: Context) -> Fix | None:
    return ctx.fix("Pass `map_location`", with_keyword(ctx, node, "map_location", device))


def _is_saved_here(path: ast.expr, ctx: Context) -> bool:
    """Say whether the file itself saves to the place that it loads from."""
    wanted = ast.unparse(path)
    calls = (n for n in walk(ctx.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    saves = (call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "save")
    return any(wanted == ast.unparse(argument) for save in saves for argument in save.args)


def _moved_to_cpu(node: ast.Call, ctx: Context) -> bool:
    """Say whether the loaded thing is moved to the CPU: right there, or by the name that it is assigned to."""
    holder = ctx.parent(node)
    if isinstance(holder, ast.Attribute):
        return _leads_to_cpu(ctx.parent(holder), ctx)
    function = ctx.function(node)
    if not isinstance(holder, ast.Assign) or function is None or not isinstance(holder.targets[0], ast.Name):
        return False
    name = holder.targets[0].id
    calls = [n for n in walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    return any(ctx.text(n.func) in (f"{name}.cpu", f"{name}.to") and _leads_to_cpu(n, ctx) for n in calls)


def _leads_to_cpu(node: ast.AST | None, ctx: Context) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    to_cpu = node.func.attr == "to" and bool(node.args) and device_of(ctx, node.args[0]) == "cpu"
    return node.func.attr == "cpu" or to_cpu
