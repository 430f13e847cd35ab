"""S17: a retry inside the handler keeps the failed graph alive through the exception's traceback."""

import gc

import torch


def train_step(model, batch):
    try:
        return model(batch).sum()
    except RuntimeError as error:
        if "CUDA out of memory" not in str(error):
            raise
        gc.collect()
        torch.cuda.empty_cache()
        return model(batch[: len(batch) // 2]).sum()  # expect: DG711


def train_step_rightly(model, batch):
    try:
        return model(batch).sum()
    except torch.OutOfMemoryError:
        pass
    torch.cuda.empty_cache()
    return model(batch[: len(batch) // 2]).sum()
