"""Graph classification with torch_geometric's loader, GIN layers and pooling by batch vector."""
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_add_pool


def cycle_or_star(i: int) -> Data:
    n = 5 + i % 4
    ring = torch.arange(n)
    if i % 2 == 0:
        a, b = ring, (ring + 1) % n
    else:
        a, b = torch.zeros(n - 1, dtype=torch.long), ring[1:]
    edge_index = torch.stack([torch.cat([a, b]), torch.cat([b, a])])
    return Data(x=torch.ones(n, 1) + 0.1 * torch.randn(n, 1), edge_index=edge_index, y=torch.tensor([i % 2]))


class GIN(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.convs = nn.ModuleList()
        for n_in in (1, hidden):
            mlp = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
            self.convs.append(GINConv(mlp, train_eps=True))
        self.head = nn.Linear(hidden, 2)

    def forward(self, batch):
        x = batch.x
        for conv in self.convs:
            x = torch.relu(conv(x, batch.edge_index))
        return self.head(global_add_pool(x, batch.batch, size=batch.num_graphs))


def main():
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    graphs = [cycle_or_star(i) for i in range(96)]
    train_loader = DataLoader(graphs[:64], batch_size=16, shuffle=True)
    test_loader = DataLoader(graphs[64:], batch_size=32)
    model = GIN().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()
    for _epoch in range(12):
        model.train()
        for batch in train_loader:
            batch = batch.to(device)
            optimizer.zero_grad()
            criterion(model(batch), batch.y).backward()
            optimizer.step()

    model.eval()
    correct = 0
    with torch.no_grad():
        for batch in test_loader:
            batch = batch.to(device)
            correct += int((model(batch).argmax(dim=1) == batch.y).sum())
    print(f"test accuracy {correct / len(test_loader.dataset):.3f}")


if __name__ == "__main__":
    main()
