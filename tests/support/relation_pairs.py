"""Modules that break a relation, with repaired twins: the culprit's line, what stands there, and instead."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """A program whose ``forward`` is run; ``broken`` stands once in it, at the culprit's line."""

    program: str
    broken: str
    right: str
    code: str | None = None
    """The rule that recognises the cause; None: the relation's own."""


SAMPLES = {
    "softmax over the batch": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(3, 8, 3)
                self.head = nn.Linear(8, 4)

            # dry-run: x=torch.randn(4, 3, 9, 9)
            def forward(self, x):
                x = self.conv(x).relu().mean((2, 3))
                return {}
        """,
        "self.head(x).softmax(0)",
        "self.head(x).softmax(1)",
    ),
    "a view where axes are to be exchanged": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv1d(3, 8, 3, padding=1)
                self.rnn = nn.GRU(8, 8)

            # dry-run: x=torch.randn(2, 3, 10)
            def forward(self, x):
                x = self.conv(x).relu()
                x = {}
                out, _ = self.rnn(x)
                return out.transpose(0, 1)
        """,
        "x.contiguous().view(x.size(2), x.size(0), x.size(1))",
        "x.permute(2, 0, 1)",
    ),
    "a recurrent layer that takes the batch for time": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv1d(3, 8, 3, padding=1)
                self.rnn = nn.LSTM(8, 6, {})
                self.head = nn.Linear(6, 2)

            # dry-run: x=torch.randn(4, 3, 10)
            def forward(self, x):
                x = self.conv(x).relu().transpose(1, 2)
                out, _ = self.rnn(x)  # here
                return self.head(out[:, -1])
        """,
        "num_layers=1",
        "batch_first=True",
    ),
    "normalised over the batch": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(1, 6, 3)

            # dry-run: x=torch.randn(3, 1, 8, 8)
            def forward(self, x):
                x = self.conv(x).flatten(1)
                centre = {}
                return x - centre
        """,
        "x.mean(0)",
        "x.mean(1, keepdim=True)",
    ),
    "attention over the batch": Pair(
        """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv = nn.Conv1d(8, 24, 1)

            # dry-run: x=torch.randn(3, 8, 6)
            def forward(self, x):
                q, k, v = self.qkv(x).chunk(3, 1)
                scores = q.transpose(1, 2) @ k / 8**0.5
                weights = {}
                return (weights @ v.transpose(1, 2)).transpose(1, 2)
        """,
        "scores.softmax(dim=0)",
        "scores.softmax(dim=-1)",
    ),
    "squeezed and excited by the whole batch": Pair(
        """
        class Excite(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(3, 8, 1)
                self.gate = nn.Linear(8, 8)

            # dry-run: x=torch.randn(4, 3, 6, 6)
            def forward(self, x):
                x = self.conv(x)
                squeezed = {}
                return x * self.gate(squeezed).sigmoid()[..., None, None]
        """,
        "x.mean((0, 2, 3))",
        "x.mean((2, 3))",
    ),
    "scaled by the largest of all": Pair(
        """
        class Scale(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())

            # dry-run: x=torch.rand(4, 1, 7, 7)
            def forward(self, x):
                y = self.net(x)
                top = {}
                return y / (top + 1e-6)
        """,
        "y.max()",
        "y.amax((1, 2, 3), keepdim=True)",
    ),
}

STAND_ALONE = {
    "instance norm": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8), nn.ReLU())

            # dry-run: x=torch.randn(2, 3, 8, 8)
            def forward(self, x):
                return self.net(x)
        """,
    "batch norm in evaluation": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
                self.head = nn.Linear(8, 5)

            # dry-run: x=torch.randn(2, 3, 8, 8)
            def forward(self, x):
                return self.head(self.net(x).flatten(1))
        """,
    "an encoder on patches": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.patch = nn.Conv2d(3, 16, 4, 4)
                self.token = nn.Parameter(torch.zeros(1, 1, 16))
                self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

            # dry-run: x=torch.randn(2, 3, 8, 8)
            def forward(self, x):
                x = self.patch(x).flatten(2).transpose(1, 2)
                x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
                return self.encoder(x)[:, 0]
        """,
    "windows that are parted and joined": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Conv2d(3, 8, 1)
                self.mix = nn.Linear(4, 4)

            # dry-run: x=torch.randn(2, 3, 4, 4)
            def forward(self, x):
                x = self.embed(x).permute(0, 2, 3, 1)
                b, h, w, c = x.shape
                x = x.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
                x = self.mix(x.transpose(1, 2)).transpose(1, 2)
                return x.view(b, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        """,
}

UNDECIDED = {
    "a sequence comes first": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.LSTM(6, 6)

            # dry-run: x=torch.randn(7, 2, 6)
            def forward(self, x):
                return self.rnn(x)[0]
        """,
    "statistics of the batch that the text asks for": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, track_running_stats=False))

            # dry-run: x=torch.randn(3, 3, 4, 4)
            def forward(self, x):
                return self.net(x)
        """,
    "the nodes of a graph": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(6, 4)

            # dry-run: x=torch.randn(5, 6), adjacency=torch.eye(5)
            def forward(self, x, adjacency):
                return adjacency @ self.layer(x)
        """,
    "a loss": """
        class Loss(nn.Module):
            # dry-run: x=torch.randn(5, 6), y=torch.randn(5, 6)
            def forward(self, x, y):
                return (x - y).square().mean()
        """,
}

EVALUATION = {
    "dropout that stays on": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(6, 6)

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                x = self.layer(x)
                return {}
        """,
        "F.dropout(x, 0.5)",
        "F.dropout(x, 0.5, self.training)",
    ),
    "a layer of dropout made anew": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(6, 6)
                self.drop = nn.Dropout(0.3)

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                return {}
        """,
        "nn.Dropout(0.3)(self.layer(x))",
        "self.drop(self.layer(x))",
    ),
    "attention weights are dropped": Pair(
        """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv = nn.Linear(8, 24)

            # dry-run: x=torch.randn(2, 5, 8)
            def forward(self, x):
                q, k, v = self.qkv(x).chunk(3, -1)
                return {}
        """,
        "F.scaled_dot_product_attention(q, k, v, dropout_p=0.2)",
        "F.scaled_dot_product_attention(q, k, v, dropout_p=0.2 if self.training else 0.0)",
    ),
    "attention weights are dropped, in a long line": Pair(
        """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv, self.dropout_of_the_weights = nn.Linear(8, 24), 0.2

            # dry-run: x=torch.randn(2, 5, 8)
            def forward(self, x):
                queries, keys, values = self.qkv(x).chunk(3, -1)
                return F.scaled_dot_product_attention(queries, keys, values, is_causal=True, {})
        """,
        "dropout_p=self.dropout_of_the_weights",
        "dropout_p=self.dropout_of_the_weights if self.training else 0.0",
    ),
    "noise that does not ask for the mode": Pair(
        """
        class GaussianNoise(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(6))

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                x = self.scale * x
                return {}
        """,
        "x + 0.1 * torch.randn_like(x)",
        "x + 0.1 * torch.randn_like(x) if self.training else x",
    ),
    "a part that leaves evaluation by itself": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                self.body.train({})
                return self.body(x)  # here
        """,
        "True",
        "self.training",
    ),
    "state that is kept from call to call": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(6, 6)
                self.state = torch.zeros(4, 6)

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                state = self.cell(x, {})  # here
                self.state = state.detach()
                return state
        """,
        "self.state",
        "torch.zeros_like(x)",
    ),
}

TRACES = {
    "running statistics move": Pair(
        """
        class Norm(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(6))
                self.register_buffer("var", torch.ones(6))

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                return F.batch_norm(x, self.mean, self.var, training={})
        """,
        "True",
        "self.training",
    ),
    "an average that is updated in evaluation": Pair(
        """
        class Scale(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(6))

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                if {}:
                    self.mean.lerp_(x.mean(0), 0.1)  # here
                return x - self.mean
        """,
        "True",
        "self.training",
    ),
    "a table is changed in place": Pair(
        """
        class Position(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("table", torch.rand(5, 6))

            # dry-run: x=torch.randn(2, 5, 6)
            def forward(self, x):
                table = {}
                return x + table
        """,
        "self.table.mul_(0.5)",
        "self.table * 0.5",
    ),
    "weights are clamped through data": Pair(
        """
        class Positive(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(6, 6))

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                weight = {}
                return x @ weight
        """,
        "self.weight.data.clamp_(min=0)",
        "self.weight.clamp(min=0)",
    ),
    "a part is left in training": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                self.body.train({})
                return self.body(x)  # here
        """,
        "True",
        "self.training",
    ),
}

NOISE = {
    "a sample is drawn on purpose": """
        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(6, 4)

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                mean, log_std = self.layer(x).chunk(2, -1)
                return mean + torch.randn_like(mean) * log_std.exp()
        """,
    "a choice by its probability": """
        class Policy(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(6, 4)

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                return torch.distributions.Categorical(logits=self.layer(x)).sample()
        """,
}

CACHES = {
    "a table that grows with the input": """
        class Position(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("table", torch.zeros(0, 6), persistent=False)

            # dry-run: x=torch.randn(2, 5, 6)
            def forward(self, x):
                if self.table.shape[0] < x.shape[1]:
                    self.table = torch.arange(x.shape[1] * 6.0).view(-1, 6)
                return x + self.table[: x.shape[1]]
        """,
    "dropout and batch norm as torch has them": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.RReLU())

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                return self.body(x)
        """,
}

SIZES = {
    "squeezed without an axis": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1))
                self.head = nn.Linear(8, 4)

            # dry-run: x=torch.randn(4, 3, 8, 8)
            def forward(self, x):
                x = {}
                return self.head(x)
        """,
        "self.body(x).squeeze()",
        "self.body(x).flatten(1)",
    ),
    "a batch that is written down": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(3, 8, 3)
                self.head = nn.Linear(8 * 36, 4)

            # dry-run: x=torch.randn(4, 3, 8, 8)
            def forward(self, x):
                x = {}
                return self.head(x)
        """,
        "self.conv(x).view(4, -1)",
        "self.conv(x).view(x.size(0), -1)",
    ),
    "a state of a fixed batch": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv1d(3, 8, 3, padding=1)
                self.rnn = nn.GRU(8, 8, batch_first=True)

            # dry-run: x=torch.randn(4, 3, 9)
            def forward(self, x):
                x = self.conv(x).transpose(1, 2)
                state = {}
                return self.rnn(x, state)[0]  # here
        """,
        "torch.zeros(1, 4, 8)",
        "torch.zeros(1, x.size(0), 8)",
    ),
    "the last axis of one sample is taken for another": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv1d(3, 1, 3)

            # dry-run: x=torch.randn(4, 3, 9)
            def forward(self, x):
                x = {}
                return x.softmax(-1)
        """,
        "self.conv(x).squeeze()",
        "self.conv(x).squeeze(1)",
    ),
    "a column of the batch is given up": Pair(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 1))

            # dry-run: x=torch.randn(3, 1, 8, 8)
            def forward(self, x):
                return {}
        """,
        "self.body(x).squeeze()",
        "self.body(x).squeeze(-1)",
    ),
}

CALLS = {
    "a mask of the first length": Pair(
        """
        class Causal(nn.Module):
            def __init__(self):
                super().__init__()
                self.mask = None

            # dry-run: x=torch.randn(2, 6, 6)
            def forward(self, x):
                if {}:
                    self.mask = torch.ones(x.shape[1:]).tril().bool()
                return x.masked_fill(~self.mask, -1e9).softmax(-1)  # here
        """,
        "self.mask is None",
        "self.mask is None or self.mask.shape != x.shape[1:]",
    ),
    "positions that are computed once": Pair(
        """
        class Positions(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.zeros(0, 8)

            # dry-run: x=torch.randn(2, 6, 8)
            def forward(self, x):
                if {}:
                    self.table = torch.arange(x.shape[1]).float()[:, None] / 10
                return x + self.table  # here
        """,
        "not len(self.table)",
        "len(self.table) != x.shape[1]",
    ),
    "a state that is made once": Pair(
        """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.GRUCell(6, 6)
                self.start = None

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                if {}:
                    self.start = torch.zeros(len(x), 6)
                return self.cell(x, self.start)  # here
        """,
        "self.start is None",
        "self.start is None or len(self.start) != len(x)",
    ),
    "a default that is changed": Pair(
        """
        # dry-run: x=torch.randn(4)
        def f(x, seen={}):
            seen = [] if seen is None else seen
            seen.append(x)
            return torch.stack([part.mean() for part in seen]).sum()  # here
        """,
        "[]",
        "None",
    ),
    "a cache without its key": Pair(
        """
        CACHE = {}

        # dry-run: x=torch.randn(4, 3)
        def f(x):
            key = [*]
            if key not in CACHE:
                CACHE[key] = torch.linspace(0, 1, len(x))[:, None]
            return x * CACHE[key]  # here
        """.replace("{}", "dict()").replace("[*]", "{}"),
        "'weights'",
        "len(x)",
    ),
    "what the first call has seen": Pair(
        """
        class Centre(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 3)

            # dry-run: x=torch.randn(5, 3)
            def forward(self, x):
                if {}:
                    self.centre = x.mean(0)
                return self.layer(x - self.centre)  # here
        """,
        "not hasattr(self, 'centre')",
        "True",
    ),
}

INDEPENDENT = {
    "a table by the size that it is for": """
        from functools import lru_cache

        @lru_cache(maxsize=None)
        def table(size):
            return torch.linspace(0, 1, size)

        # dry-run: x=torch.randn(2, 6)
        def f(x):
            return x * table(x.shape[1])
        """,
    "a fixed size": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.position = nn.Parameter(torch.randn(6, 8))
                self.layer = nn.Linear(8, 8)

            # dry-run: x=torch.randn(2, 6, 8)
            def forward(self, x):
                return self.layer(x + self.position)
        """,
    "random numbers": """
        # dry-run: x=torch.randn(2, 6)
        def f(x):
            return x + torch.randn_like(x)
        """,
}

STATEFUL = {
    "an object that is there to keep": """
        class Average:
            def __init__(self):
                self.total, self.count = torch.zeros(3), 0

            # dry-run: self=Average(), x=torch.randn(3)
            def forward(self, x):
                self.total, self.count = self.total + x, self.count + 1
                return self.total / self.count
        """,
    "a function that says it keeps something": """
        STEPS = 0

        # dry-run: x=torch.randn(3)
        def f(x):
            global STEPS
            STEPS += 1
            return x / STEPS
        """,
    "what it is given is changed": """
        # dry-run: x=torch.randn(3), seen=[]
        def f(x, seen):
            seen.append(x)
            return torch.stack(seen).mean(0)
        """,
}
