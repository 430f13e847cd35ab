# target: script
"""Prefetches batches to the device in a thread."""

import queue
import threading

import torch
from torch import nn


class Prefetcher:
    """Iterates over a loader; the next batches are prepared while the present one is used."""

    def __init__(self, loader, device, depth=2):
        self.loader = loader
        self.device = device
        self.ready = queue.Queue(maxsize=depth)

    def _produce(self):
        for batch in self.loader:
            self.ready.put(batch.to(self.device))
        self.ready.put(None)

    def __iter__(self):
        threading.Thread(target=self._produce, daemon=True).start()
        while True:
            batch = self.ready.get()
            if batch is None:
                return
            yield batch


@torch.no_grad()
def mean_score(model, loader, device):
    scores = [model(batch).mean() for batch in Prefetcher(loader, device)]
    return torch.stack(scores).mean().item()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(8, 1).to(device)
    print(mean_score(model, [torch.randn(4, 8) for _ in range(3)], device))


if __name__ == "__main__":
    main()
