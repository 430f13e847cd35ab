# target: script
# source: https://github.com/openclimatefix/pvnet/pull/378
# truth: the embedding gets max(id) rows, but ids run up to and including max(id); training works until a batch holds the site with
#   the highest id (first reporting on day 41 here), then "IndexError: index out of range in self".
"""Short-term forecasts of the output of photovoltaic sites."""
import torch
from torch import nn

SITES = {"alba": 1, "brix": 2, "caldo": 3, "dune": 5, "elmo": 8, "foss": 9}
ON_GRID_SINCE = {"alba": 0, "brix": 0, "caldo": 10, "dune": 0, "elmo": 20, "foss": 41}
HORIZON, HISTORY = 4, 8


class SiteModel(nn.Module):
    def __init__(self, location_id_mapping, embedding_dim=8, hidden=48):
        super().__init__()
        self.location_id_mapping = location_id_mapping
        num_embeddings = max(location_id_mapping.values())  # error: DG302
        self.embed = nn.Embedding(num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.mlp = nn.Sequential(
            nn.Linear(HISTORY + 2 + embedding_dim, hidden), nn.LeakyReLU(),
            nn.Linear(hidden, HORIZON), nn.Sigmoid(),
        )

    def forward(self, batch):
        return self.mlp(torch.cat([batch["history"], batch["sun"], self.embed(batch["site_id"])], dim=1))


def site_day(name, day):
    """quarter hours of a day: capacity factor of a site with its own shading"""
    steps = torch.arange(48) / 48.0
    clear = torch.clamp(torch.sin(3.1416 * steps), min=0)
    cloud = 0.6 + 0.4 * torch.rand(())
    shade = 1.0 - 0.5 * ((steps * 10).long() % len(name) == 0).float()
    return clear * cloud * shade + 0.02 * torch.rand(48), steps


def batch_for_day(day, per_site=6):
    rows = {"history": [], "sun": [], "site_id": [], "target": []}
    for name, site_id in SITES.items():
        if day < ON_GRID_SINCE[name]:
            continue
        power, steps = site_day(name, day)
        for start in torch.randint(0, 48 - HISTORY - HORIZON, (per_site,)).tolist():
            mid = start + HISTORY
            rows["history"].append(power[start:mid])
            rows["target"].append(power[mid:mid + HORIZON])
            rows["sun"].append(torch.stack([torch.sin(3.1416 * steps[mid]), steps[mid]]))
            rows["site_id"].append(torch.tensor(site_id))
    return {k: torch.stack(v) for k, v in rows.items()}


def train(days=60, lr=4e-3, log_every=10):
    model = SiteModel(SITES)
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    running = []
    for day in range(days):
        for _ in range(3):
            batch = batch_for_day(day)
            loss = nn.functional.l1_loss(model(batch), batch["target"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            running.append(loss.item())
        if day % log_every == log_every - 1:
            print(f"day {day + 1}: mae {sum(running) / len(running):.4f}")
            running.clear()
    return model


if __name__ == "__main__":
    torch.manual_seed(6)
    train()
