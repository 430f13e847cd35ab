"""Node classification by a GCN whose normalized adjacency is a sparse matrix; isolated nodes are safe."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def block_graph(n=60, p_in=0.25, p_out=0.02):
    y = torch.arange(n) % 3
    p = torch.where(y[:, None] == y[None, :], p_in, p_out)
    upper = (torch.rand(n, n) < p).triu(1)
    src, dst = upper.nonzero(as_tuple=True)
    return torch.stack([torch.cat([src, dst]), torch.cat([dst, src])]), y


def normalized_adjacency(edge_index, n):
    loops = torch.arange(n, device=edge_index.device).expand(2, n)
    index = torch.cat([edge_index, loops], dim=1)
    degree = torch.zeros(n, device=index.device).index_add_(0, index[1], torch.ones(index.size(1), device=index.device))
    inv = degree.rsqrt()  # the self loop makes every degree at least one
    values = inv[index[0]] * inv[index[1]]
    return torch.sparse_coo_tensor(index.flip(0), values, (n, n), check_invariants=True).coalesce()


class GCN(nn.Module):
    def __init__(self, n_in, hidden, n_out):
        super().__init__()
        self.l1, self.l2 = nn.Linear(n_in, hidden), nn.Linear(hidden, n_out)

    def forward(self, x, adj):
        x = F.relu(torch.sparse.mm(adj, self.l1(x)))
        x = F.dropout(x, p=0.3, training=self.training)
        return torch.sparse.mm(adj, self.l2(x))


edge_index, y = block_graph()
n = y.numel()
edge_index, y = edge_index.to(device), y.to(device)
features = F.one_hot(y, 3).float() + 1.5 * torch.randn(n, 3, device=device)
train_mask = torch.zeros(n, dtype=torch.bool, device=device)
train_mask[torch.randperm(n, device=device)[:20]] = True

adj = normalized_adjacency(edge_index, n)
model = GCN(3, 16, 3).to(device)
opt = torch.optim.Adam(model.parameters(), lr=2e-2, weight_decay=5e-4)
for epoch in range(80):
    model.train()
    opt.zero_grad()
    loss = F.cross_entropy(model(features, adj)[train_mask], y[train_mask])
    loss.backward()
    opt.step()
    if epoch % 20 == 19:
        model.eval()
        with torch.no_grad():
            hit = model(features, adj).argmax(1) == y
        print(f"epoch {epoch + 1}: test accuracy {hit[~train_mask].float().mean().item():.2f}")
