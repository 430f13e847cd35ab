"""A prefetching generator: a thread fills a bounded queue, errors of the producer reach the consumer."""
import queue
import threading

import torch
from torch import nn


class Prefetcher:
    """Iterates over `source` in a thread. Left early, it stops the thread."""

    _END = object()

    def __init__(self, source, depth=2):
        self.source, self.depth = source, depth

    def __iter__(self):
        q = queue.Queue(maxsize=self.depth)
        stop = threading.Event()

        def put(item):
            while not stop.is_set():
                try:
                    q.put(item, timeout=0.1)
                    return
                except queue.Full:
                    continue

        def produce():
            try:
                for item in self.source:
                    put(item)
                    if stop.is_set():
                        return
                put(self._END)
            except Exception as error:
                put(error)

        thread = threading.Thread(target=produce, daemon=True)
        thread.start()
        try:
            while True:
                item = q.get()
                if item is self._END:
                    return
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            stop.set()
            thread.join()


def batches(n, device, seed=0):
    g = torch.Generator().manual_seed(seed)
    pin = device.type == "cuda"
    for _ in range(n):
        x = torch.randn(32, 6, generator=g)
        y = x.amax(dim=1, keepdim=True)
        if pin:
            x, y = x.pin_memory(), y.pin_memory()
        yield x.to(device, non_blocking=pin), y.to(device, non_blocking=pin)


def broken():
    yield 1
    raise ValueError("no more data")


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for i, (x, y) in enumerate(Prefetcher(batches(60, device))):
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 0:
            print(f"{i}: {loss.item():.3f}")
    try:
        list(Prefetcher(broken()))
    except ValueError as error:
        print("error came through:", error)
    for item in Prefetcher(range(100)):
        if item == 3:
            break
    print("threads left:", threading.active_count() - 1)
