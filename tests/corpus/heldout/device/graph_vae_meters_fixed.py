# target: script
# source: https://github.com/wengong-jin/hgraph2graph/issues/40
# truth: none, the repaired twin of graph_vae_meters.py
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
torch.manual_seed(17)

n_nodes, n_types, latent = 8, 5, 12


def random_graphs(n):
    """adjacency (n, N, N) and node types (n, N); types depend on the degree"""
    p = torch.rand(n, 1, 1) * 0.6 + 0.2
    upper = (torch.rand(n, n_nodes, n_nodes) < p).float().triu(1)
    adj = upper + upper.transpose(1, 2)
    types = adj.sum(-1).long().clamp(max=n_types - 1)
    return adj, types


class GraphVAE(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.emb = nn.Embedding(n_types, width)
        self.msg = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.mu = nn.Linear(width, latent)
        self.logvar = nn.Linear(width, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 64), nn.ReLU())
        self.dec_adj = nn.Linear(64, n_nodes * n_nodes)
        self.dec_types = nn.Linear(64, n_nodes * n_types)

    def encode(self, adj, types):
        h = self.emb(types)
        for lin in self.msg:
            h = torch.relu(lin(h + adj @ h / n_nodes))
        g = h.mean(1)
        return self.mu(g), self.logvar(g)

    def forward(self, adj, types, beta):
        mu, logvar = self.encode(adj, types)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        h = self.dec(z)
        a = self.dec_adj(h).view(-1, n_nodes, n_nodes)
        t = self.dec_types(h).view(-1, n_nodes, n_types)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        rec_a = F.binary_cross_entropy_with_logits(a, adj)
        rec_t = F.cross_entropy(t.flatten(0, 1), types.flatten())
        edge_acc = ((a > 0).float() == adj).float().mean()
        node_acc = (t.argmax(-1) == types).float().mean()
        return rec_a + rec_t + beta * kl, kl, edge_acc, node_acc


model = GraphVAE().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
adj, types = random_graphs(512)
meters = np.zeros(4)
beta, total_step = 0.0, 0

for epoch in range(3):
    for idx in torch.randperm(512).split(32):
        total_step += 1
        loss, kl, eacc, nacc = model(adj[idx].to(device), types[idx].to(device), beta)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

        meters = meters + np.array([loss.item(), kl.item(), eacc.item() * 100, nacc.item() * 100])

        if total_step % 16 == 0:
            meters /= 16
            print('[%d] loss %.3f kl %.3f edge %.2f node %.2f' % (total_step, *meters))
            meters = np.zeros(4)
            beta = min(beta + 0.002, 0.01)
