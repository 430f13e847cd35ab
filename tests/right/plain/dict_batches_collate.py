"""A map-style dataset of variable-length records with its own collate function giving dict batches."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class RecordDataset(Dataset):
    def __init__(self, size=120, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.records = []
        for _ in range(size):
            length = int(torch.randint(2, 9, (1,), generator=g))
            values = torch.randn(length, 3, generator=g)
            self.records.append({"values": values, "label": int(values.mean() > 0)})

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        return self.records[index]


def collate(records):
    lengths = torch.tensor([r["values"].size(0) for r in records])
    values = pad_sequence([r["values"] for r in records], batch_first=True)
    mask = torch.arange(values.size(1)).unsqueeze(0) < lengths.unsqueeze(1)
    labels = torch.tensor([r["label"] for r in records], dtype=torch.float32)
    return {"values": values, "mask": mask, "labels": labels}


class MeanPoolNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, values, mask):
        hidden = torch.tanh(self.embed(values)) * mask.unsqueeze(-1)
        pooled = hidden.sum(dim=1) / mask.sum(dim=1, keepdim=True)  # every record has at least two rows
        return self.out(pooled).squeeze(1)


def to_device(batch, device):
    return {key: value.to(device) for key, value in batch.items()}


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(RecordDataset(), batch_size=32, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(RecordDataset(60, seed=1), batch_size=32, collate_fn=collate)
    model = MeanPoolNet().to(device)
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(10):
        for batch in train_loader:
            batch = to_device(batch, device)
            loss = criterion(model(batch["values"], batch["mask"]), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    model.eval()
    correct = torch.tensor(0, device=device)
    with torch.no_grad():
        for batch in test_loader:
            batch = to_device(batch, device)
            predicted = model(batch["values"], batch["mask"]) > 0
            correct += (predicted == batch["labels"].bool()).sum()
    print(f"test accuracy {correct.item() / len(test_loader.dataset):.3f}")


if __name__ == "__main__":
    main()
