"""flex_attention with a score modification, run uncompiled on a tiny input and compared with plain attention."""
import math
import warnings

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

# Uncompiled flex_attention says that it materializes the scores; that is wanted here.
warnings.filterwarnings("ignore", message=".*flex_attention called without torch.compile.*")

B, H, T, D = 1, 2, 16, 8


def alibi_slopes(heads, device):
    return torch.exp2(-8.0 / heads * torch.arange(1, heads + 1, device=device))


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def reference(q, k, v, slopes):
    idx = torch.arange(T, device=q.device)
    distance = idx[None, :] - idx[:, None]
    scores = q @ k.transpose(-2, -1) / math.sqrt(D) + slopes[:, None, None] * distance
    scores = scores.masked_fill(distance > 0, float("-inf"))  # the diagonal is always visible
    return scores.softmax(dim=-1) @ v


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    slopes = alibi_slopes(H, device)

    def alibi(score, b, h, q_idx, kv_idx):
        return score + slopes[h] * (kv_idx - q_idx)

    q, k, v = (torch.randn(B, H, T, D, device=device) for _ in range(3))
    mask = create_block_mask(causal, B=None, H=None, Q_LEN=T, KV_LEN=T, device=device.type)
    with torch.no_grad():
        out = flex_attention(q, k, v, score_mod=alibi, block_mask=mask)
        expected = reference(q, k, v, slopes)
    torch.testing.assert_close(out, expected, atol=1e-4, rtol=1e-4)
    print("flex and plain attention agree, output", tuple(out.shape))


if __name__ == "__main__":
    main()
