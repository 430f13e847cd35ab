"""Rule DG620: a collective that not all ranks come to."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.speed.ranks import is_of_some_ranks
from drygrad.static.syntax import argument, block_of, called, own_nodes

_COLLECTIVES = frozenset(
    "barrier all_reduce broadcast reduce all_gather all_gather_into_tensor all_gather_object gather gather_object "
    "scatter scatter_object_list reduce_scatter reduce_scatter_tensor all_to_all all_to_all_single "
    "broadcast_object_list".split()
)
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class CollectiveOnSomeRanks(Rule):
    """
    ## What it does
    Finds collectives that only some ranks call: `dist.barrier()` inside `if rank == 0:` without a counterpart for the
    other ranks. A dry run compares ranks (DG940), so it also finds what is hidden in functions and modules: the forward
    pass of a `DistributedDataParallel` that only rank 0 evaluates, the state dict of a sharded model, a `break` on one
    rank, a rank with one more batch.

    ## Why is this bad?
    A collective returns once all ranks have called it. A rank that calls it alone waits until the watchdog aborts the
    job, after ten minutes with NCCL, and the error names the collective that the others were waiting in, not this line.
    If the others call a different collective in the meantime, values of one end up in the other.

    ## Example
    ```python
    if dist.get_rank() == 0:
        download()
        dist.barrier()
    ```
    Use instead:
    ```python
    if dist.get_rank() == 0:
        download()
    dist.barrier()
    ```
    """

    code, name, since = "DG620", "collective-on-some-ranks", "0.1"
    severity = "error"
    VALID = [
        Valid(
            """
            import torch.distributed as dist

            def save(model, path):
                if dist.get_rank() == 0:
                    torch.save(model.state_dict(), path)
                dist.barrier()

            def main_process_first(prepare):
                rank = dist.get_rank()
                if rank != 0:
                    dist.barrier()
                prepare()
                if rank == 0:
                    dist.barrier()

            def load(path):
                if dist.get_rank() == 0:
                    state = [torch.load(path)]
                    dist.broadcast_object_list(state, src=0)
                else:
                    state = [None]
                    dist.broadcast_object_list(state, src=0)
                return state[0]

            def first(group):
                if dist.get_rank() < 2:
                    dist.barrier(group=group)

            def pipeline(x):
                if dist.get_rank() == 0:
                    dist.send(x, dst=1)
                else:
                    dist.recv(x, src=0)

            def early(x):
                if dist.get_rank() != 0:
                    dist.barrier()
                    return None
                x = x.cpu()
                dist.barrier()
                return x
            """
        ),
        Valid(
            """
            import torch.distributed as dist
            from torch.nn.parallel import DistributedDataParallel as DDP

            def fit(net, batches, is_good):
                rank = dist.get_rank()
                model = DDP(net)
                for x in batches:
                    loss = model(x).mean()
                    loss.backward()
                    stop = torch.tensor(float(rank == 0 and is_good(loss)))
                    dist.all_reduce(stop)
                    if stop > 0:
                        break
                    for name, value in net.named_parameters():
                        if rank == 0 and value.isnan().any():
                            print(name)
                            break
            """
        ),
        Valid(
            """
            import torch.distributed as dist

            def others_wait():
                dist.barrier()

            def fetch(download):
                if dist.get_rank() == 0:
                    download()
                    dist.barrier()
                else:
                    others_wait()

            def alone(verbose):
                if verbose or dist.get_rank() == 0:
                    dist.barrier()
                if dist.get_world_size() == 1 and dist.get_rank() == 0:
                    dist.barrier()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch.distributed as dist

            def save(model, path):
                if dist.get_rank() == 0:
                    torch.save(model.state_dict(), path)
                    dist.barrier()
            """,
            at=(6, 8, 6, 22),
        ),
        Invalid(
            """
            import os
            import torch.distributed as dist

            def mean(x):
                rank = int(os.environ["RANK"])
                if rank > 0:
                    return x
                dist.all_reduce(x)
                return x / dist.get_world_size()
            """,
            at=(8, 4, 8, 22),
        ),
        Invalid(
            """
            import torch.distributed as dist
            from torch.nn.parallel import DistributedDataParallel as DDP

            def fit(net, batches, is_good):
                rank = dist.get_rank()
                model = DDP(net)
                for x in batches:
                    loss = model(x).mean()
                    loss.backward()
                    if rank == 0 and is_good(loss):
                        break
            """,
            at=(11, 12, 11, 17),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if called(node) not in _COLLECTIVES or not _is_of_the_world(node, ctx):
            return
        way = _way_of_some(node, ctx)
        if way is None or any(_may_balance(other, node, ctx) for other in way.instead) or _balanced(node, way, ctx):
            return
        what = ctx.source_of(node.func)
        message = f"only some ranks call {what}() (line {way.test.lineno}); it waits for the others forever"
        yield ctx.finding(self, node, message, related=[("this decides which ranks", way.test)])

    def visit_break(self, node: ast.Break, ctx: Context) -> Iterator[Finding]:
        loop = ctx.enclosing(node, ast.For, ast.While)
        branch = ctx.enclosing(node, ast.If)
        if loop is None or branch is None or loop not in ctx.ancestors(branch) or node not in branch.body:
            return
        if not is_of_some_ranks(branch.test, ctx) or not any(_waits(inner, ctx) for inner in own_nodes(loop)):
            return
        message = f"only some ranks leave this loop (line {branch.test.lineno}); the others hang in the next iteration"
        yield ctx.finding(self, node, message, related=[("this decides which ranks", branch.test)])


def _waits(node: ast.AST, ctx: Context) -> bool:
    """Say whether ranks wait for one another in an expression: in a collective, or in the backward of a replica."""
    if not isinstance(node, ast.Call):
        return False
    if called(node) == "backward":
        return ctx.derived(_has_replicas)
    return called(node) in _COLLECTIVES and _is_of_the_world(node, ctx)


def _has_replicas(ctx: Context) -> bool:
    return any((ctx.name(call.func) or "").endswith(".DistributedDataParallel") for call in ctx.nodes(ast.Call))


class _Way:
    """How a call is reached by some ranks only: by what test, and what the others do instead."""

    def __init__(self, test: ast.expr, instead: Sequence[ast.stmt], around: ast.stmt) -> None:
        self.test, self.instead, self.around = test, instead, around


def _is_of_the_world(node: ast.Call, ctx: Context) -> bool:
    name = ctx.name(node.func) or ""
    return name.startswith("torch.distributed.") and argument(node, "group") is None


def _way_of_some(node: ast.AST, ctx: Context) -> _Way | None:
    """Return the test that only some ranks pass on the way to a call: around it, or left early before it."""
    statement = ctx.statement(node)
    while True:
        for earlier in _before(statement, ctx):
            if isinstance(earlier, ast.If) and _is_left_by_some(earlier, ctx):
                return _Way(earlier.test, earlier.body, earlier)
        parent = ctx.parent(statement)
        if isinstance(parent, ast.If) and is_of_some_ranks(parent.test, ctx):
            return _Way(parent.test, _instead(statement, parent, ctx), parent)
        if not isinstance(parent, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
            return None
        statement = parent


def _is_left_by_some(branch: ast.If, ctx: Context) -> bool:
    return not branch.orelse and isinstance(branch.body[-1], ast.Return) and is_of_some_ranks(branch.test, ctx)


def _before(statement: ast.stmt, ctx: Context) -> list[ast.stmt]:
    block = block_of(ctx, statement)
    return block[: block.index(statement)] if statement in block else []


def _instead(statement: ast.stmt, branch: ast.If, ctx: Context) -> list[ast.stmt]:
    """Return what the ranks execute that do not pass a test: the other branch, and what follows one that is left."""
    mine, other = (branch.body, branch.orelse) if statement in branch.body else (branch.orelse, branch.body)
    block = block_of(ctx, branch)
    follows = block[block.index(branch) + 1 :] if branch in block and isinstance(mine[-1], _LEAVING) else []
    return [*other, *follows]


def _may_balance(statement: ast.stmt, call: ast.Call, ctx: Context) -> bool:
    """Say whether others may come to the same collective in a statement: it calls it, or something unknown."""
    return any(
        called(inner) == called(call) or not _is_known(inner, ctx)
        for inner in own_nodes(statement)
        if isinstance(inner, ast.Call)
    )


def _is_known(call: ast.Call, ctx: Context) -> bool:
    name = ctx.name(call.func) or ""
    return name.partition(".")[0] in ("torch", "builtins", "os", "time", "logging", "json", "math", "shutil")


def _balanced(call: ast.Call, way: _Way, ctx: Context) -> bool:
    """Say whether the same collective is called by some ranks somewhere else: the others, perhaps."""
    for other in ctx.nodes(ast.Call):
        if other is call or called(other) != called(call) or way.around in ctx.ancestors(other):
            continue
        if _way_of_some(other, ctx) is not None:
            return True
    return False
