"""A small language model: tied weights, rematerialised blocks, generation from a cache."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, past=None):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None and t > 1)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x)), (k, v)


class Model(nn.Module):
    def __init__(self, vocab=40, dim=32, heads=4, depth=2, length=32):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self.start)

    def start(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids, past=None):
        at = 0 if past is None else past[0][0].size(2)
        x = self.tokens(ids) + self.places(torch.arange(at, at + ids.size(1), device=ids.device))
        kept = []
        for i, block in enumerate(self.blocks):
            if self.training:
                x, _ = checkpoint(block, x, use_reentrant=False)
            else:
                x, cache = block(x, None if past is None else past[i])
                kept.append(cache)
        return self.head(self.norm(x)), kept


@torch.inference_mode()
def generate(model, ids, n, temperature=0.8, k=5):
    model.eval()
    logits, past = model(ids)
    for _ in range(n):
        top, index = (logits[:, -1] / temperature).topk(k)
        chosen = index.gather(1, torch.multinomial(top.softmax(-1), 1))
        ids = torch.cat([ids, chosen], dim=1)
        logits, past = model(chosen, past)
    return ids


def main(steps=3):
    torch.manual_seed(0)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    text = torch.arange(200, device=device) % 40
    for _ in range(steps):
        model.train()
        starts = torch.randint(0, 160, (4, 1), device=device)
        window = text[starts + torch.arange(17, device=device)]
        logits, _ = model(window[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return generate(model, text[:3].unsqueeze(0), 6)[0].tolist()


if __name__ == "__main__":
    print(main())
