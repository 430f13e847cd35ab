# source: https://github.com/jeshraghian/snntorch/issues/250
# target: script
# truth: the membrane potentials live in the neurons and are not reset before a new batch, so the second batch goes on
#   in the graph of the first and its backward raises "Trying to backward through the graph a second time"
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class FastSigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, mem, slope):
        ctx.save_for_backward(mem)
        ctx.slope = slope
        return (mem > 0).to(mem.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (mem,) = ctx.saved_tensors
        return grad_output / (ctx.slope * mem.abs() + 1.0) ** 2, None


class Leaky(nn.Module):
    """Leaky integrate-and-fire neuron that keeps its membrane potential between calls."""

    def __init__(self, beta=0.9, threshold=1.0, slope=25.0, output=False):
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(beta))
        self.threshold = threshold
        self.slope = slope
        self.output = output
        self.mem = None

    def reset_hidden(self):
        self.mem = None

    def forward(self, current):
        if self.mem is None or self.mem.shape != current.shape:
            self.mem = torch.zeros_like(current)
        reset = (self.mem > self.threshold).to(current.dtype).detach() * self.threshold
        self.mem = self.beta.clamp(0, 1) * self.mem + current - reset
        spk = FastSigmoid.apply(self.mem - self.threshold, self.slope)
        return (spk, self.mem) if self.output else spk


def reset(net):
    for layer in net.modules():
        if isinstance(layer, Leaky):
            layer.reset_hidden()


class SpikingCNN(nn.Module):
    def __init__(self, num_steps=6, num_classes=4):
        super().__init__()
        self.num_steps = num_steps
        self.net = nn.Sequential(
            nn.Conv2d(1, 6, 5), nn.MaxPool2d(2), Leaky(),
            nn.Flatten(), nn.Linear(6 * 4 * 4, num_classes), Leaky(output=True),
        )

    def forward(self, x):
        spk_rec, mem_rec = [], []
        for _ in range(self.num_steps):  # culprit
            spk, mem = self.net(x)
            spk_rec.append(spk)
            mem_rec.append(mem)
        return torch.stack(spk_rec), torch.stack(mem_rec)


def batch_accuracy(spk_rec, targets):
    return (spk_rec.sum(dim=0).argmax(dim=1) == targets).float().mean()


def train(model, loader, optimizer, loss_fn, device, num_epochs=2):
    for epoch in range(num_epochs):
        model.train()
        total, acc = 0.0, 0.0
        for data, targets in loader:
            data, targets = data.to(device), targets.to(device)
            spk_rec, mem_rec = model(data)
            loss = torch.zeros(1, device=device)
            for step in range(model.num_steps):
                loss = loss + loss_fn(mem_rec[step], targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            acc += batch_accuracy(spk_rec, targets).item()
        print(f"Epoch {epoch}: loss {total / len(loader):.3f} acc {acc / len(loader):.2f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    images, labels = torch.rand(24, 1, 12, 12), torch.randint(0, 4, (24,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True, drop_last=True)
    model = SpikingCNN().to(device)
    reset(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.999))
    train(model, loader, optimizer, nn.CrossEntropyLoss(), device)
