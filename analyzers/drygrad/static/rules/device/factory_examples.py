"""The examples of rule DG203: whole programs, and what is safe beside them."""

from __future__ import annotations

from drygrad.model import Invalid, Valid

VALID: list[Valid] = [
    Valid(
        """
        class Attention(nn.Module):
            def forward(self, x: torch.Tensor):
                return F.multi_head_attention_forward(
                    x, x, x, 8, 2, torch.empty([0]), self.bias, None, None, False, 0.0, self.out, self.out_bias,
                    use_separate_proj_weight=True, q_proj_weight=self.q, k_proj_weight=self.k, v_proj_weight=self.v,
                )
        """
    ),
    Valid(
        """
        class Sentences(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = nn.Embedding(100, 8)

            def pad(self, ids, size):
                return torch.cat((ids, torch.zeros(size - ids.size(0)).long()), dim=0)

            def tokens(self, words):
                return self.pad(torch.LongTensor(words), 16)
        """
    ),
    Valid(
        "class M(nn.Module):\n    def forward(self, x):\n        return x + torch.zeros(x.shape[1], device=x.device)"
    ),
    Valid("class M(nn.Module):\n    def forward(self, x):\n        return x.exp() * torch.tensor(2.0)"),
    Valid(
        "class M(nn.Module):\n    def forward(self, x):\n"
        "        z = torch.zeros(x.shape[1]).to(x.device)\n        return x + z"
    ),
    Valid("class M(nn.Module):\n    def forward(self, x):\n        return x.exp() + torch.ones(3).type_as(x)"),
    Valid("class M(nn.Module):\n    def forward(self, x):\n        return x.flatten(1)[:, torch.arange(3)]"),
    Valid("class M(nn.Module):\n    def forward(self, n):\n        return torch.arange(n) * 2 + torch.ones(n)"),
    Valid("class M(nn.Module):\n    def forward(self, x):\n        return x.mean() + torch.zeros_like(x)"),
    Valid(
        "class M(nn.Module):\n    def forward(self, x, lengths):\n"
        "        keep = torch.arange(x.size(1)) < lengths[:, None]\n"
        "        return x, keep"
    ),
    Valid(
        "class M(nn.Module):\n    def forward(self, x, counts: torch.Tensor):\n"
        "        return x, torch.arange(x.size(1))[None] < counts[:, None]"
    ),
    Valid(
        """
        def table(length):
            return torch.arange(length).float().unsqueeze(1)

        def mask_of(lengths, longest):
            return torch.arange(longest) < lengths.unsqueeze(1)

        class Positions(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("table", table(512))
                self.seen = None

            def forward(self, x, lengths):
                if x.size(1) > self.table.size(0):
                    self.table = table(x.size(1)).to(x.device)
                if self.seen is None:
                    self.seen = torch.zeros(x.size(1), 1)
                mask = mask_of(lengths, x.size(1)).to(x.device)
                return x.exp() + self.table[: x.size(1)] + self.seen.to(x) + table(x.size(1)).to(x) * mask
        """
    ),
    Valid(
        """
        def table(length):
            return torch.eye(length)

        class Convolution(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(8, 8)
                self.time = nn.Embedding(10, 8)

            def forward(self, x, adjacency, t):
                return adjacency @ self.linear(x) + self.time(t)

        def loss(model, x: torch.Tensor):
            t = torch.randint(0, 10, (x.size(0),))
            return model(x, table(x.size(0)), t).sum()

        def main():
            loss(Convolution(), torch.randn(4, 8)).backward()
        """
    ),
    Valid(
        """
        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.reset()

            def reset(self):
                self.counts = torch.zeros(10)

            def forward(self, x):
                with torch.no_grad():
                    self.counts = self.counts.to(x.device) + x.sum(0)
                return x / self.counts
        """
    ),
    Valid(
        """
        class M(nn.Module):
            def forward(self, x):
                mask = torch.ones(x.size(1))
                if x.is_cuda:
                    mask = mask.cuda()
                return x * mask
        """
    ),
    Valid(
        """
        class Pool(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.scale = nn.Parameter(torch.empty(dim, 1))
                self.reset_parameters()

            def reset_parameters(self):
                with torch.no_grad():
                    self.scale.normal_().add_(torch.ones(len(self.scale), 1))

            def forward(self, x):
                x = x.float()
                places = torch.arange(4).unsqueeze(0).repeat(x.size(0), 1)
                noise = torch.rand(x.size(0), 1).expand(x.size(0), 4)
                return x * (places + noise).to(x.device)
        """
    ),
]
INVALID: list[Invalid] = [
    Invalid(
        """
        class Combination(nn.Module):
            def __init__(self, n: int):
                super().__init__()
                self.weights = nn.Parameter(torch.ones(n))

            def forward(self, inputs):
                out = 0
                for x, w in zip(inputs, self.weights):
                    out = out + w * torch.FloatTensor(x)
                return out
        """,
        """
        class Combination(nn.Module):
            def __init__(self, n: int):
                super().__init__()
                self.weights = nn.Parameter(torch.ones(n))

            def forward(self, inputs):
                out = 0
                for x, w in zip(inputs, self.weights):
                    out = out + w * torch.FloatTensor(x).to(w.device)
                return out
        """,
    ),
    Invalid(
        """
        class Grid(nn.Module):
            def __init__(self, stop: int):
                super().__init__()
                self.stop = stop

            def forward(self, points: torch.Tensor):
                centers = self.cells()
                return torch.sum((points.unsqueeze(1) - centers) ** 2, dim=-1)

            def cells(self):
                return torch.arange(self.stop).reshape(-1, 1)
        """,
    ),
    Invalid(
        "def f(x: torch.Tensor):\n    return x + torch.ones(3)",
        "def f(x: torch.Tensor):\n    return x + torch.ones(3, device=x.device)",
    ),
    Invalid(
        """
        def length_mask(lengths, longest):
            frames = torch.arange(longest)
            return frames.unsqueeze(0) < lengths.unsqueeze(1)

        class Pooling(nn.Module):
            def __init__(self):
                super().__init__()
                self.score = nn.Linear(8, 1)

            def forward(self, x, lengths):
                mask = length_mask(lengths, x.size(1)).unsqueeze(2)
                weights = self.score(x).masked_fill(~mask, -1e4).softmax(dim=1)
                return (x * weights).sum(dim=1)
        """,
        """
        def length_mask(lengths, longest):
            frames = torch.arange(longest, device=lengths.device)
            return frames.unsqueeze(0) < lengths.unsqueeze(1)

        class Pooling(nn.Module):
            def __init__(self):
                super().__init__()
                self.score = nn.Linear(8, 1)

            def forward(self, x, lengths):
                mask = length_mask(lengths, x.size(1)).unsqueeze(2)
                weights = self.score(x).masked_fill(~mask, -1e4).softmax(dim=1)
                return (x * weights).sum(dim=1)
        """,
        at=(2, 13, 2, 34),
    ),
    Invalid(
        """
        def sinusoids(length, dim):
            table = torch.zeros(length, dim)
            table[:, 0::2] = torch.sin(torch.arange(length).float().unsqueeze(1))
            return table

        class Positions(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.dim = dim
                self.register_buffer("table", sinusoids(512, dim))

            def _ensure(self, length):
                if length > self.table.size(0):
                    self.table = sinusoids(2 * length, self.dim)

            def forward(self, x):
                self._ensure(x.size(1))
                return x * 2 + self.table[: x.size(1)]
        """,
        """
        def sinusoids(length, dim):
            table = torch.zeros(length, dim)
            table[:, 0::2] = torch.sin(torch.arange(length).float().unsqueeze(1))
            return table

        class Positions(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.dim = dim
                self.register_buffer("table", sinusoids(512, dim))

            def _ensure(self, length):
                if length > self.table.size(0):
                    self.table = sinusoids(2 * length, self.dim).to(self.table.device)

            def forward(self, x):
                self._ensure(x.size(1))
                return x * 2 + self.table[: x.size(1)]
        """,
        at=(14, 25, 14, 56),
    ),
    Invalid(
        """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.proj = nn.Linear(8, 8)
                self.mask = None

            def forward(self, x):
                scores = self.proj(x) @ x.transpose(1, 2)
                n = x.size(1)
                if self.mask is None or self.mask.size(0) < n:
                    self.mask = torch.tril(torch.ones(n, n))
                return scores.masked_fill(self.mask[:n, :n] == 0, -1e9)
        """,
        """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.proj = nn.Linear(8, 8)
                self.mask = None

            def forward(self, x):
                scores = self.proj(x) @ x.transpose(1, 2)
                n = x.size(1)
                if self.mask is None or self.mask.size(0) < n:
                    self.mask = torch.tril(torch.ones(n, n, device=x.device))
                return scores.masked_fill(self.mask[:n, :n] == 0, -1e9)
        """,
    ),
    Invalid(
        """
        class Forecaster(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.GRU(3, 4, num_layers=2)
                self.first = nn.Linear(3, 4)

            def start(self, place):
                state = torch.zeros(2, place.size(0), 4)
                state[0] = torch.tanh(self.first(place))
                return state

            def forward(self, x, place):
                return self.rnn(x, self.start(place))[0]
        """,
        """
        class Forecaster(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.GRU(3, 4, num_layers=2)
                self.first = nn.Linear(3, 4)

            def start(self, place):
                state = torch.zeros(2, place.size(0), 4, device=place.device)
                state[0] = torch.tanh(self.first(place))
                return state

            def forward(self, x, place):
                return self.rnn(x, self.start(place))[0]
        """,
    ),
    Invalid(
        """
        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(8, 4)

            def forward(self, x):
                state = torch.zeros(x.size(0), 4)
                for step in range(x.size(1)):
                    state = self.cell(x[:, step], state)
                return state
        """,
        """
        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(8, 4)

            def forward(self, x):
                state = torch.zeros(x.size(0), 4, device=x.device)
                for step in range(x.size(1)):
                    state = self.cell(x[:, step], state)
                return state
        """,
    ),
    Invalid(
        """
        class Tagger(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(3, 4)

            def start(self, size):
                return torch.zeros(1, size, 4)

            def forward(self, x):
                h = c = self.start(x.size(1))
                return self.lstm(x, (h, c))[0]
        """,
        """
        class Tagger(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(3, 4)

            def start(self, size):
                return torch.zeros(1, size, 4, device=next(self.parameters()).device)

            def forward(self, x):
                h = c = self.start(x.size(1))
                return self.lstm(x, (h, c))[0]
        """,
    ),
    Invalid(
        """
        class Gaussian(nn.Module):
            def sample(self, mean, log_variance):
                deviation = torch.exp(0.5 * log_variance)
                noise = torch.randn(deviation.size())
                return mean + noise * deviation
        """,
        """
        class Gaussian(nn.Module):
            def sample(self, mean, log_variance):
                deviation = torch.exp(0.5 * log_variance)
                noise = torch.randn(deviation.size(), device=log_variance.device)
                return mean + noise * deviation
        """,
    ),
    Invalid(
        "class M(nn.Module):\n    def forward(self, x):\n        return x + torch.zeros(x.shape[1])",
        "class M(nn.Module):\n    def forward(self, x):\n        return x + torch.zeros(x.shape[1], device=x.device)",
        at=(3, 19, 3, 42),
    ),
    Invalid(
        """
        class Attention(nn.Module):
            def __init__(self, dim: int):
                super().__init__()
                self.qkv = nn.Linear(dim, 3 * dim)

            def forward(self, x):
                b, t, d = x.shape
                q, k, v = self.qkv(x).chunk(3, dim=-1)
                scores = q @ k.transpose(-2, -1) / d ** 0.5
                mask = torch.triu(torch.ones(t, t), diagonal=1).bool()
                scores = scores.masked_fill(mask, float("-inf"))
                return scores.softmax(-1) @ v
        """,
        """
        class Attention(nn.Module):
            def __init__(self, dim: int):
                super().__init__()
                self.qkv = nn.Linear(dim, 3 * dim)

            def forward(self, x):
                b, t, d = x.shape
                q, k, v = self.qkv(x).chunk(3, dim=-1)
                scores = q @ k.transpose(-2, -1) / d ** 0.5
                mask = torch.triu(torch.ones(t, t, device=x.device), diagonal=1).bool()
                scores = scores.masked_fill(mask, float("-inf"))
                return scores.softmax(-1) @ v
        """,
        at=(10, 26, 10, 42),
    ),
    Invalid(
        """
        class GPT(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens = nn.Embedding(1000, 64)
                self.positions = nn.Embedding(128, 64)

            def forward(self, ids):
                positions = torch.arange(0, ids.size(1))
                return self.tokens(ids) + self.positions(positions)
        """,
        """
        class GPT(nn.Module):
            def __init__(self):
                super().__init__()
                self.tokens = nn.Embedding(1000, 64)
                self.positions = nn.Embedding(128, 64)

            def forward(self, ids):
                positions = torch.arange(0, ids.size(1), device=ids.device)
                return self.tokens(ids) + self.positions(positions)
        """,
    ),
    Invalid(
        """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.Linear(12, 4)

            def forward(self, x: torch.Tensor):
                h = torch.zeros(
                    x.size(0),
                    4,
                )
                return torch.cat([x, h], dim=1)
        """,
        """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.Linear(12, 4)

            def forward(self, x: torch.Tensor):
                h = torch.zeros(
                    x.size(0),
                    4,
                    device=x.device,
                )
                return torch.cat([x, h], dim=1)
        """,
    ),
]
