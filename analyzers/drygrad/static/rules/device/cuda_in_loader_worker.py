"""Rule DG210: CUDA in the worker processes of a data loader."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.datasets import functions_of
from drygrad.static.facts.values import NONE, Arguments, Constant, Object
from drygrad.static.rules.device.moved_by_loop import moved_by_loop
from drygrad.static.rules.device.placement import device_of, is_accelerator, is_chosen, unless
from drygrad.static.tree import walk

_LOADER = "torch.utils.data.DataLoader"
_OTHER_STARTS = ("spawn", "forkserver")


class CudaInLoaderWorker(Rule):
    """
    ## What it does
    Finds a dataset's `__getitem__` or a `collate_fn` that moves tensors to the GPU, with `num_workers` above 0 in the
    `DataLoader`.

    ## Why is this bad?
    On Linux, workers are forked from a process that has initialized CUDA, which does not survive a fork: "Cannot
    re-initialize CUDA in forked subprocess". The code works without workers and on the CPU, so it only fails on the
    training machine. Workers that are started in another way (`spawn`, or `forkserver`, the default from Python 3.14
    on) do not raise, but each takes GPU memory for its own CUDA context.

    Let workers return CPU tensors (`pin_memory=True` makes the copy fast), and move the batch in the loop.

    ## Example
    ```python
    def collate(samples):
        return torch.stack(samples).to("cuda")


    loader = DataLoader(dataset, collate_fn=collate, num_workers=4)
    ```
    Use instead:
    ```python
    loader = DataLoader(dataset, collate_fn=torch.stack, num_workers=4, pin_memory=True)
    for batch in loader:
        batch = batch.to("cuda", non_blocking=True)
    ```

    ## Fix safety
    Unsafe: other users of the loader now get CPU batches.
    """

    code, name, since = "DG210", "cuda-in-loader-worker", "0.1"
    severity = "error"
    VALID = [
        Valid(
            """
            from torch.utils.data import DataLoader

            def collate(samples):
                return torch.stack(samples).to("cuda")

            loader = DataLoader([torch.zeros(2)] * 8, collate_fn=collate)
            """
        ),
        Valid(
            """
            from torch.utils.data import DataLoader

            def collate(samples):
                return torch.stack(samples).to("cpu", torch.float32)

            def make(data, workers):
                return DataLoader(data, collate_fn=collate, num_workers=4), DataLoader(data, num_workers=workers)
            """
        ),
        Valid(
            """
            from torch.utils.data import DataLoader

            def collate(samples):
                return torch.stack(samples).to("cuda")

            loader = DataLoader([1], collate_fn=collate, num_workers=2, multiprocessing_context="spawn")
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            from torch.utils.data import DataLoader

            def collate(samples):
                images, labels = zip(*samples)
                return torch.stack(images).to("cuda", non_blocking=True), torch.tensor(labels).cuda()

            def train(model, loader):
                for images, labels in loader:
                    F.cross_entropy(model(images), labels).backward()

            train(build(), DataLoader(data, num_workers=2, collate_fn=collate))
            """,
            """
            from torch.utils.data import DataLoader

            def collate(samples):
                images, labels = zip(*samples)
                return torch.stack(images), torch.tensor(labels)

            def train(model, loader):
                for images, labels in loader:
                    images, labels = images.to("cuda"), labels.to("cuda")
                    F.cross_entropy(model(images), labels).backward()

            train(build(), DataLoader(data, num_workers=2, collate_fn=collate))
            """,
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader

            def collate(samples):
                return torch.stack(samples).to("cuda")

            def fit(model, data, validation):
                for images in DataLoader(data, num_workers=2, collate_fn=collate):
                    model(images).sum().backward()
                for images in make_loader(validation):
                    print(model(images))
            """,
            """
            from torch.utils.data import DataLoader

            def collate(samples):
                return torch.stack(samples)

            def fit(model, data, validation):
                for images in DataLoader(data, num_workers=2, collate_fn=collate):
                    images = images.to("cuda")
                    model(images).sum().backward()
                for images in make_loader(validation):
                    print(model(images))
            """,
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader

            class Collate:
                def __init__(self, device):
                    self.device = device

                def __call__(self, samples):
                    return torch.stack(samples).to(self.device)

            def main(data, workers=2):
                device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                return DataLoader(data, num_workers=workers, collate_fn=Collate(device))

            main([torch.zeros(3)] * 8)
            """,
            at=(8, 15, 8, 51),
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader, Dataset

            class Images(Dataset):
                def __len__(self):
                    return 8

                def __getitem__(self, index):
                    return torch.full((3,), index).cuda()

            loader = DataLoader(Images(), batch_size=4, num_workers=4)
            """,
            at=(8, 15, 8, 45),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        loader = ctx.value(node)
        if not isinstance(loader, Object) or loader.type != _LOADER or loader.node is not node:
            return
        if not _has_workers(loader.arguments) or _starts_otherwise(ctx):
            return
        collate, dataset = loader.arguments.get("collate_fn", 6), loader.arguments.get("dataset", 0)
        functions = [*functions_of(collate or NONE, "__call__"), *functions_of(dataset or NONE, "__getitem__")]
        for function in functions:
            moves = [*_moves(function, ctx)]
            for move, device in moves[:1]:
                yield ctx.finding(
                    self,
                    move,
                    f"this runs in a DataLoader worker, where CUDA cannot be re-initialized; it raises{unless(device)}",
                    severity="error" if is_accelerator(device) or device == "auto" else "warning",
                    related=[("the loader with workers is created here", node)],
                    fixes=[moved_by_loop(node, moves, ctx)],
                )


def _has_workers(arguments: Arguments) -> bool:
    workers = arguments.get("num_workers", 5)
    own_start = arguments.get("multiprocessing_context", 11)
    positive = isinstance(workers, Constant) and isinstance(workers.value, int) and workers.value > 0
    return positive and own_start in (None, NONE)


def _starts_otherwise(ctx: Context) -> bool:
    """Say whether the file speaks of starting processes in another way than by a fork."""
    return any(constant.value in _OTHER_STARTS for constant in ctx.nodes(ast.Constant))


def _moves(function: FunctionNode, ctx: Context) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls that put a tensor on a GPU, or on the device that the user chooses."""
    for node in walk(function):
        if not isinstance(node, ast.Call):
            continue
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        given = next((k.value for k in node.keywords if k.arg == "device"), None)
        if method == "to" and given is None and node.args:
            given = node.args[0]
        if method == "cuda":
            yield node, "cuda"
        device = device_of(ctx, given) if given is not None else None
        if device is not None and (is_accelerator(device) or is_chosen(device)):
            yield node, device
