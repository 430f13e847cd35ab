# source: https://github.com/DEEP-PolyU/KEQA_WSDM19/issues/2
# target: PredicateEncoder.forward
# truth: the attention score has one number per token on the last axis, and softmax over that axis of size 1 gives 1.0
#   for every token: the attention layer has no effect and gets a zero gradient
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence


class PredicateEncoder(nn.Module):
    """Maps a question (seq_len, batch) to the embedding of the predicate it asks for."""

    def __init__(self, words_num, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(words_num, config.words_dim, padding_idx=0)
        if config.rnn_type == "gru":
            self.rnn = nn.GRU(config.words_dim, config.hidden_size, config.num_layer, bidirectional=True)
        else:
            self.rnn = nn.LSTM(config.words_dim, config.hidden_size, config.num_layer, bidirectional=True)
        self.dropout = nn.Dropout(p=config.rnn_fc_dropout)
        self.hidden2tag = nn.Sequential(
            nn.Linear(config.hidden_size * 2 + config.words_dim, config.hidden_size * 2),
            nn.BatchNorm1d(config.hidden_size * 2),
            nn.ReLU(),
            self.dropout,
            nn.Linear(config.hidden_size * 2, config.label),
        )
        self.attn = nn.Sequential(
            nn.Linear(config.hidden_size * 2 + config.words_dim, config.hidden_size),
            self.dropout,
            nn.Tanh(),
            nn.Linear(config.hidden_size, 1),
        )

    def forward(self, text):
        x = self.embed(text)
        outputs, _ = self.rnn(x)
        seq_len, batch_size, _ = outputs.shape
        both = torch.cat((x, outputs), dim=2)
        scores = self.attn(both.view(seq_len * batch_size, -1)).view(seq_len, batch_size, 1)
        scores = scores.masked_fill((text == 0).unsqueeze(-1), -1e4)
        attn_weights = F.softmax(scores, dim=-1)  # culprit
        weighted = attn_weights * both
        tags = self.hidden2tag(weighted.view(seq_len * batch_size, -1)).view(seq_len, batch_size, -1)
        keep = (text != 0).unsqueeze(-1).to(tags.dtype)
        return (tags * keep).sum(0) / keep.sum(0).clamp(min=1)


def make_questions(n, words_num, predicates):
    """Each predicate has one key word; the rest of the question is filler."""
    texts, labels = [], []
    n_pred = predicates.size(0)
    for _ in range(n):
        length = int(torch.randint(5, 12, ()))
        ids = torch.randint(n_pred + 1, words_num, (length,))
        label = int(torch.randint(0, n_pred, ()))
        ids[int(torch.randint(0, length, ()))] = label + 1
        texts.append(ids)
        labels.append(label)
    return pad_sequence(texts), predicates[labels]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rnn_type", default="lstm", choices=["lstm", "gru"])
    parser.add_argument("--words_dim", type=int, default=24)
    parser.add_argument("--hidden_size", type=int, default=24)
    parser.add_argument("--num_layer", type=int, default=1)
    parser.add_argument("--rnn_fc_dropout", type=float, default=0.1)
    parser.add_argument("--label", type=int, default=16)
    parser.add_argument("--iters", type=int, default=21)
    args = parser.parse_args()
    torch.manual_seed(0)
    predicates = F.normalize(torch.randn(12, args.label), dim=1)
    model = PredicateEncoder(80, args)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for it in range(args.iters):
        text, target = make_questions(32, 80, predicates)
        loss = F.mse_loss(model(text), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if it % 10 == 0:
            print(f"iter {it} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
