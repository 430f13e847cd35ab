"""Torch's compiler stays away from what merely breaks graphs for it, and comes to whoever asks for more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from simulated import Simulated

from drygrad.worker.modules import needs_compiler

BEGIN = """
from drygrad.worker import idle_compiler
idle_compiler.install()
net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 1))
"""
TRAIN = """
for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
    optimizer = kind(net.parameters(), lr=0.1)
    before = [parameter.detach().clone() for parameter in net.parameters()]
    net(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
    moved = all(bool((old != new).any()) for old, new in zip(before, net.parameters()))
"""


@pytest.fixture(scope="module")
def process() -> Iterator[Simulated]:
    process = Simulated(enable=False)
    yield process
    process.close()


def test_training_does_without(process: Simulated) -> None:
    asleep = process.outcome(f"{BEGIN}{TRAIN}\nresult = [moved, idle_compiler.is_awake()]")
    assert asleep.result == [True, False], asleep.trace


CHECKPOINT = """
from torch.utils.checkpoint import checkpoint
checkpoint(net, torch.randn(2, 4, requires_grad=True), use_reentrant=False).sum().backward()
asleep, settings = not idle_compiler.is_awake(), torch._dynamo.config
import torch._dynamo.utils
result = [asleep, torch._dynamo.config is settings, idle_compiler.is_awake()]
"""


@pytest.mark.slow
def test_a_checkpoint_reads_settings_that_the_compiler_finds_later(process: Simulated) -> None:
    told = process.outcome(BEGIN + CHECKPOINT)
    assert told.result == [True, True, True], told.trace


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        "import torch._dynamo.config as config\nfound = config.verbose",
        "from torch._dynamo import config, utils\nfound = config.verbose or torch._dynamo.config is not config",
    ],
    ids=["a part of it", "its settings and more"],
)
def test_who_asks_for_more_gets_the_compiler(process: Simulated, asked: str) -> None:
    told = process.outcome(
        f"{BEGIN}{asked}\nimport sys\n"
        "same = sys.modules['torch._dynamo'] is torch._dynamo and not hasattr(type(torch._dynamo), 'graph_break')\n"
        "result = [found, idle_compiler.is_awake(), same]"
    )
    assert told.result == [False, True, True], told.trace


USES_COMPILER = {
    "a function of torch": "import torch\nnet = torch.compile(net)",
    "a decorator, torch under another name": "import torch as th\n@th.compile\ndef f(x):\n    return x",
    "a module in full": "import torch.utils.checkpoint\ny = torch.utils.checkpoint.checkpoint(f, x)",
    "a module under another name": "import torch.utils.checkpoint as cp\ny = cp.checkpoint(f, x)",
    "a name of a module": "from torch.distributed.fsdp import fully_shard as shard",
    "a part of an imported module": "from torch import nn\ny = nn.attention.flex_attention.flex_attention(q, k, v)",
    "a method of a model": "net.compile()",
}
USES_NONE = {
    "a word of a text": "import torch\nraise RuntimeError('Torch not compiled with CUDA enabled')",
    "a comment": "import torch  # save a checkpoint",
    "a pattern": "import re\nimport torch\npattern = re.compile('a')",
    "the program's own names": "import torch\ndef save_checkpoint(args, func):\n    func(args.profile)",
    "the parent of a module": "from torch.utils import data",
    "what does not parse": "import torch\ntorch.compile(",
}


@pytest.mark.parametrize("case", [*USES_COMPILER, *USES_NONE])
def test_it_is_imported_ahead_for_what_uses_it(case: str) -> None:
    assert needs_compiler({"text": {**USES_COMPILER, **USES_NONE}[case]}) == (case in USES_COMPILER)


def test_it_is_imported_ahead_for_the_program_that_calls_the_target() -> None:
    program = {"text": USES_COMPILER["a function of torch"]}
    assert needs_compiler({"text": USES_NONE["a comment"], "program": program})
