// The program whose forecast the session looks at and the pictures show.
export const GPT = `import torch
import torch.nn.functional as F
from torch import nn

batch_size = 8
length = 1024


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5
        weights = scores.softmax(dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, vocabulary=50257, width=768, heads=12, layers=12):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.blocks(self.embedding(tokens)))


def train(steps=3):
    model = GPT().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        tokens = torch.randint(50257, (batch_size, length), device="cuda")
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
`;
