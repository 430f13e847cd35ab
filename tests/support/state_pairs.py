"""Modules that need for their results what their state does not have, with repaired twins, and modules that do not."""

from __future__ import annotations

from relation_pairs import Pair

LOST = {
    "frequencies that are drawn": Pair(
        """
        class Fourier(nn.Module):
            def __init__(self, width=8):
                super().__init__()
                {}
                self.head = nn.Linear(width, 3)

            # dry-run: x=torch.randn(4, 2)
            def forward(self, x):
                return self.head(torch.sin(x @ self.freqs))
        """,
        "self.freqs = torch.randn(2, width)",
        'self.register_buffer("freqs", torch.randn(2, width))',
    ),
    "an order that is drawn, in a buffer that is not saved": Pair(
        """
        class Permuted(nn.Module):
            def __init__(self):
                super().__init__()
                {}
                self.head = nn.Linear(8, 3)

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                return self.head(x[:, self.order])
        """,
        'self.register_buffer("order", torch.randperm(8), persistent=False)',
        'self.register_buffer("order", torch.randperm(8))',
    ),
    "a running mean": Pair(
        """
        class Centred(nn.Module):
            def __init__(self, width=8):
                super().__init__()
                {}
                self.head = nn.Linear(width, 3)

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                if self.training:
                    self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()
                return self.head(x - self.mean)
        """,
        "self.mean = torch.zeros(width)",
        'self.register_buffer("mean", torch.zeros(width))',
    ),
    "a temperature that falls in training": Pair(
        """
        class Gate(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(8, 3)
                {}

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                if self.training:
                    self.tau *= 0.9
                return self.head(x) / self.tau
        """,
        "self.tau = 1.0",
        'self.register_buffer("tau", torch.tensor(1.0))',
    ),
    "an inverse of weights": Pair(
        """
        class Flow(nn.Module):
            def __init__(self, width=6):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(width, width))
                {}

            # dry-run: x=torch.randn(4, 6)
            def forward(self, x):
                return (x @ self.inverse).relu() @ self.weight
        """,
        "self.inverse = torch.inverse(self.weight.detach())",
        'self.register_buffer("inverse", torch.inverse(self.weight.detach()))',
    ),
    "a table in an object of its own, in an inner module": Pair(
        """
        class Codes:
            def __init__(self, rows, seed=None):
                generator = torch.Generator()
                generator.manual_seed(seed) if seed is not None else generator.seed()
                self.table = torch.randn(rows, rows, generator=generator)

        class Coded(nn.Module):
            def __init__(self):
                super().__init__()
                {}

            def forward(self, x):
                return x @ self.codes.table

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(nn.Linear(8, 8), Coded(), nn.BatchNorm1d(8))

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                return self.body(x)
        """,
        "self.codes = Codes(8)",
        "self.codes = Codes(8, seed=0)",
    ),
    "layers in a dict": Pair(
        """
        class Heads(nn.Module):
            def __init__(self):
                super().__init__()
                {}

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                return self.heads["one"](x) + self.heads["two"](x)
        """,
        "self.heads = dict(one=nn.Linear(8, 3), two=nn.Linear(8, 3))",
        "self.heads = nn.ModuleDict(dict(one=nn.Linear(8, 3), two=nn.Linear(8, 3)))",
        "DG741",
    ),
    "a weight that is no parameter": Pair(
        """
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                {}

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                return x @ self.weight
        """,
        "self.weight = torch.randn(8, 3).requires_grad_()",
        "self.weight = nn.Parameter(torch.randn(8, 3))",
        "DG744",
    ),
    "a buffer that the first call makes": Pair(
        """
        class Placed(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(8, 3)

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                if not hasattr(self, "places"):
                    {}
                return self.head(x + self.places)
        """,
        'self.register_buffer("places", torch.arange(8.0))',
        'self.register_buffer("places", torch.arange(8.0), persistent=False)',
    ),
}

KEPT = {
    "constants, layers that are known, numbers and counters": """
        class Net(nn.Module):
            def __init__(self, width=8):
                super().__init__()
                self.layers = [nn.Linear(width, width), nn.Linear(width, width)]
                self.net = nn.Sequential(*self.layers)
                self.scale = torch.tensor(width**0.5)
                self.mask = torch.ones(width, width).tril()
                self.flat = self.layers[0].weight.view(-1)
                self.sizes, self.calls = [1, 2, 3], 0

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                self.calls += 1
                return self.net(x) @ self.mask * self.scale + self.flat[:8]
        """,
    "a table that grows and is not saved": """
        class Placed(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("places", torch.zeros(0), persistent=False)

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                if len(self.places) < x.shape[1]:
                    self.places = torch.arange(float(x.shape[1])).sin()
                return x + self.places
        """,
    "a teacher that is passed in and hidden": """
        class Student(nn.Module):
            def __init__(self, teacher):
                super().__init__()
                self.teacher = [teacher]
                self.head = nn.Linear(8, 3)

            # dry-run: self=Student(nn.Linear(8, 8)), x=torch.randn(4, 8)
            def forward(self, x):
                return self.head(self.teacher[0](x))
        """,
    "a projection that is drawn from a seed": """
        class Projected(nn.Module):
            def __init__(self):
                super().__init__()
                self.proj = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                return x @ self.proj
        """,
    "values that nothing needs": """
        class Noted(nn.Module):
            def __init__(self):
                super().__init__()
                self.noise, self.seen = torch.randn(8), []
                self.head = nn.Linear(8, 3)

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                self.seen.append(x.mean().item())
                return self.head(x)
        """,
}

NOT_OWED = {
    "a state that the caller resets": """
        class Spikes(nn.Module):
            def __init__(self):
                super().__init__()
                self.charge = torch.zeros(8)

            def reset_state(self):
                self.charge = torch.zeros(8)

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                if self.training:
                    self.charge = self.charge + x.sum(0)
                return x + self.charge
        """,
    "results that differ from call to call": """
        class Recurrent(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn, self.last = nn.GRU(8, 3, batch_first=True), None

            # dry-run: x=torch.randn(4, 5, 8)
            def forward(self, x):
                out, last = self.rnn(x, self.last)
                self.last = last.detach()
                return out
        """,
    "a constructor that cannot be called twice": """
        class Once(nn.Module):
            made = False

            def __init__(self):
                super().__init__()
                assert not Once.made
                Once.made = True
                self.noise = torch.randn(8)

            # dry-run: x=torch.randn(4, 8)
            def forward(self, x):
                return x + self.noise
        """,
}
