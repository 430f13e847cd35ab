"""A dataset over a memory-mapped array, opened in each worker when first used, rows copied out of the map."""
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class MemmapDataset(Dataset):
    def __init__(self, path: Path, rows: int, cols: int):
        self.path, self.shape = path, (rows, cols)
        self._array = None

    @property
    def array(self):
        if self._array is None:
            self._array = np.memmap(self.path, dtype=np.float32, mode="r", shape=self.shape)
        return self._array

    def __getstate__(self):
        # an open map is not carried to workers; each opens its own
        return {**self.__dict__, "_array": None}

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, i):
        row = torch.from_numpy(self.array[i].copy())
        return row[:-1], row[-1:]


def write(path: Path, rows: int, cols: int) -> None:
    rng = np.random.default_rng(0)
    out = np.memmap(path, dtype=np.float32, mode="w+", shape=(rows, cols))
    x = rng.standard_normal((rows, cols - 1), dtype=np.float32)
    out[:, :-1] = x
    out[:, -1] = x @ np.linspace(-1, 1, cols - 1, dtype=np.float32)
    out.flush()


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows, cols = 256, 6
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.bin"
        write(path, rows, cols)
        data = MemmapDataset(path, rows, cols)
        loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, pin_memory=device.type == "cuda", persistent_workers=True)
        model = nn.Linear(cols - 1, 1).to(device)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(4):
            total = torch.zeros((), device=device)
            for x, y in loader:
                x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
                loss = nn.functional.mse_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.detach() * len(x)
            print(f"epoch {epoch}: {total.item() / len(data):.4f}")
        del loader
    print("weights", [round(w, 2) for w in model.weight.detach().flatten().tolist()])


if __name__ == "__main__":
    main()
