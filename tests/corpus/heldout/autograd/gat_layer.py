# target: script
# truth: Attention weights coming from softmax are multiplied in place by the edge weights; softmax's backward needs
#   its output, so loss.backward() raises "one of the variables needed for gradient computation has been modified by an inplace operation".
"""Dense graph attention for small molecules (node regression)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseGAT(nn.Module):
    def __init__(self, in_dim, out_dim, heads=4):
        super().__init__()
        assert out_dim % heads == 0
        self.heads, self.dk = heads, out_dim // heads
        self.lin = nn.Linear(in_dim, out_dim, bias=False)
        self.att_src = nn.Parameter(torch.empty(heads, self.dk))
        self.att_dst = nn.Parameter(torch.empty(heads, self.dk))
        nn.init.xavier_uniform_(self.att_src)
        nn.init.xavier_uniform_(self.att_dst)

    def attention(self, h, adj):
        src = (h * self.att_src).sum(-1)  # (N, H)
        dst = (h * self.att_dst).sum(-1)
        scores = F.leaky_relu(src.unsqueeze(1) + dst.unsqueeze(0), 0.2)  # (N, N, H)
        scores = scores.masked_fill(adj.unsqueeze(-1) == 0, float("-inf"))
        return torch.softmax(scores, dim=1)

    def forward(self, x, adj, edge_weight):
        h = self.lin(x).view(-1, self.heads, self.dk)
        alpha = self.attention(h, adj)
        alpha *= edge_weight.unsqueeze(-1)  # error: DG101
        out = torch.einsum("ijh,jhd->ihd", alpha, h)
        return out.flatten(1)


class MolNet(nn.Module):
    def __init__(self, in_dim=16, hidden=32):
        super().__init__()
        self.g1 = DenseGAT(in_dim, hidden)
        self.g2 = DenseGAT(hidden, hidden)
        self.readout = nn.Linear(hidden, 1)

    def forward(self, x, adj, w):
        x = F.elu(self.g1(x, adj, w))
        x = F.elu(self.g2(x, adj, w))
        return self.readout(x).squeeze(-1)


def random_molecule(n=20):
    adj = (torch.rand(n, n) < 0.2).float()
    adj = ((adj + adj.T) > 0).float()
    adj.fill_diagonal_(1.0)
    dist = torch.rand(n, n) * 3
    return torch.randn(n, 16), adj, torch.exp(-dist) * adj, torch.randn(n)


def main():
    torch.manual_seed(1)
    net = MolNet()
    optim = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for it in range(20):
        x, adj, w, charge = random_molecule()
        loss = F.smooth_l1_loss(net(x, adj, w), charge)
        optim.zero_grad()
        loss.backward()
        optim.step()
        if it % 10 == 0:
            print(it, loss.item())


main()
