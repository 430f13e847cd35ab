"""LoRA on the query and value projections of a small attention model; only adapters and head are saved."""
import torch
from torch import nn
from torch.nn import functional as F


class Adapter(nn.Module):
    def __init__(self, dim, rank):
        super().__init__()
        self.down, self.up = nn.Linear(dim, rank, bias=False), nn.Linear(rank, dim, bias=False)
        nn.init.normal_(self.down.weight, std=0.02)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.up(self.down(x))


class Attention(nn.Module):
    def __init__(self, dim, rank):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.q_lora, self.v_lora = Adapter(dim, rank), Adapter(dim, rank)

    def forward(self, x):
        q = self.q(x) + self.q_lora(x)
        v = self.v(x) + self.v_lora(x)
        return F.scaled_dot_product_attention(q.unsqueeze(1), self.k(x).unsqueeze(1), v.unsqueeze(1)).squeeze(1)


class Model(nn.Module):
    def __init__(self, vocab=8, dim=24, rank=4, classes=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.attn = Attention(dim, rank)
        self.head = nn.Linear(dim, classes)

    def forward(self, tokens):
        h = self.embed(tokens)
        return self.head((h + self.attn(h)).mean(dim=1))


def mark_trainable(model):
    for name, p in model.named_parameters():
        p.requires_grad_("lora" in name or name.startswith("head"))


def adapter_state(model):
    return {k: v.detach().cpu().clone() for k, v in model.state_dict().items() if "lora" in k or k.startswith("head")}


def task(n, device):
    tokens = torch.randint(8, (n, 6), device=device)
    return tokens, (tokens == 3).any(dim=1).long()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Model().to(device)
    mark_trainable(model)
    frozen_before = model.attn.k.weight.clone()
    opt = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    for step in range(80):
        tokens, y = task(64, device)
        loss = F.cross_entropy(model(tokens), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"step {step}: {loss.item():.3f}")
    assert torch.equal(frozen_before, model.attn.k.weight)

    saved = adapter_state(model)
    torch.manual_seed(0)
    again = Model().to(device)  # the same base weights by the same seed
    missing, unexpected = again.load_state_dict(saved, strict=False)
    assert not unexpected and all("lora" not in k for k in missing)
    model.eval()
    again.eval()
    with torch.no_grad():
        tokens, y = task(200, device)
        torch.testing.assert_close(model(tokens), again(tokens))
        print(f"accuracy {(again(tokens).argmax(1) == y).float().mean().item():.2f}, saved tensors {len(saved)}")


if __name__ == "__main__":
    main()
