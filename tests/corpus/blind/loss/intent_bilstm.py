# target: train_epoch
# truth: h_n[-2:] is (2, B, H) and is reshaped straight to (B, 2H), so the row of a sentence is made of two consecutive
#   sentences' forward (or backward) states instead of its own two directions: shapes fit, no error, the classifier is
#   trained on other sentences' encodings.
"""Intent classifier: packed bidirectional LSTM over token ids."""
from typing import List, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

PAD = 0


def collate(samples: Sequence[Tuple[List[int], int]]) -> Tuple[Tensor, Tensor, Tensor]:
    """[(token ids, label), ...] -> padded ids (B, T), lengths (B,), labels (B,)."""
    ids = [torch.tensor(tokens, dtype=torch.long) for tokens, _ in samples]
    lengths = torch.tensor([len(t) for t in ids])
    labels = torch.tensor([label for _, label in samples])
    return pad_sequence(ids, batch_first=True, padding_value=PAD), lengths, labels


class SentenceEncoder(nn.Module):
    def __init__(self, vocab: int, embed: int = 64, hidden: int = 64, layers: int = 2, dropout: float = 0.3):
        super().__init__()
        self.out_dim = 2 * hidden
        self.embedding = nn.Embedding(vocab, embed, padding_idx=PAD)
        self.lstm = nn.LSTM(
            embed, hidden, num_layers=layers, bidirectional=True, batch_first=True, dropout=dropout
        )

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Final forward and backward states of the top layer, (B, 2 * hidden)."""
        packed = pack_padded_sequence(
            self.embedding(ids), lengths, batch_first=True, enforce_sorted=False
        )
        _, (h_n, _) = self.lstm(packed)
        return h_n[-2:].reshape(-1, self.out_dim)  # error: DG758


class IntentClassifier(nn.Module):
    def __init__(self, vocab: int, n_intents: int, **encoder_args):
        super().__init__()
        self.encoder = SentenceEncoder(vocab, **encoder_args)
        self.head = nn.Sequential(
            nn.Dropout(0.3), nn.Linear(self.encoder.out_dim, 64), nn.ReLU(), nn.Linear(64, n_intents)
        )

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        return self.head(self.encoder(ids, lengths))


def train_epoch(model: IntentClassifier, loader, optimizer, device) -> float:
    model.train()
    total, seen = torch.zeros((), device=device), 0
    for ids, lengths, labels in loader:
        ids, labels = ids.to(device), labels.to(device)
        loss = F.cross_entropy(model(ids, lengths), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.detach() * labels.numel()
        seen += labels.numel()
    return total.item() / seen


@torch.no_grad()
def predict(model: IntentClassifier, sentences: Sequence[List[int]], device) -> List[int]:
    model.eval()
    ids, lengths, _ = collate([(s, 0) for s in sentences])
    return model(ids.to(device), lengths).argmax(dim=1).tolist()
