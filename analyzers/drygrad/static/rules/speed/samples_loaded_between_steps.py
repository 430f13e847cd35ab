"""Rule DG619: files that are read and decoded while the GPU waits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.values import NONE, Class, Constant
from drygrad.static.loaders import dataset_of, loader_made_by, used_by, workers_of
from drygrad.static.loops import is_guarded, trains
from drygrad.static.syntax import nodes_within

_DECODERS = frozenset(
    {
        "PIL.Image.open",
        "cv2.imread",
        "imageio.imread",
        "imageio.v2.imread",
        "imageio.v3.imread",
        "skimage.io.imread",
        "torchvision.io.read_image",
        "torchvision.io.image.read_image",
        "torchvision.io.read_video",
        "torchaudio.load",
        "librosa.load",
        "soundfile.read",
        "scipy.io.wavfile.read",
        "nibabel.load",
        "pydicom.dcmread",
        "rasterio.open",
        "h5py.File",
        "torch.load",
        "numpy.load",
    }
)
_CUDA = re.compile(r"\.cuda\(|[\"']cuda(:\d+)?[\"']|\bis_available\b")


class SamplesLoadedBetweenSteps(Rule):
    """
    ## What it does
    Finds a shuffling `DataLoader` without `num_workers` in a file that trains on a GPU, if the dataset reads and
    decodes a file per sample.

    ## Why is this bad?
    With `num_workers=0` the training process reads, decodes and augments all samples of a batch between two steps,
    while the GPU is idle. Workers prepare the next batches during the current step.

    ## Example
    ```python
    class Photos(Dataset):
        def __init__(self, files):
            self.files = files

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            return torch.from_numpy(np.load(self.files[index]))


    loader = DataLoader(Photos(files), batch_size=64, shuffle=True)
    for x in loader:
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        optimizer.step()
    ```
    Use instead:
    ```python
    class Photos(Dataset):
        def __init__(self, files):
            self.files = files

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            return torch.from_numpy(np.load(self.files[index]))


    loader = DataLoader(Photos(files), batch_size=64, shuffle=True, num_workers=4)
    for x in loader:
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: the dataset is copied to other processes, and random numbers are drawn there.
    """

    code, name, since = "DG619", "samples-loaded-between-steps", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            import numpy as np
            from PIL import Image
            from torch.utils.data import DataLoader, Dataset

            class Photos(Dataset):
                def __init__(self, files):
                    self.files = files

                def __len__(self):
                    return len(self.files)

                def __getitem__(self, index):
                    return torch.from_numpy(np.array(Image.open(self.files[index])))

            class Held(Dataset):
                def __init__(self, files):
                    self.images = [np.array(Image.open(file)) for file in files]

                def __len__(self):
                    return len(self.images)

                def __getitem__(self, index):
                    return torch.from_numpy(self.images[index])

            def main(files, workers):
                model = nn.Linear(4, 2).cuda()
                check = DataLoader(Photos(files), batch_size=8)
                held = DataLoader(Held(files), batch_size=8, shuffle=True)
                for x in DataLoader(Photos(files), batch_size=8, shuffle=True, num_workers=workers):
                    model(x.cuda()).sum().backward()
                return check, held
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import numpy as np
            from PIL import Image
            from torch.utils.data import DataLoader, Dataset

            class Photos(Dataset):
                def __init__(self, files):
                    self.files = files

                def __len__(self):
                    return len(self.files)

                def image(self, index):
                    return Image.open(self.files[index]).convert("RGB")

                def __getitem__(self, index):
                    return torch.from_numpy(np.array(self.image(index)))

            def main(files):
                model = nn.Linear(4, 2).cuda()
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                loader = DataLoader(Photos(files), batch_size=64, shuffle=True)
                for x in loader:
                    loss = model(x.cuda()).sum()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            """
            import numpy as np
            from PIL import Image
            from torch.utils.data import DataLoader, Dataset

            class Photos(Dataset):
                def __init__(self, files):
                    self.files = files

                def __len__(self):
                    return len(self.files)

                def image(self, index):
                    return Image.open(self.files[index]).convert("RGB")

                def __getitem__(self, index):
                    return torch.from_numpy(np.array(self.image(index)))

            def main(files):
                model = nn.Linear(4, 2).cuda()
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                loader = DataLoader(Photos(files), batch_size=64, shuffle=True, num_workers=4)
                for x in loader:
                    loss = model(x.cuda()).sum()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            at=(21, 13, 21, 67),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        loader = loader_made_by(node, ctx)
        if loader is None or workers_of(loader.arguments) != 0 or not ctx.derived(_trains_on_gpu):
            return
        shuffles = loader.arguments.get("shuffle", 2) == Constant(True)
        if not shuffles and loader.arguments.get("sampler", 3) in (None, NONE):
            return
        cls = dataset_of(loader.arguments)
        reading = next(_readings(cls, ctx), None) if cls is not None else None
        if reading is not None:
            message = "files are loaded in the training process between steps, so the GPU waits; use num_workers"
            related = [("this runs for every sample", reading)]
            yield ctx.finding(self, node, message, related=related, fixes=[_fix(node, ctx)])


def _readings(cls: Class, ctx: Context) -> Iterator[ast.Call]:
    """Yield the calls that read a file for each sample."""
    for function in used_by(cls, "__getitem__"):
        if function.decorator_list:
            continue
        for call in nodes_within(function):
            if not isinstance(call, ast.Call) or is_guarded(call, function, ctx):
                continue
            if (ctx.name(call.func) or getattr(ctx.value(call), "type", None)) in _DECODERS:
                yield call


def _trains_on_gpu(ctx: Context) -> bool:
    loops = (loop for kind in (ast.For, ast.While) for loop in ctx.nodes(kind))
    return ctx.mentions(_CUDA) and any(trains(loop) for loop in loops)


def _fix(loader: ast.Call, ctx: Context) -> Fix | None:
    return ctx.fix("Set `num_workers=4`", with_keyword(ctx, loader, "num_workers", "4"))
