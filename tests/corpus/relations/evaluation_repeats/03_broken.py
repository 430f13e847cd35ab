import torch
from torch import nn


class SAGEConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.self_lin = nn.Linear(d_in, d_out)
        self.nbr_lin = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x, adj):
        deg = adj.sum(-1, keepdim=True).clamp(min=1)
        return self.self_lin(x) + self.nbr_lin(adj @ x / deg)


class GraphSAGE(nn.Module):
    def __init__(self, d_in, hidden, classes, dropout=0.5):
        super().__init__()
        self.conv1 = SAGEConv(d_in, hidden)
        self.conv2 = SAGEConv(hidden, classes)
        self.p = dropout

    def forward(self, x, adj):
        h = torch.relu(self.conv1(x, adj))
        h = nn.Dropout(self.p)(h)
        return self.conv2(h, adj)


def stochastic_block_model(n, p_in, p_out):
    y = torch.arange(n) % 3
    p = torch.where(y[:, None] == y[None], p_in, p_out)
    a = (torch.rand(n, n) < p).float().triu(1)
    return a + a.t(), y


torch.manual_seed(0)
adj, y = stochastic_block_model(60, 0.3, 0.05)
x = torch.randn(60, 8) + nn.functional.one_hot(y, 8).float()
train_mask = torch.rand(60) < 0.5
model = GraphSAGE(8, 16, 3)
opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(20):
    model.train()
    loss = nn.functional.cross_entropy(model(x, adj)[train_mask], y[train_mask])
    opt.zero_grad()
    loss.backward()
    opt.step()
model.eval()
with torch.no_grad():
    pred = model(x, adj).argmax(1)
print("test acc", (pred == y)[~train_mask].float().mean().item())
