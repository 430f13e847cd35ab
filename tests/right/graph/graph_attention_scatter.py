"""A graph attention layer whose softmax over incoming edges is made of scatter_reduce."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def edge_softmax(scores, dst, n):
    """scores (E, H): softmax over the edges that share a target."""
    index = dst.unsqueeze(1).expand_as(scores)
    top = torch.full((n, scores.size(1)), float("-inf"), device=scores.device, dtype=scores.dtype)
    top = top.scatter_reduce(0, index, scores.detach(), reduce="amax")
    shifted = (scores - top[dst]).exp()
    total = torch.zeros_like(top).scatter_add(0, index, shifted)
    return shifted / total[dst]  # each target on an edge has a term exp(0) = 1


class GATLayer(nn.Module):
    def __init__(self, n_in, n_out, heads, concat=True):
        super().__init__()
        self.heads, self.n_out, self.concat = heads, n_out, concat
        self.lin = nn.Linear(n_in, heads * n_out, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, n_out))
        self.att_dst = nn.Parameter(torch.empty(1, heads, n_out))
        nn.init.xavier_uniform_(self.att_src)
        nn.init.xavier_uniform_(self.att_dst)

    def forward(self, x, edge_index):
        src, dst = edge_index
        h = self.lin(x).view(-1, self.heads, self.n_out)
        score = (h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst]
        alpha = edge_softmax(F.leaky_relu(score, 0.2), dst, x.size(0))
        out = torch.zeros_like(h).index_add(0, dst, h[src] * alpha.unsqueeze(-1))
        return out.flatten(1) if self.concat else out.mean(dim=1)


class GAT(nn.Module):
    def __init__(self, n_in, classes):
        super().__init__()
        self.first = GATLayer(n_in, 8, heads=4)
        self.second = GATLayer(32, classes, heads=2, concat=False)

    def forward(self, x, edge_index):
        return self.second(F.elu(self.first(x, edge_index)), edge_index)


def ring_of_cliques(cliques, size, device):
    blocks = torch.block_diag(*[torch.ones(size, size)] * cliques)  # with self loops
    for c in range(cliques):
        a, b = c * size, ((c + 1) % cliques) * size
        blocks[a, b] = blocks[b, a] = 1
    return blocks.nonzero().t().to(device), torch.arange(cliques, device=device).repeat_interleave(size)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    edge_index, y = ring_of_cliques(4, 8, device)
    x = F.one_hot(y, 4).float() + torch.randn(32, 4, device=device)
    alpha = edge_softmax(torch.randn(edge_index.size(1), 2, device=device), edge_index[1], 32)
    sums = torch.zeros(32, 2, device=device).index_add_(0, edge_index[1], alpha)
    torch.testing.assert_close(sums, torch.ones_like(sums))

    model = GAT(4, 4).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    labelled = torch.arange(32, device=device) % 8 < 3
    for epoch in range(60):
        opt.zero_grad()
        loss = F.cross_entropy(model(x, edge_index)[labelled], y[labelled])
        loss.backward()
        opt.step()
        if epoch % 20 == 0:
            print(f"{epoch}: {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        hit = model(x, edge_index).argmax(1) == y
    print(f"accuracy on the rest {hit[~labelled].float().mean().item():.2f}")


if __name__ == "__main__":
    main()
