# source: https://github.com/mllam/neural-lam/issues/136
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIELDS = ("t2m", "u10", "v10", "precip")


def simulate(n_time, n_grid, seed=0):
    """Synthetic reanalysis of a dry summer week."""
    gen = torch.Generator().manual_seed(seed)
    state = torch.zeros(n_time, n_grid, len(FIELDS))
    state[..., 0] = 285.0 + 4.0 * torch.randn(n_time, n_grid, generator=gen)
    state[..., 1:3] = 3.0 * torch.randn(n_time, n_grid, 2, generator=gen)
    forcing = torch.stack([torch.sin(torch.arange(n_time) / 24.0 * 6.283), torch.arange(n_time) / n_time], dim=-1)
    return state, forcing


def compute_stats(array):
    dims = tuple(range(array.dim() - 1))
    return {"mean": array.mean(dim=dims), "std": array.std(dim=dims)}


class WeatherDataset(Dataset):
    """Samples of two initial states, the target states and the windowed forcing."""

    def __init__(self, state, forcing, ar_steps=2, stats=None, standardize=True):
        self.state, self.forcing = state, forcing
        self.ar_steps = ar_steps
        self.standardize = standardize
        self.stats = stats or {"state": compute_stats(state), "forcing": compute_stats(forcing)}

    def __len__(self):
        return self.state.shape[0] - 2 - self.ar_steps

    def _scale(self, sample, kind):
        stats = self.stats[kind]
        return torch.where(stats["std"] > 0, (sample - stats["mean"]) / stats["std"], 0.0)

    def __getitem__(self, idx):
        window = self.state[idx:idx + 2 + self.ar_steps]
        forcing = self.forcing[idx + 2:idx + 2 + self.ar_steps]
        if self.standardize:
            window = self._scale(window, "state")
            forcing = self._scale(forcing, "forcing")
        return window[:2], window[2:], forcing


class GridModel(nn.Module):
    def __init__(self, n_fields, n_forcing, hidden=32):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * n_fields + n_forcing, hidden), nn.SiLU(), nn.LayerNorm(hidden),
                                 nn.Linear(hidden, n_fields))
        self.mix = nn.Linear(n_fields, n_fields, bias=False)

    def predict_step(self, prev_state, prev_prev_state, forcing):
        n_grid = prev_state.shape[1]
        f = forcing.unsqueeze(1).expand(-1, n_grid, -1)
        delta = self.mlp(torch.cat((prev_state, prev_prev_state, f), dim=-1))
        return prev_state + delta + self.mix(prev_state.mean(dim=1, keepdim=True))

    def forward(self, init_states, forcing):
        prev_prev, prev = init_states[:, 0], init_states[:, 1]
        rollout = []
        for i in range(forcing.shape[1]):
            new = self.predict_step(prev, prev_prev, forcing[:, i])
            rollout.append(new)
            prev_prev, prev = prev, new
        return torch.stack(rollout, dim=1)


def main():
    torch.manual_seed(0)
    state, forcing = simulate(n_time=20, n_grid=9)
    dataset = WeatherDataset(state, forcing)
    loader = DataLoader(dataset, batch_size=4, shuffle=True)
    model = GridModel(len(FIELDS), forcing.shape[-1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(2):
        total = 0.0
        for init_states, targets, f in loader:
            prediction = model(init_states, f)
            loss = (prediction - targets).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: wmse {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
