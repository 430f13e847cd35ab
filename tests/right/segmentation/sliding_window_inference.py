"""Sliding-window inference with a Gaussian importance map; windows cover every pixel, so weights are positive."""
import torch
import torch.nn as nn
from torch.nn import functional as F


def gaussian_window(size, device, sigma=0.25):
    axis = torch.linspace(-1, 1, size, device=device)
    g = torch.exp(-0.5 * (axis / (2 * sigma)) ** 2)
    return (g[:, None] * g[None, :]).clamp_min(1e-3)


def starts(length, window, stride):
    last = length - window
    positions = list(range(0, last + 1, stride))
    if positions[-1] != last:
        positions.append(last)
    return positions


@torch.inference_mode()
def predict_large(model, image, window=16, overlap=0.5, batch=8):
    """image (C, H, W), at least one window large in both directions."""
    model.eval()
    stride = max(1, int(window * (1 - overlap)))
    corners = [(y, x) for y in starts(image.size(1), window, stride) for x in starts(image.size(2), window, stride)]
    weight = gaussian_window(window, image.device)
    out = norm = None
    for i in range(0, len(corners), batch):
        chunk = corners[i : i + batch]
        tiles = torch.stack([image[:, y : y + window, x : x + window] for y, x in chunk])
        logits = model(tiles)
        if out is None:
            out = logits.new_zeros(logits.size(1), *image.shape[1:])
            norm = logits.new_zeros(*image.shape[1:])
        for (y, x), tile in zip(chunk, logits):
            out[:, y : y + window, x : x + window] += tile * weight
            norm[y : y + window, x : x + window] += weight
    return out / norm


def texture(h, w, device):
    target = torch.zeros(h, w, dtype=torch.long, device=device)
    target[:, w // 2 :] = 1
    image = torch.randn(1, h, w, device=device) * (0.2 + target)
    return image, target


def train(model, device, steps=40):
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    model.train()
    for _ in range(steps):
        images, targets = zip(*(texture(16, 16, device) for _ in range(4)))
        loss = F.cross_entropy(model(torch.stack(images)), torch.stack(targets))
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(3, 1, 1), nn.Conv2d(8, 2, 1)).to(device)
    print(f"last training loss {train(net, device):.3f}")
    image, target = texture(37, 50, device)
    pred = predict_large(net, image).argmax(0)
    print(f"accuracy on the large image {(pred == target).float().mean().item():.3f}")
