# target: training_step
# truth: view(batch, vocab, time) reinterprets the memory of (batch, time, vocab) logits instead of exchanging the axes,
#   so every word is scored against values of other words and positions; no error; loss and perplexity are computed on
#   the scramble and may even fall as it is memorised, but the predicted words are wrong.
"""Caption decoder on top of pooled image features (teacher forcing)."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, BOS, EOS = 0, 1, 2


class CaptionDecoder(nn.Module):
    def __init__(self, vocab_size: int, feature_dim: int, embed_dim: int = 128, hidden_dim: int = 256, dropout: float = 0.2):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, embed_dim, padding_idx=PAD)
        self.start_h = nn.Linear(feature_dim, hidden_dim)
        self.start_c = nn.Linear(feature_dim, hidden_dim)
        self.rnn = nn.LSTM(embed_dim, hidden_dim, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.vocab = nn.Linear(hidden_dim, vocab_size)

    def forward(self, features: Tensor, tokens: Tensor) -> Tensor:
        """features (batch, feature_dim), tokens (batch, time) -> logits (batch, time, vocab)."""
        state = (self.start_h(features).tanh().unsqueeze(0), self.start_c(features).unsqueeze(0))
        hidden, _ = self.rnn(self.dropout(self.embed(tokens)), state)
        return self.vocab(self.dropout(hidden))


def caption_loss(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Mean cross entropy over the words that are not padding."""
    batch, time, vocab = logits.shape
    return F.cross_entropy(
        logits.view(batch, vocab, time),  # error: DG318
        targets,
        ignore_index=PAD,
        label_smoothing=smoothing,
    )


def training_step(decoder: CaptionDecoder, optimizer: torch.optim.Optimizer, features: Tensor, captions: Tensor) -> Tensor:
    """`captions` are (batch, time) with BOS first, EOS last, padded behind."""
    decoder.train()
    logits = decoder(features, captions[:, :-1])
    loss = caption_loss(logits, captions[:, 1:], smoothing=0.1)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(decoder.parameters(), 5.0)
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def perplexity(decoder: CaptionDecoder, batches, device: torch.device) -> float:
    """Per-word perplexity over (features, captions) batches."""
    decoder.eval()
    nats = torch.zeros((), device=device)
    words = torch.zeros((), device=device)
    for features, captions in batches:
        features, captions = features.to(device), captions.to(device)
        count = (captions[:, 1:] != PAD).sum()
        nats += caption_loss(decoder(features, captions[:, :-1]), captions[:, 1:]) * count
        words += count
    return (nats / words).exp().item()
