"""Steps of training that leave a graph for the next one, with repaired twins, and steps that keep something else."""

from __future__ import annotations

from relation_pairs import Pair

_TRAINER = """
        class Trainer:
            def __init__(self):
                self.model = nn.GRU(4, 4)
                self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
                self.state, self.total, self.log = torch.zeros(1, 3, 4), 0, []

            # dry-run: x=torch.randn(5, 3, 4)
            def step(self, x):
                self.optimizer.zero_grad()
                out, state = self.model(x, self.state)
                loss = out.square().mean()
                loss.backward()
                self.optimizer.step()
                {}
                return loss.item()
        """

_MODULE = """
        class Placed(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.head, self.places = nn.Linear(4, 4), nn.Linear(4, 2), None
                {}

            # dry-run: x=torch.randn(3, 4)
            def forward(self, x):
                <>
                return self.head(x * self.places)
        """

LEFT = {
    "a state that is not detached": Pair(
        _TRAINER, "self.state = state  # as it is", "self.state = state.detach()", "DG108"
    ),
    "outputs with their graph": Pair(_TRAINER, "self.log.append(out)", "self.log.append(out.detach())", "DG501"),
    "a total with its graph": Pair(_TRAINER, "self.total += loss", "self.total += loss.item()", "DG502"),
    "losses in a list of the file": Pair(
        """
        losses = []
        model = nn.Linear(3, 1)
        optimizer = torch.optim.Adam(model.parameters())

        # dry-run: x=torch.randn(4, 3)
        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            {}
        """,
        "losses.append(loss)",
        "losses.append(loss.detach())",
        "DG501",
    ),
    "gradients that nothing clears": Pair(
        """
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        # dry-run: x=torch.randn(4, 3)
        def step(x):
            loss = model(x).square().mean()
            {}
            optimizer.step()
        """,
        "loss.backward()  # onto those of the step before",
        "optimizer.zero_grad(); loss.backward()",
        "DG703",
    ),
    "a table that the first call computes of weights": Pair(
        _MODULE.replace("{}", "pass").replace("<>", "{}"),
        "if self.places is None: self.places = self.embed(torch.ones(4)).tanh()",
        "self.places = self.embed(torch.ones(4)).tanh()",
        "DG108",
    ),
    "a weight that the constructor computes of another": Pair(
        _MODULE.replace("<>", "pass"),
        "self.places = self.embed.weight.exp().mean(0)",
        "self.places = self.embed.weight.detach().exp().mean(0)",
        "DG108",
    ),
}

FORGOTTEN = {
    "numbers, values without a graph, a graph of the last step": """
        class Trainer:
            def __init__(self):
                self.model = nn.Linear(4, 4)
                self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
                self.log, self.last = [], None

            # dry-run: x=torch.randn(5, 4)
            def step(self, x):
                self.optimizer.zero_grad(set_to_none=True)
                self.last = self.model(x).square().mean()
                self.last.backward()
                self.optimizer.step()
                self.log.append((self.last.item(), x.mean()))
        """,
    "a function whose caller clears the gradients": """
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        # dry-run: x=torch.randn(4, 3)
        def step(x):
            model(x).square().mean().backward()
            optimizer.step()

        def train(batches):
            for x in batches:
                optimizer.zero_grad()
                step(x)
        """,
    "a module that keeps the graph of its last call": """
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.proj, self.weights = nn.Linear(4, 4), None

            # dry-run: x=torch.randn(2, 3, 4)
            def forward(self, x):
                self.weights = (self.proj(x) @ x.mT).softmax(-1)
                return self.weights @ x
        """,
}

OF_CALLERS = {
    "a loss that the caller computes": """
        model = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        # dry-run: loss=model(torch.randn(4, 3)).square().mean()
        def step(loss):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    "a state that a method of the module's resets": """
        class Recurrent(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn, self.state = nn.GRU(4, 4), None

            def reset_state(self):
                self.state = None

            # dry-run: x=torch.randn(5, 3, 4)
            def forward(self, x):
                out, self.state = self.rnn(x, self.state)
                return out
        """,
    "a state that the training sets anew": """
        class Recurrent(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn, self.state = nn.GRU(4, 4), None

            # dry-run: x=torch.randn(5, 3, 4)
            def forward(self, x):
                out, self.state = self.rnn(x, self.state)
                return out

        def train(net, batches):
            for x in batches:
                net.state = None
                net(x).sum().backward()
        """,
    "a function without a step": """
        # dry-run: x=torch.randn(5, 3, 4)
        def step(x):
            return x.square().mean()
        """,
}

_LEARNING = """
        model = nn.Linear(3, 1)
        start = {name: value.clone() for name, value in model.state_dict().items()}
        optimizer = torch.optim.SGD(model.parameters(), <>)

        # dry-run: x=torch.randn(8, 3)
        def step(x):
            {}
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
        """

NOT_LEARNT = {
    "a rate at which it overshoots": (_LEARNING.replace("<>", "30.0").replace("{}", "pass"), "grows|goes"),
    "weights that each step sets back": (
        _LEARNING.replace("<>", "0.1").replace("{}", "model.load_state_dict(start)"),
        "do not change the loss",
    ),
}

LEARNT = {
    "a small rate": _LEARNING.replace("<>", "1e-8").replace("{}", "pass"),
    "a loss that dropout shakes": """
        model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.9), nn.Linear(16, 2))
        optimizer = torch.optim.Adam(model.parameters())

        # dry-run: x=torch.randn(8, 3), y=torch.arange(8) % 2
        def step(x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        """,
}

NOT_TO_FALL = {
    "a rate of 0": _LEARNING.replace("<>", "0.0").replace("{}", "pass"),
    "two players": """
        one, two = nn.Linear(3, 3), nn.Linear(3, 1)
        first = torch.optim.SGD(one.parameters(), 30.0)
        second = torch.optim.SGD(two.parameters(), 30.0)

        # dry-run: x=torch.randn(8, 3)
        def step(x):
            second.zero_grad()
            two(one(x).detach()).square().mean().backward()
            second.step()
            first.zero_grad()
            (-two(one(x))).mean().backward()
            first.step()
        """,
    "inputs that nobody gives": _LEARNING.replace("<>", "30.0").replace("{}", "pass").replace("# dry-run: ", "# "),
}
