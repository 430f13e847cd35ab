# target: AttentionalFactorizationMachine.forward
# source: https://github.com/rixwew/pytorch-fm/issues/21
# truth: F.dropout is called without training=self.training and is therefore active after model.eval() too; evaluation is random (two
#   passes over the same data differ) and the scores are noisier than they should be. Silent.
import torch
import torch.nn as nn
import torch.nn.functional as F


class FeaturesLinear(nn.Module):
    def __init__(self, n_features):
        super().__init__()
        self.fc = nn.Embedding(n_features, 1)
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.zeros_(self.fc.weight)

    def forward(self, x):
        return self.fc(x).sum(1) + self.bias


class AttentionalFactorizationMachine(nn.Module):
    def __init__(self, field_dims, embed_dim=16, attn_size=16, dropouts=(0.2, 0.2)):
        super().__init__()
        offsets = torch.tensor([0] + list(field_dims)).cumsum(0)[:-1]
        self.register_buffer("offsets", offsets)
        self.num_fields = len(field_dims)
        self.embedding = nn.Embedding(sum(field_dims), embed_dim)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.linear = FeaturesLinear(sum(field_dims))
        self.attention = nn.Linear(embed_dim, attn_size)
        self.projection = nn.Linear(attn_size, 1)
        self.out_dropout = nn.Dropout(dropouts[1])
        self.fc = nn.Linear(embed_dim, 1)
        self.attn_dropout = dropouts[0]

    def interaction(self, emb):
        row, col = torch.triu_indices(self.num_fields, self.num_fields, 1)
        inner = emb[:, row] * emb[:, col]
        scores = torch.softmax(self.projection(F.relu(self.attention(inner))), dim=1)
        scores = F.dropout(scores, p=self.attn_dropout)  # error: DG743
        return self.fc(self.out_dropout((scores * inner).sum(1)))

    def forward(self, x):
        x = x + self.offsets
        return (self.linear(x) + self.interaction(self.embedding(x))).squeeze(1)


class Ratings:
    """user, item, hour -> click"""

    dims = (50, 80, 6)

    def __init__(self, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.u, self.i = torch.randn(50, 4, generator=g), torch.randn(80, 4, generator=g)
        self.h = torch.randn(6, 4, generator=g)
        self.g = g

    def draw(self, n):
        x = torch.stack([torch.randint(0, d, (n,), generator=self.g) for d in self.dims], 1)
        score = (self.u[x[:, 0]] * self.i[x[:, 1]]).sum(1) + (self.i[x[:, 1]] * self.h[x[:, 2]]).sum(1)
        return x, (torch.rand(n, generator=self.g) < torch.sigmoid(score)).float()


def auc(score, y):
    pos, neg = score[y == 1], score[y == 0]
    return (pos[:, None] > neg[None]).float().mean().item()


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        return auc(model(x), y)


if __name__ == "__main__":
    torch.manual_seed(0)
    ratings = Ratings()
    train_x, train_y = ratings.draw(12000)
    test_x, test_y = ratings.draw(2000)
    model = AttentionalFactorizationMachine(Ratings.dims)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-5)
    for epoch in range(6):
        model.train()
        for idx in torch.randperm(len(train_x)).split(256):
            loss = F.binary_cross_entropy_with_logits(model(train_x[idx]), train_y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} auc {evaluate(model, test_x, test_y):.4f}")
    print("evaluated again:", [round(evaluate(model, test_x, test_y), 4) for _ in range(3)])
