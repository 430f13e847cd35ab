# target: script
# truth: The embedding tables have one row per distinct movie, but the raw catalogue numbers (with gaps, up to 900) are
#   used as indices, so the first lookup fails with 'IndexError: index out of range in self' (a device-side assert on
#   CUDA).
"""Matrix factorisation on a MovieLens-style ratings table."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class RatingsTable(Dataset):
    """Ratings with user and movie numbers as they come from the export."""

    def __init__(self, users, movies, ratings):
        self.user_ids, self.users = torch.unique(users, return_inverse=True)
        self.movie_ids = torch.unique(movies)
        self.movies = movies  # error: DG302
        self.ratings = ratings

    @property
    def n_users(self):
        return len(self.user_ids)

    @property
    def n_movies(self):
        return len(self.movie_ids)

    def __len__(self):
        return len(self.ratings)

    def __getitem__(self, i):
        return self.users[i], self.movies[i], self.ratings[i]


def fake_export(n=3000, seed=0):
    """Stands in for ratings.csv; the catalogue numbers have gaps."""
    g = torch.Generator().manual_seed(seed)
    catalogue = torch.randperm(900, generator=g)[:120] + 1
    pick = torch.randint(0, len(catalogue), (n,), generator=g)
    users = torch.randint(1, 201, (n,), generator=g)
    taste = torch.randn(201, 3, generator=g)
    genre = torch.randn(120, 3, generator=g)
    stars = 3.0 + (taste[users] * genre[pick]).sum(1) / 2
    return users, catalogue[pick], stars.clamp(0.5, 5.0)


class Factors(nn.Module):
    def __init__(self, n_users, n_movies, rank=8):
        super().__init__()
        self.user_vec = nn.Embedding(n_users, rank)
        self.movie_vec = nn.Embedding(n_movies, rank)
        self.movie_bias = nn.Embedding(n_movies, 1)
        for table in (self.user_vec, self.movie_vec, self.movie_bias):
            nn.init.normal_(table.weight, std=0.1)
        self.mean = nn.Parameter(torch.tensor(3.0))

    def forward(self, users, movies):
        u = self.user_vec(users)
        m = self.movie_vec(movies)
        return self.mean + (u * m).sum(-1) + self.movie_bias(movies).squeeze(-1)


def run(epochs=4):
    torch.manual_seed(0)
    table = RatingsTable(*fake_export())
    train, valid = random_split(table, [2500, 500])
    model = Factors(table.n_users, table.n_movies).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(epochs):
        model.train()
        for users, movies, stars in DataLoader(train, batch_size=128, shuffle=True):
            pred = model(users.to(device), movies.to(device))
            loss = nn.functional.mse_loss(pred, stars.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        users, movies, stars = next(iter(DataLoader(valid, batch_size=len(valid))))
        error = model(users.to(device), movies.to(device)) - stars.to(device)
    print("valid RMSE", round(error.pow(2).mean().sqrt().item(), 3))


if __name__ == "__main__":
    run()
