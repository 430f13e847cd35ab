# source: https://github.com/espnet/espnet/pull/2081
import argparse
from collections import Counter
from typing import Callable, Dict, Iterator, List, Tuple

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def read_scp(lines: List[str]) -> Dict[str, int]:
    table = {}
    for line in lines:
        key, value = line.rstrip().split(maxsplit=1)
        if key in table:
            raise RuntimeError(f"duplicated key: {key}")
        table[key] = int(value)
    return table


def load_feats(seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(6 + seed % 5, 8, generator=g)


class IterableESPnetDataset(IterableDataset):
    """Reads utterances one after the other, without random access."""

    def __init__(self, scp_lines: List[str], preprocess: Callable[[str, torch.Tensor], torch.Tensor] = None):
        self.scp_lines = scp_lines
        self.preprocess = preprocess
        self.log_workers = False

    def _describe(self) -> str:
        info = get_worker_info()
        return "main process" if info is None else f"worker {info.id}/{info.num_workers}"

    def __iter__(self) -> Iterator[Tuple[str, Dict[str, torch.Tensor]]]:
        uid_list = list(read_scp(self.scp_lines).items())
        if self.log_workers:
            print(self._describe(), "reads", len(uid_list), "utterances")
        info = get_worker_info()
        if info is not None:
            uid_list = uid_list[info.id::info.num_workers]
        count = 0
        for uid, seed in uid_list:
            feats = load_feats(seed)
            if self.preprocess is not None:
                feats = self.preprocess(uid, feats)
            count += 1
            yield uid, {"speech": feats, "target": feats.mean()}
        if count == 0:
            raise RuntimeError("No iteration")


def mean_norm(uid: str, feats: torch.Tensor) -> torch.Tensor:
    return feats - feats.mean(dim=1, keepdim=True) + 0.1


def collate(batch):
    keys = [k for k, _ in batch]
    speech = pad_sequence([d["speech"] for _, d in batch], batch_first=True)
    lengths = torch.tensor([d["speech"].size(0) for _, d in batch])
    target = torch.stack([d["target"] for _, d in batch])
    return keys, {"speech": speech, "speech_lengths": lengths, "target": target}


class Pooler(nn.Module):
    def __init__(self, dim: int = 8):
        super().__init__()
        self.proj = nn.Linear(dim, 1)

    def forward(self, speech: torch.Tensor, speech_lengths: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(speech.size(1), device=speech.device)[None] < speech_lengths[:, None]
        return (self.proj(speech).squeeze(-1) * mask).sum(1) / speech_lengths


def run(num_workers: int, epochs: int, batch_size: int) -> Counter:
    dataset = IterableESPnetDataset([f"utt{i:03d} {i}" for i in range(24)], preprocess=mean_norm)
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=num_workers, collate_fn=collate)
    model = Pooler()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = Counter()
    for _ in range(epochs):
        for keys, batch in loader:
            target = batch.pop("target")
            loss = (model(**batch) - target).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.update(keys)
    return seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    seen = run(args.num_workers, args.epochs, args.batch_size)
    print("utterances", len(seen), "samples drawn", sum(seen.values()))
