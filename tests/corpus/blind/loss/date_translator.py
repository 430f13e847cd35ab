# target: DateTranslator.training_step
# truth: The cross entropy also counts the padding positions of the target (no ignore_index), so the loss is diluted by easy <pad> predictions and changes with how far a batch happens to be padded; silent.
"""Seq2seq model turning written dates into ISO format (character level)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

PAD, BOS, EOS = 0, 1, 2


def collate(pairs):
    """Pad a list of (source ids, target ids); targets get BOS and EOS."""
    sources, targets = zip(*pairs)
    lengths = torch.tensor([len(s) for s in sources])
    src = pad_sequence([torch.tensor(s) for s in sources], batch_first=True, padding_value=PAD)
    tgt = pad_sequence(
        [torch.tensor([BOS, *t, EOS]) for t in targets], batch_first=True, padding_value=PAD
    )
    return {"src": src, "src_len": lengths, "tgt": tgt}


class DateTranslator(nn.Module):
    def __init__(self, src_vocab=40, tgt_vocab=16, dim=64):
        super().__init__()
        self.src_emb = nn.Embedding(src_vocab, dim, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(tgt_vocab, dim, padding_idx=PAD)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, tgt_vocab)

    def forward(self, src, src_len, tgt_in):
        packed = pack_padded_sequence(
            self.src_emb(src), src_len.cpu(), batch_first=True, enforce_sorted=False
        )
        _, state = self.encoder(packed)
        hidden, _ = self.decoder(self.tgt_emb(tgt_in), state)
        return self.out(hidden)

    def training_step(self, batch, batch_idx):
        tgt_in, tgt_out = batch["tgt"][:, :-1], batch["tgt"][:, 1:]
        logits = self(batch["src"], batch["src_len"], tgt_in)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt_out.flatten())  # error: DG319
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def random_pairs(n):
    def ids(low, high, shortest, longest):
        size = int(torch.randint(shortest, longest + 1, (1,)))
        return torch.randint(low, high, (size,)).tolist()

    return [(ids(3, 40, 6, 30), ids(3, 16, 3, 24)) for _ in range(n)]


if __name__ == "__main__":
    torch.manual_seed(0)
    model = DateTranslator()
    optimizer = model.configure_optimizers()
    for step in range(30):
        loss = model.training_step(collate(random_pairs(32)), step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.3f}")
