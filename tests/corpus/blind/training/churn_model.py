# target: script
# truth: model.train() is called once before the epoch loop, while validate() switches to eval mode at the end of each
#   epoch; from the second epoch on the model trains in eval mode (no dropout, frozen BatchNorm statistics), silently
#   changing and worsening training.
"""Customer churn: entity embeddings plus numeric columns."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CARDINALITIES = [5, 7]
N_NUMERIC = 4


class ChurnNet(nn.Module):
    def __init__(self, cardinalities, n_numeric, width=32, p=0.3):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(c, 4) for c in cardinalities])
        self.norm = nn.BatchNorm1d(n_numeric)
        self.mlp = nn.Sequential(
            nn.Linear(4 * len(cardinalities) + n_numeric, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Dropout(p),
            nn.Linear(width, 1),
        )

    def forward(self, cats, nums):
        parts = [emb(cats[:, i]) for i, emb in enumerate(self.embeds)]
        return self.mlp(torch.cat(parts + [self.norm(nums)], dim=1)).squeeze(1)


def make_loaders(n_train=512, n_valid=256):
    n = n_train + n_valid
    cats = torch.stack([torch.randint(0, c, (n,)) for c in CARDINALITIES], dim=1)
    nums = 3.0 * torch.randn(n, N_NUMERIC) + 1.0
    score = nums[:, 0] - nums[:, 1] + cats[:, 0] - 2.0
    churn = (score + torch.randn(n) > 0).float()
    data = TensorDataset(cats, nums, churn)
    train = torch.utils.data.Subset(data, range(n_train))
    valid = torch.utils.data.Subset(data, range(n_train, n))
    return DataLoader(train, batch_size=32, shuffle=True), DataLoader(valid, batch_size=128)


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    loss, count = torch.zeros((), device=device), 0
    for cats, nums, churn in loader:
        logits = model(cats.to(device), nums.to(device))
        loss += F.binary_cross_entropy_with_logits(logits, churn.to(device), reduction="sum")
        count += len(churn)
    return (loss / count).item()


def fit(model, train_loader, valid_loader, device, epochs=8):
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    history = []
    model.train()  # error: DG710
    for _ in range(epochs):
        for cats, nums, churn in train_loader:
            cats, nums, churn = cats.to(device), nums.to(device), churn.to(device)
            loss = F.binary_cross_entropy_with_logits(model(cats, nums), churn)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        history.append(validate(model, valid_loader, device))
    return history


if __name__ == "__main__":
    torch.manual_seed(0)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader, valid_loader = make_loaders()
    curve = fit(ChurnNet(CARDINALITIES, N_NUMERIC), train_loader, valid_loader, dev)
    print("validation loss per epoch:", [round(v, 4) for v in curve])
