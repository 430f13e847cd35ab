"""S10: a lock that its own holder waits for."""

import threading

import torch

lock = threading.Lock()


# dry-run: x=torch.ones(4, device="cuda", requires_grad=True)
def guarded(x):
    with lock:
        lock.acquire()  # expect: DG604
        return x.sum()
