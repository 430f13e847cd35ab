"""S3: a round trip through the CPU keeps the gradient; it costs two copies and a stall: a hint, never an error."""

import torch


def mean_activation(features):
    on_host = features.cpu()  # expect: DG206 hint
    mean = on_host.mean()
    return mean.cuda()


def main():
    features = torch.randn(10, requires_grad=True, device="cuda")
    loss = mean_activation(features)
    loss.backward()


if __name__ == "__main__":
    main()
