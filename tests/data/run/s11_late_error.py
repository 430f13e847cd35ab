"""S11: on CUDA the index error would surface at .item(); it is reported at the gather that caused it."""

import torch


def picked(scores, index):
    values = scores.gather(1, index)  # expect: DG302
    scaled = values * 2
    return scaled.sum().item()


if __name__ == "__main__":
    picked(torch.randn(4, 3, device="cuda"), torch.tensor([[0], [1], [7], [2]], device="cuda"))
