# source: https://github.com/LauraRuis/multimodal_seq2seq_gSCAN/pull/2
from typing import Dict, Iterator, List, Tuple

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PAD, SOS, EOS = 0, 1, 2


def pad_batch(examples: List[List[int]]) -> Tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([len(e) for e in examples], dtype=torch.long)
    batch = torch.full((len(examples), int(lengths.max())), PAD, dtype=torch.long)
    for i, e in enumerate(examples):
        batch[i, : len(e)] = torch.tensor(e)
    return batch, lengths


class GroundedCommands:
    def __init__(self, size: int, vocab: int, device: torch.device, seed: int = 0):
        g = torch.Generator().manual_seed(seed)
        self.device = device
        self.examples = []
        for _ in range(size):
            n = int(torch.randint(2, 8, (1,), generator=g))
            words = torch.randint(3, vocab, (n,), generator=g).tolist()
            self.examples.append((words, int(sum(words) % 4)))

    def get_data_iterator(self, batch_size: int) -> Iterator[Dict[str, torch.Tensor]]:
        for i in range(0, len(self.examples), batch_size):
            chunk = self.examples[i:i + batch_size]
            inputs, lengths = pad_batch([[SOS] + w + [EOS] for w, _ in chunk])
            targets = torch.tensor([t for _, t in chunk])
            yield {
                "commands": inputs.to(self.device),
                "command_lengths": lengths.to(self.device),
                "targets": targets.to(self.device),
            }


class CommandEncoder(nn.Module):
    def __init__(self, vocab: int, emb: int, hidden: int, num_layers: int = 1, dropout: float = 0.1):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(emb, hidden, num_layers=num_layers, batch_first=True, bidirectional=True)
        self.hidden = hidden

    def forward(self, commands: torch.Tensor, command_lengths: torch.Tensor):
        sorted_lengths, perm_idx = torch.sort(command_lengths, descending=True)
        embedded = self.dropout(self.embedding(commands.index_select(0, perm_idx)))
        packed = pack_padded_sequence(embedded, sorted_lengths.cpu(), batch_first=True)
        packed_out, (hidden, _) = self.lstm(packed)
        outputs, _ = pad_packed_sequence(packed_out, batch_first=True)
        outputs = outputs[..., :self.hidden] + outputs[..., self.hidden:]
        _, unperm_idx = torch.sort(perm_idx)
        return hidden.sum(0).index_select(0, unperm_idx), outputs.index_select(0, unperm_idx)


class Classifier(nn.Module):
    def __init__(self, vocab: int):
        super().__init__()
        self.encoder = CommandEncoder(vocab, 16, 24)
        self.out = nn.Linear(24, 4)

    def forward(self, batch: Dict[str, torch.Tensor]) -> torch.Tensor:
        hidden, _ = self.encoder(batch["commands"], batch["command_lengths"])
        return self.out(hidden)


def train(epochs: int = 3, batch_size: int = 16) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = GroundedCommands(96, 20, device)
    model = Classifier(20).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        total, n = 0.0, 0
        for batch in data.get_data_iterator(batch_size):
            loss = criterion(model(batch), batch["targets"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, n = total + loss.item(), n + 1
        print(f"epoch {epoch} loss {total / n:.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    train()
