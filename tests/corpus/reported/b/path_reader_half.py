# source: https://github.com/NVIDIA/apex/issues/1052
# target: PathReasoner.forward
# truth: with --half the attention scores are float16 and the fill value -1e9 does not fit: masked_fill raises
#   "value cannot be converted to type at::Half without overflow"; in float32 all is well
import argparse

import torch
from torch import nn


class PathReasoner(nn.Module):
    """Scores entity pairs of a document from the paths that connect them."""

    def __init__(self, dim, n_relations, heads=4):
        super().__init__()
        self.heads = heads
        self.head_proj = nn.Linear(dim, dim)
        self.tail_proj = nn.Linear(dim, dim)
        self.path_key = nn.Linear(dim, dim)
        self.score = nn.Linear(dim, heads)
        self.bilinear = nn.Bilinear(dim, dim, n_relations)

    def forward(self, head, tail, paths, path_mask):
        query = torch.tanh(self.head_proj(head) * self.tail_proj(tail))
        keys = torch.tanh(self.path_key(paths) + query.unsqueeze(1))
        scores = self.score(keys)
        scores = scores.masked_fill(~path_mask.unsqueeze(-1), -1e9)  # culprit
        weights = torch.softmax(scores, dim=1)
        per_head = paths.view(*paths.shape[:2], self.heads, -1) * weights.unsqueeze(-1)
        context = per_head.sum(1).flatten(1)
        return self.bilinear(head + context, tail + context)


class DocumentRE(nn.Module):
    def __init__(self, vocab, dim, n_relations):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.norm = nn.LayerNorm(dim)
        self.reasoner = PathReasoner(dim, n_relations)

    def encode(self, ids):
        valid = (ids != 0).unsqueeze(-1)
        emb = self.embed(ids) * valid
        return self.norm(emb.sum(-2) / valid.sum(-2).clamp(min=1))

    def forward(self, head_ids, tail_ids, path_ids):
        path_mask = (path_ids != 0).any(-1)
        return self.reasoner(self.encode(head_ids), self.encode(tail_ids), self.encode(path_ids), path_mask)


def build_batch(n, max_paths, vocab, gen):
    head = torch.randint(1, vocab, (n, 3), generator=gen)
    tail = torch.randint(1, vocab, (n, 3), generator=gen)
    paths = torch.randint(1, vocab, (n, max_paths, 5), generator=gen)
    count = torch.randint(1, max_paths + 1, (n,), generator=gen)
    paths[torch.arange(max_paths)[None] >= count[:, None]] = 0
    return head, tail, paths


def predict(model, batches, device, half=False):
    model = model.to(device).eval()
    if half:
        model = model.half()
    out = []
    with torch.no_grad():
        for batch in batches:
            logits = model(*(b.to(device) for b in batch))
            out.append(logits.float().sigmoid())
    return torch.cat(out)


def main():
    parser = argparse.ArgumentParser(description="document level relation extraction, inference")
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--relations", type=int, default=7)
    parser.add_argument("--vocab", type=int, default=100)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--half", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    torch.manual_seed(13)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = DocumentRE(args.vocab, args.dim, args.relations)
    gen = torch.Generator().manual_seed(3)
    batches = [build_batch(8, 4, args.vocab, gen) for _ in range(args.batches)]
    probs = predict(model, batches, device, half=args.half)
    print("pairs", tuple(probs.shape), "mean", round(probs.mean().item(), 4))


if __name__ == "__main__":
    main()
