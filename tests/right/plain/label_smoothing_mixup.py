"""Mixup with soft targets and label smoothing on Gaussian blobs."""
import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_CLASSES = 3
ALPHA = 0.4
SMOOTHING = 0.1


def smooth_one_hot(labels, num_classes=NUM_CLASSES, eps=SMOOTHING):
    soft = torch.full((labels.size(0), num_classes), eps / num_classes, device=labels.device)
    soft.scatter_(1, labels.unsqueeze(1), 1 - eps + eps / num_classes)
    return soft


def mixup(x, soft, beta):
    lam = beta.sample((x.size(0), 1))
    perm = torch.randperm(x.size(0), device=x.device)
    return lam * x + (1 - lam) * x[perm], lam * soft + (1 - lam) * soft[perm]


def soft_cross_entropy(logits, soft):
    return -(soft * F.log_softmax(logits, dim=1)).sum(dim=1).mean()


def blobs(n, centers):
    y = torch.randint(NUM_CLASSES, (n,), device=centers.device)
    return centers[y] + 0.7 * torch.randn(n, centers.size(1), device=centers.device), y


def main():
    torch.manual_seed(4)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    centers = torch.randn(NUM_CLASSES, 6, device=device) * 1.5
    net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, NUM_CLASSES)).to(device)
    optim = torch.optim.Adam(net.parameters(), lr=5e-3)
    beta = torch.distributions.Beta(*torch.full((2,), ALPHA, device=device))

    for step in range(150):
        x, y = blobs(48, centers)
        mixed_x, mixed_y = mixup(x, smooth_one_hot(y), beta)
        loss = soft_cross_entropy(net(mixed_x), mixed_y)
        optim.zero_grad()
        loss.backward()
        optim.step()
        if step % 50 == 0:
            print(f"step {step:3d}  mixup loss {loss.item():.3f}")

    net.eval()
    with torch.no_grad():
        x, y = blobs(300, centers)
        logits = net(x)
        by_hand = soft_cross_entropy(logits, smooth_one_hot(y))
        built_in = F.cross_entropy(logits, y, label_smoothing=SMOOTHING)
        acc = (logits.argmax(1) == y).float().mean()
    torch.testing.assert_close(by_hand, built_in)
    print(f"accuracy {acc.item():.3f}, smoothed loss {built_in.item():.3f}")


if __name__ == "__main__":
    main()
