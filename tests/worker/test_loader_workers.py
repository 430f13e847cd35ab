"""A loader's workers run in the run's own process, and see what workers see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_client import WorkerClient, plan

NOTE = "no DataLoader worker processes were started; the dataset ran in this process"


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerClient]:
    with WorkerClient() as client:
        client.receive("ready")
        yield client


MAPPED = """\
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
class Data(Dataset):
    def __len__(self):
        return 5
    def __getitem__(self, i):
        info = get_worker_info()
        return torch.tensor([i, info.id, info.num_workers])
loader = DataLoader(Data(), 2, num_workers=3, persistent_workers=True, prefetch_factor=4, timeout=10,
                    multiprocessing_context="spawn")
for _ in range(2):
    print([batch.tolist() for batch in loader])
print(loader.num_workers, get_worker_info())
"""
STREAMS = """\
import random
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
class Stream(IterableDataset):
    begin, end = 0, 8
    def __iter__(self):
        return iter(range(self.begin, self.end))
def init(worker):
    info = get_worker_info()
    assert (info.id, info.num_workers, info.seed) == (worker, 2, torch.initial_seed())
    info.dataset.begin, info.dataset.end = worker * 4, worker * 4 + 4
    random.seed(info.seed)
stream = Stream()
before = random.getstate()
batches = iter(DataLoader(stream, batch_size=3, num_workers=2, worker_init_fn=init))
print([next(batches).tolist() for _ in range(2)], stream.end, random.getstate() == before)
"""
SHARDED = """\
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        yield from range(info.id, 6, info.num_workers)
print([batch.tolist() for batch in DataLoader(Stream(), batch_size=2, num_workers=2)])
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MAPPED, "[[[0, 0, 3], [1, 0, 3]], [[2, 0, 3], [3, 0, 3]], [[4, 0, 3]]]\n" * 2 + "3 None\n"),
        (STREAMS, "[[0, 1, 2], [4, 5, 6]] 8 True\n"),
        (SHARDED, "[[0, 2], [1, 3], [4], [5]]\n"),
    ],
    ids=["mapped", "streams", "sharded"],
)
def test_what_workers_see_and_give(worker: WorkerClient, tmp_path: Path, text: str, said: str) -> None:
    result = worker.run(plan(tmp_path, text, loop_limit=8))
    assert (result["outcome"], result["output"]["text"]) == ("passed", said), result
    assert NOTE in result["notes"]


def test_a_wrong_function_of_workers_is_told(worker: WorkerClient, tmp_path: Path) -> None:
    text = "import torch\nfrom torch.utils.data import DataLoader\ndef init():\n    pass\n"
    text += "for batch in DataLoader([1, 2], num_workers=1, worker_init_fn=init):\n    print(batch)\n"
    result = worker.run(plan(tmp_path, text))
    assert [(f["code"], f["at"]["line"]) for f in result["faults"]] == [("DG907", 5)]


ALONE = """\
from torch.utils.data import DataLoader, get_worker_info
class Data:
    def __len__(self):
        return 1
    def __getitem__(self, i):
        return str(get_worker_info())
print(*DataLoader(Data()))
"""


def test_a_loader_without_workers_has_none(worker: WorkerClient, tmp_path: Path) -> None:
    result = worker.run(plan(tmp_path, ALONE))
    assert (result["output"]["text"], NOTE in result["notes"]) == ("['None']\n", False)
