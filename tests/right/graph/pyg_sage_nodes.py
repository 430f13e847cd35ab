"""GraphSAGE with torch_geometric on a stochastic block graph."""
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import stochastic_blockmodel_graph


class SAGE(torch.nn.Module):
    def __init__(self, in_channels, hidden_channels, out_channels):
        super().__init__()
        self.conv1 = SAGEConv(in_channels, hidden_channels)
        self.conv2 = SAGEConv(hidden_channels, out_channels)

    def forward(self, x, edge_index):
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(x, p=0.2, training=self.training)
        return self.conv2(x, edge_index)


def make_data():
    sizes = [30, 30, 30]
    probs = [[0.2 if i == j else 0.02 for j in range(3)] for i in range(3)]
    edge_index = stochastic_blockmodel_graph(sizes, probs)
    y = torch.arange(3).repeat_interleave(30)
    x = F.one_hot(y, 3).float() + torch.randn(90, 3)
    train_mask = torch.zeros(90, dtype=torch.bool)
    train_mask[::4] = True
    return Data(x=x, edge_index=edge_index, y=y, train_mask=train_mask, test_mask=~train_mask)


def train(model, data, optimizer):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def test(model, data, mask):
    model.eval()
    pred = model(data.x, data.edge_index).argmax(dim=-1)
    return (pred[mask] == data.y[mask]).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = make_data().to(device)
    model = SAGE(3, 16, 3).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    for epoch in range(1, 61):
        loss = train(model, data, optimizer)
        if epoch % 20 == 0:
            print(f"epoch {epoch:02d}: loss {loss.item():.3f}, test {test(model, data, data.test_mask):.2f}")
