"""An LSTM language model with tied embeddings, truncated backpropagation and perplexity."""
import math

import torch
import torch.nn as nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
VOCAB, DIM, BPTT, BATCH = 12, 32, 10, 8


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)
        self.encoder = nn.Embedding(VOCAB, DIM)
        self.rnn = nn.LSTM(DIM, DIM)
        self.decoder = nn.Linear(DIM, VOCAB)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens, hidden):
        emb = self.drop(self.encoder(tokens))
        out, hidden = self.rnn(emb, hidden)
        return self.decoder(self.drop(out)), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(1, bsz, DIM), weight.new_zeros(1, bsz, DIM))


def repackage_hidden(h):
    """Cut hidden states from their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(stream, bsz):
    nbatch = stream.size(0) // bsz
    return stream[: nbatch * bsz].view(bsz, nbatch).t().contiguous().to(device)


def get_batch(source, i):
    seq_len = min(BPTT, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].reshape(-1)


def markov_stream(n):
    noise = torch.rand(n).lt(0.1)
    steps = torch.where(noise, torch.randint(VOCAB, (n,)), torch.ones(n, dtype=torch.long))
    return steps.cumsum(0) % VOCAB


def evaluate(model, source):
    model.eval()
    hidden, total = model.init_hidden(source.size(1)), torch.zeros((), device=device)
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, BPTT):
            data, targets = get_batch(source, i)
            output, hidden = model(data, hidden)
            total += len(data) * criterion(output.view(-1, VOCAB), targets)
    return total.item() / (len(source) - 1)


train_data, val_data = batchify(markov_stream(1600), BATCH), batchify(markov_stream(400), BATCH)
model = RNNModel().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(1, 4):
    model.train()
    hidden = model.init_hidden(BATCH)
    for i in range(0, train_data.size(0) - 1, BPTT):
        data, targets = get_batch(train_data, i)
        hidden = repackage_hidden(hidden)
        optimizer.zero_grad()
        output, hidden = model(data, hidden)
        loss = criterion(output.view(-1, VOCAB), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    print(f"epoch {epoch}: validation perplexity {math.exp(evaluate(model, val_data)):.2f}")
