# source: https://github.com/HerreraKrachTeichmann/NJODE/issues/14
"""Neural jump ODE: continuous prediction of a path that is observed at irregular times."""
import torch
from torch import nn


def get_ffnn(input_size, output_size, hidden, dropout=0.0):
    return nn.Sequential(
        nn.Linear(input_size, hidden), nn.Tanh(), nn.Dropout(dropout), nn.Linear(hidden, output_size)
    )


class ODEFunc(nn.Module):
    """Right-hand side of the hidden dynamics between two observations."""

    def __init__(self, input_size, hidden_size, width):
        super().__init__()
        self.f = get_ffnn(input_size + hidden_size + 2, hidden_size, width)

    def forward(self, x, h, tau, tdiff):
        input_f = torch.cat([torch.tanh(x), torch.tanh(h), tau, tdiff], dim=1)
        return self.f(input_f)


class NJODE(nn.Module):
    def __init__(self, input_size, hidden_size=10, output_size=None, width=32, weight=0.5):
        super().__init__()
        output_size = output_size or input_size
        self.ode_f = ODEFunc(input_size, hidden_size, width)
        self.encoder_map = get_ffnn(input_size, hidden_size, width)
        self.readout_map = get_ffnn(hidden_size, output_size, width)
        self.weight = weight

    def ode_step(self, h, delta_t, current_time, last_x, tau):
        h = h + delta_t * self.ode_f(last_x, h, tau, current_time - tau)
        return h, current_time + delta_t

    def compute_loss(self, x_obs, y_before, y_after, eps=1e-10):
        inner = 2 * self.weight * torch.sqrt(((x_obs - y_after) ** 2).sum(1) + eps)
        inner = inner + 2 * (1 - self.weight) * torch.sqrt(((y_after - y_before) ** 2).sum(1) + eps)
        return (inner ** 2).mean()

    def forward(self, times, time_ptr, X, obs_idx, delta_t, T, start_X):
        """times: list of floats; rows time_ptr[i]:time_ptr[i+1] of X are seen at times[i] for paths obs_idx."""
        batch_size = start_X.size(0)
        last_x = start_X
        tau = torch.tensor([[0.0]], device=start_X.device).repeat(batch_size, 1)
        h = self.encoder_map(last_x)
        current_time, loss = 0.0, 0.0
        path_t, path_y = [0.0], [self.readout_map(h)]

        for i, obs_time in enumerate(times):
            while current_time < obs_time - 1e-10:
                step = min(delta_t, obs_time - current_time)
                h, current_time = self.ode_step(h, step, current_time, last_x, tau)
                path_t.append(current_time)
                path_y.append(self.readout_map(h))

            start, end = time_ptr[i], time_ptr[i + 1]
            x_obs, i_obs = X[start:end], obs_idx[start:end]
            y_before = self.readout_map(h)
            h = h.index_copy(0, i_obs, self.encoder_map(x_obs))
            y_after = self.readout_map(h)
            loss = loss + self.compute_loss(x_obs, y_before[i_obs], y_after[i_obs])
            last_x = last_x.index_copy(0, i_obs, x_obs)
            tau = tau.index_fill(0, i_obs, obs_time)

        while current_time < T - 1e-10:
            h, current_time = self.ode_step(h, min(delta_t, T - current_time), current_time, last_x, tau)
            path_t.append(current_time)
            path_y.append(self.readout_map(h))
        return loss, path_t, torch.stack(path_y)


def make_observations(n_paths, times, dim, device):
    rows, idx, ptr = [], [], [0]
    for _ in times:
        seen = torch.randperm(n_paths)[: max(1, n_paths // 2)]
        idx.append(seen)
        rows.append(torch.randn(seen.numel(), dim).cumsum(0) * 0.1)
        ptr.append(ptr[-1] + seen.numel())
    return torch.cat(rows).to(device), torch.cat(idx).to(device), ptr


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    times = [0.2, 0.5, 0.8]
    model = NJODE(input_size=1).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=5e-4)
    for epoch in range(4):
        X, obs_idx, ptr = make_observations(6, times, 1, device)
        start_X = torch.ones(6, 1, device=device)
        optimizer.zero_grad()
        loss, path_t, path_y = model(times, ptr, X, obs_idx, 0.1, 1.0, start_X)
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f} path {tuple(path_y.shape)}")
