"""A frozen trunk whose batch norms stay in eval mode; groups of rates; layers let go one by one."""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.stage = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.fc = nn.Linear(16, 1000)

    def forward(self, x):
        return self.fc(self.stage(self.stem(x)).mean(dim=(-2, -1)))


class Classifier(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.trunk = Trunk()
        self.trunk.fc = nn.Identity()
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(16, classes))
        self.trunk.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        for module in self.trunk.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self

    def forward(self, x):
        return self.head(self.trunk(x))

    def release(self):
        """Let the last stage of the trunk learn, but for its norms."""
        for module in self.trunk.stage.modules():
            if not isinstance(module, nn.BatchNorm2d):
                for p in module.parameters(recurse=False):
                    p.requires_grad = True


def main(epochs=2):
    torch.manual_seed(0)
    model = Classifier().to(device)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    before = model.trunk.stem[1].running_mean.clone()
    for epoch in range(epochs):
        model.train()
        if epoch == 1:
            model.release()
            released = [p for p in model.trunk.stage.parameters() if p.requires_grad]
            optimizer.add_param_group({"params": released, "lr": 1e-4, "initial_lr": 1e-4})
            scheduler.base_lrs.append(1e-4)
        for _ in range(3):
            x, y = torch.rand(4, 3, 16, 16, device=device), torch.randint(5, (4,), device=device)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
    assert torch.equal(before, model.trunk.stem[1].running_mean)
    return loss.item()


if __name__ == "__main__":
    print(main())
