# source: https://github.com/rballester/tntorch/pull/19
# target: optimize
# truth: every iteration appends the loss tensor itself to the history, which keeps the autograd graph of each step
#   reachable; memory grows with the number of iterations until the optimisation ends
"""Fitting of tensor trains with gradient descent."""
import time
from typing import Callable, List, Sequence, Union

import torch


class TensorTrain:
    """A tensor in the TT format: cores of shape (rank, size, rank)."""

    def __init__(self, cores: Sequence[torch.Tensor], requires_grad: bool = False):
        self.cores = [c.detach().clone().requires_grad_(requires_grad) for c in cores]

    @classmethod
    def randn(cls, shape: Sequence[int], rank: int, requires_grad: bool = False) -> "TensorTrain":
        ranks = [1] + [rank] * (len(shape) - 1) + [1]
        cores = [torch.randn(ranks[i], n, ranks[i + 1]) / rank for i, n in enumerate(shape)]
        return cls(cores, requires_grad=requires_grad)

    @property
    def shape(self):
        return tuple(c.shape[1] for c in self.cores)

    def numcoef(self) -> int:
        return sum(c.numel() for c in self.cores)

    def torch(self) -> torch.Tensor:
        result = self.cores[0]
        for core in self.cores[1:]:
            result = torch.tensordot(result, core, dims=([result.dim() - 1], [0]))
        return result.squeeze(0).squeeze(-1)


def relative_error(gt: torch.Tensor, approx: torch.Tensor) -> torch.Tensor:
    return torch.dist(gt, approx) / torch.norm(gt)


def smoothness(tensor: TensorTrain) -> torch.Tensor:
    return sum((c[:, 1:] - c[:, :-1]).pow(2).mean() for c in tensor.cores)


def _total(loss) -> torch.Tensor:
    return sum(loss) if isinstance(loss, (tuple, list)) else loss


def optimize(tensors: Union[TensorTrain, List[TensorTrain]], loss_function: Callable, optimizer=torch.optim.Adam,
             tol: float = 1e-4, max_iter: int = 200, print_freq: int = 50, lr: float = 2e-2, verbose: bool = True):
    """Minimises loss_function(*tensors) over the cores until the relative progress falls below tol."""
    if not isinstance(tensors, (list, tuple)):
        tensors = [tensors]
    parameters = [c for t in tensors for c in t.cores if c.requires_grad]
    if not parameters:
        raise ValueError("There are no parameters to optimize. Did you forget a requires_grad=True somewhere?")
    opt = optimizer(parameters, lr=lr)
    losses = []
    converged = False
    start = time.time()
    iteration = 0
    while True:
        opt.zero_grad()
        loss = _total(loss_function(*tensors))
        losses.append(loss)  # culprit
        loss.backward()
        opt.step()
        if len(losses) >= 2:
            delta_loss = losses[-1] / losses[-2] - 1
            if iteration >= 2 and tol is not None and (-tol <= delta_loss <= 0) and (losses[-2] > losses[-1]):
                converged = True
                break
        if iteration == max_iter - 1:
            break
        if verbose and iteration % print_freq == 0:
            print(f"iter: {iteration:5d} | loss: {float(losses[-1]):.6f} | total time: {time.time() - start:9.4f}")
        iteration += 1
    if verbose:
        state = "converged (tol={})".format(tol) if converged else "max_iter was reached: {}".format(max_iter)
        print(f"iter: {iteration:5d} | loss: {float(losses[-1]):.6f} <- {state}")
    return losses
