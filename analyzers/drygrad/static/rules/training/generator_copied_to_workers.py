"""Rule DG731: a dataset's generator of random numbers, of which each worker gets a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Class
from drygrad.static.loaders import dataset_of, has_several_workers, loader_made_by, names_used, used_by
from drygrad.static.tree import walk

_GENERATORS = frozenset(
    {
        "numpy.random.default_rng",
        "numpy.random.RandomState",
        "numpy.random.Generator",
        "random.Random",
        "torch.Generator",
    }
)


class GeneratorCopiedToWorkers(Rule):
    """
    ## What it does
    Finds datasets that hold their own generator (`self.rng = np.random.default_rng(seed)`) and draw from it for each
    sample, in a file whose `DataLoader` uses several workers.

    ## Why is this bad?
    Each worker gets a copy of the dataset, including the state of the generator: all workers draw the same numbers, so
    each crop, flip or noise occurs as often as there are workers. Unless workers are persistent, every epoch also
    starts with the same numbers again. The DataLoader seeds torch's generator, and the global one of NumPy, differently
    in each worker, but not a generator held by an object.

    ## Example
    ```python
    class Crops(Dataset):
        def __init__(self, images, seed):
            self.images = images
            self.rng = np.random.default_rng(seed)

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            return crop(self.images[index], self.rng.integers(32))


    loader = DataLoader(Crops(images, seed=0), num_workers=4)
    ```
    Use instead:
    ```python
    class Crops(Dataset):
        def __init__(self, images):
            self.images = images

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            return crop(self.images[index], torch.randint(32, ()).item())


    loader = DataLoader(Crops(images), num_workers=4)
    ```

    ## Fix safety
    No fix: how to seed each worker is your choice.
    """

    code, name, since = "DG731", "generator-copied-to-workers", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            import numpy as np
            from torch.utils.data import DataLoader, Dataset

            class Noisy(Dataset):
                def __init__(self, data, seed=0):
                    self.data = data
                    self.rng = np.random.default_rng(seed)

                def __len__(self):
                    return len(self.data)

                def __getitem__(self, index):
                    return self.data[index] + self.rng.normal()

            class Shuffled(Dataset):
                def __init__(self, data, seed=0):
                    self.data = data
                    self.rng = np.random.default_rng(seed)
                    self.order = self.rng.permutation(len(data))

                def __len__(self):
                    return len(self.data)

                def __getitem__(self, index):
                    return self.data[self.order[index]]

            def reseed(worker):
                torch.utils.data.get_worker_info().dataset.rng = np.random.default_rng(worker)

            def loaders(data):
                yield DataLoader(Noisy(data), batch_size=4)
                yield DataLoader(Noisy(data), batch_size=4, num_workers=2, worker_init_fn=reseed)
                yield DataLoader(Shuffled(data), batch_size=4, num_workers=2)
            """
        ),
        Valid(
            """
            import random
            from torch.utils.data import DataLoader, Dataset

            class Noisy(Dataset):
                def __init__(self, data, seed=0):
                    self.data, self.seed = data, seed

                def __len__(self):
                    return len(self.data)

                def __getitem__(self, index):
                    return self.data[index] + random.Random(self.seed + index).random()

            loader = DataLoader(Noisy(torch.ones(8)), batch_size=4, num_workers=2)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import numpy as np
            from torch.utils.data import DataLoader, Dataset

            class Crops(Dataset):
                def __init__(self, images, seed=0):
                    self.images = images
                    self.rng = np.random.default_rng(seed)

                def __len__(self):
                    return len(self.images)

                def corner(self):
                    return self.rng.integers(0, 16, 2)

                def __getitem__(self, index):
                    y, x = self.corner()
                    return self.images[index][:, y : y + 16, x : x + 16]

            def main(images):
                loader = DataLoader(Crops(images), batch_size=4, shuffle=True, num_workers=4)
                for batch in loader:
                    print(batch.shape)
            """,
            at=(7, 8, 7, 46),
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader, Dataset

            class Noisy(Dataset):
                def __init__(self, data):
                    self.data = data
                    self.generator = torch.Generator()
                    self.generator.manual_seed(0)

                def __len__(self):
                    return len(self.data)

                def __getitem__(self, index):
                    return self.data[index] + torch.randn(3, generator=self.generator)

            loader = DataLoader(Noisy(torch.ones(8, 3)), num_workers=2)
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        loader = loader_made_by(node, ctx)
        if loader is None or not has_several_workers(loader.arguments):
            return
        cls = dataset_of(loader.arguments)
        if cls is None or any("worker" in name for name in names_used(cls)):
            return
        drawn = {
            part.attr for method in ("__getitem__", "__iter__") for f in used_by(cls, method) for part in _attributes(f)
        }
        for name, statement in _held(cls, ctx):
            if name in drawn:
                message = f"each worker gets a copy of self.{name}; all workers draw the same numbers in every epoch"
                yield ctx.finding(self, statement, message, related=[("the loader with workers is created here", node)])


def _held(cls: Class, ctx: Context) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the attributes that ``__init__`` binds to generators, with the statement."""
    for function in used_by(cls, "__init__"):
        if function.name != "__init__":
            continue
        for node in walk(function):
            match node:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Call() as made
                ) if _is_generator(made, ctx):
                    yield name, node
                case _:
                    pass


def _is_generator(made: ast.Call, ctx: Context) -> bool:
    match made.func:
        case ast.Attribute(value=ast.Call() as inner, attr="manual_seed"):
            return _is_generator(inner, ctx)
        case _:
            return _full_name(made, ctx) in _GENERATORS


def _full_name(made: ast.Call, ctx: Context) -> str | None:
    value = ctx.value(made)
    return ctx.name(made.func) or getattr(value, "type", None)


def _attributes(function: ast.AST) -> Iterator[ast.Attribute]:
    for node in walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node
