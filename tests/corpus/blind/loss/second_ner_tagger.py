# target: Tagger.training_step
# truth: The logits (B, T, tags) are brought to (B, tags, T) with view instead of a transpose, so scores of different tokens and tags
#   are mixed up: no error, the loss is computed against the wrong tokens and the tagger does not learn the labels.
"""BiGRU named-entity tagger."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD_TAG = -100


class Tagger(nn.Module):
    def __init__(self, vocab_size, n_tags, emb_dim=50, hidden=64):
        super().__init__()
        self.n_tags = n_tags
        self.emb = nn.Embedding(vocab_size, emb_dim, padding_idx=0)
        self.gru = nn.GRU(emb_dim, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(2 * hidden, n_tags)

    def forward(self, tokens):
        h, _ = self.gru(self.emb(tokens))
        return self.out(self.drop(h))  # (B, T, n_tags)

    def training_step(self, batch):
        tokens, tags = batch
        logits = self(tokens)
        B, T, _ = logits.shape
        # cross_entropy wants the classes in dim 1
        logits = logits.view(B, self.n_tags, T)  # error: DG318
        return F.cross_entropy(logits, tags, ignore_index=PAD_TAG)

    @torch.no_grad()
    def predict(self, tokens):
        was_training = self.training
        self.eval()
        tags = self(tokens).argmax(-1)
        self.train(was_training)
        return tags


def pad_batch(sentences):
    """sentences: list of (token ids, tag ids) of different lengths."""
    tokens = nn.utils.rnn.pad_sequence([torch.tensor(s) for s, _ in sentences], batch_first=True)
    tags = nn.utils.rnn.pad_sequence([torch.tensor(t) for _, t in sentences], batch_first=True, padding_value=PAD_TAG)
    return tokens, tags


def train(model, sentences, epochs=5, batch_size=16, lr=5e-3):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    for _ in range(epochs):
        for i in range(0, len(sentences), batch_size):
            loss = model.training_step(pad_batch(sentences[i : i + batch_size]))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
    return model


def token_accuracy(model, sentences):
    tokens, tags = pad_batch(sentences)
    keep = tags != PAD_TAG
    return (model.predict(tokens)[keep] == tags[keep]).float().mean().item()
