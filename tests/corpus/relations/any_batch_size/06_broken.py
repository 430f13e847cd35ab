import torch
import torch.nn as nn


class AudioEmbedder(nn.Module):
    def __init__(self, n_mels=20, dim=12):
        super().__init__()
        self.gru = nn.GRU(n_mels, dim, batch_first=True)
        self.proj = nn.Linear(dim, dim)

    def forward(self, mel):
        _, h = self.gru(mel)
        return nn.functional.normalize(self.proj(h[-1]), dim=-1)


@torch.no_grad()
def embed_in_chunks(model, mel, chunk=4):
    """Embeds many utterances (N, T, n_mels) without running out of memory."""
    out = []
    for i in range(len(mel) // chunk):
        out.append(model(mel[i * chunk:(i + 1) * chunk]))
    return torch.cat(out)


def equal_error_rate(scores, same):
    """Smallest difference between false accept and false reject rate."""
    best = 1.0
    for thr in scores:
        fa = ((scores >= thr) & ~same).float().sum() / (~same).sum()
        fr = ((scores < thr) & same).float().sum() / same.sum()
        best = min(best, max(fa.item(), fr.item()))
    return best


def main():
    torch.manual_seed(0)
    speakers = torch.arange(4).repeat_interleave(2)
    base = torch.randn(4, 1, 20)
    mel = base[speakers] + 0.3 * torch.randn(8, 15, 20)
    model = AudioEmbedder().eval()
    emb = embed_in_chunks(model, mel)
    scores = emb @ emb.t()
    pairs = torch.triu_indices(8, 8, offset=1)
    same = speakers[pairs[0]] == speakers[pairs[1]]
    print("eer", equal_error_rate(scores[pairs[0], pairs[1]], same))


if __name__ == "__main__":
    main()
