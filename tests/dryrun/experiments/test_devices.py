"""Devices are equal: what passed on the CPU is called once more with its inputs on the (simulated) GPU."""

from __future__ import annotations

import pytest
from verify_lab import Lab, written

CODE = "DG921"

OWN = {
    "a factory in a function": (
        "DG203",
        3,
        """
        # dry-run: x=torch.randn(2, 5, 3), lengths=[5, 2]
        def f(x, lengths):
            mask = torch.zeros(x.shape[:2])
            for row, length in enumerate(lengths):
                mask[row, :length] = 1
            return (x * mask[..., None]).sum(1)
        """,
    ),
    "numbers in a helper": (
        "DG205",
        7,
        """
        def kernel(size):
            values = torch.tensor([float(i) for i in range(size)])
            return values / values.sum()

        # dry-run: x=torch.randn(1, 1, 9)
        def f(x):
            return F.conv1d(x, kernel(3)[None, None])
        """,
    ),
    "an attribute that is no buffer": (
        "DG204",
        4,
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.ones(3)
                self.layer = nn.Linear(3, 3)

            def forward(self, x):
                return self.layer(x) * self.scale

        # dry-run: net=Net(), x=torch.randn(2, 3)
        def f(net, x):
            return net(x)
        """,
    ),
    "a layer made in the call": (
        "DG201",
        3,
        """
        # dry-run: x=torch.randn(2, 3)
        def f(x):
            return nn.Linear(3, 4)(x)
        """,
    ),
    "a constant of the file": (
        "DG205",
        8,
        """
        WEIGHTS = torch.tensor([0.3, 0.6, 0.1])

        def weights():
            return WEIGHTS

        # dry-run: x=torch.randn(2, 3)
        def f(x):
            return x * WEIGHTS
        """,
    ),
    "a way over the host": (
        "DG205",
        3,
        """
        # dry-run: x=torch.randn(2, 3)
        def f(x):
            best = x.detach().cpu()
            return x - best
        """,
    ),
    "only in backward": (
        "DG203",
        10,
        """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return 2 * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return grad * torch.full(x.shape, 2.0)

        # dry-run: x=torch.randn(3, requires_grad=True)
        def f(x):
            return Double.apply(x)
        """,
    ),
}

RIGHT = {
    "on the device of its input": """
        # dry-run: x=torch.randn(2, 5), lengths=[5, 2]
        def f(x, lengths):
            mask = torch.arange(x.shape[1], device=x.device) < torch.tensor(lengths, device=x.device)[:, None]
            return x * mask
        """,
    "results that go to the host on purpose": """
        # dry-run: x=torch.randn(2, 5)
        def f(x):
            return x.sum(0).cpu(), x.detach().to("cpu", torch.float64)
        """,
    "scalars go with any device": """
        # dry-run: x=torch.randn(2, 5)
        def f(x):
            return x * torch.tensor(2.0) + torch.pi
        """,
    "buffers": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("scale", torch.ones(3))
                self.layer = nn.Linear(3, 3)

            def forward(self, x):
                return self.layer(x) * self.scale

        # dry-run: net=Net(), x=torch.randn(2, 3)
        def f(net, x):
            return net(x)
        """,
    "numbers go back to the host": """
        # dry-run: x=torch.randn(2, 5), y=torch.tensor([0, 1])
        def f(x, y):
            hits = (x.argmax(1) == y).sum().item()
            return hits / len(y), x.detach().cpu().numpy()
        """,
    "a dict and a tuple of inputs": """
        # dry-run: batch={"x": torch.randn(2, 5), "pair": (torch.ones(5), [torch.zeros(5)])}
        def f(batch):
            first, (second,) = batch["pair"]
            return batch["x"] * first + second
        """,
}

UNTRIED = {
    "a loader's batches are the loader's": (
        "batch iterator",
        """
        # dry-run: net=nn.Linear(3, 2), loader=torch.utils.data.DataLoader(torch.randn(6, 3), batch_size=2)
        def f(net, loader):
            return [net(x) for x in loader]
        """,
    ),
    "what a function brings along came with the inputs": (
        "came with the inputs",
        """
        WEIGHTS = torch.ones(3)

        # dry-run: x=torch.randn(2, 3), weigh=lambda x: x * WEIGHTS
        def f(x, weigh):
            return weigh(x)
        """,
    ),
    "nothing to move": (
        "nothing among its inputs",
        """
        # dry-run: n=4
        def f(n):
            return torch.arange(n) / n
        """,
    ),
    "the program moves by itself": (
        "already on the GPU",
        """
        # dry-run: x=torch.randn(2, 3, device="cuda"), y=torch.ones(3)
        def f(x, y):
            return x + y.to(x.device)
        """,
    ),
}


LEARNER = """
        class Learner:
            def __init__(self, net, data, device="cpu"):
                self.device = torch.device(device)
                self.net = net.to(self.device)
                self.optimizer = torch.optim.Adam(self.net.parameters())
                self.data = data
                self.seen = torch.zeros(2, device=self.device)

            def learn(self):
                for x, y in self.data:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.net(x.to(self.device)), {}).backward()
                    self.optimizer.step()
                    self.seen += self.net.bias.detach()

        data = torch.utils.data.DataLoader([(torch.randn(3), n % 2) for n in range(6)], batch_size=2)
        learner = Learner(nn.Linear(3, 2), data)
        learner.learn()
        learner.learn()
        """
METER = """
        class Meter:
            def __init__(self, window=3, eta=0.5):
                weights = torch.exp(-eta * torch.arange(window))
                self.weights = weights / weights.sum()
                self.window = window
                self.values = []

            def mean(self, value):
                self.values.append(value)
                if len(self.values) < self.window:
                    return None
                return torch.stack(self.values[-self.window :]) @ {}

        meter = Meter()
        meter.mean(torch.tensor(0.25))
        """
OBJECTS = {
    "batches that an object fetches and does not move": (LEARNER, "Learner.learn", 12, "y", "y.to(self.device)"),
    "what an object has made, met at a later call": (METER, "Meter.mean", 12, "self.weights", "self.weights.to(value)"),
}


@pytest.mark.parametrize("case", OBJECTS)
def test_an_object_of_the_programs_works_on_the_gpu_as_well(case: str, lab: Lab) -> None:
    program, target, line, broken, right = OBJECTS[case]
    record = lab.experimented(written(program.format(broken)), target, CODE)
    (finding,) = (finding for finding in record.findings if "the GPU" in finding.message)
    assert (finding.code, finding.span.start.line - 3, finding.severity) == ("DG205", line, "info")
    record = lab.experimented(written(program.format(right)), target, CODE)
    assert [(one.outcome, one.why) for one in record.result.tried] == [("held", "")]


OPTIMIZER = """
        class Summing(torch.optim.Optimizer):
            def __init__(self, parameters, eps=1e-8):
                super().__init__(parameters, {{"lr": 0.1}})
                self.eps = eps

            @torch.no_grad()
            def step(self, closure=None):
                if closure is not None:
                    with torch.enable_grad():
                        closure()
                for p in self.param_groups[0]["params"]:
                    state = self.state[p]
                    if not state:
                        state["sum"] = {}
                    p.sub_(p.grad / (state["sum"].add_(p.grad).abs() + self.eps))

        net = nn.Linear(3, 2)
        optimizer = Summing(net.parameters())
        x = torch.ones(4, 3)

        def again():
            loss = net(x).sum()
            loss.backward()
            return loss

        net(x).sum().backward()
        optimizer.step({})
        """


@pytest.mark.parametrize("closure", ["", "again"])
def test_an_optimizer_updates_parameters_on_the_gpu_as_well(lab: Lab, closure: str) -> None:
    record = lab.experimented(written(OPTIMIZER.format("torch.zeros(p.shape)", closure)), "Summing.step", CODE)
    (finding,) = (finding for finding in record.findings if "the GPU" in finding.message)
    assert (finding.code, finding.span.start.line - 3, finding.severity) == ("DG205", 15, "info")
    record = lab.experimented(written(OPTIMIZER.format("torch.zeros_like(p)", closure)), "Summing.step", CODE)
    assert [(one.outcome, one.why) for one in record.result.tried] == [("held", "")]


def test_what_another_file_meets_is_told_where_the_target_has_fetched_it(lab: Lab) -> None:
    _, home = lab.run(written("def f():\n    return 1"), "f")
    within = "def within(one, other):\n    return (one - other).sum()\n"
    (home.root / "away.py").write_text(f"{within}def apart(one, others):\n    return within(one, others[0])\n")
    program = """
        from away import apart
        class Learner:
            def __init__(self, net, data):
                self.device, self.net, self.data = torch.device("cpu"), net, data

            def learn(self):
                for x in self.data:
                    apart(self.net(x.to(self.device)), (x,)).backward()

        learner = Learner(nn.Linear(3, 3), torch.utils.data.DataLoader(torch.randn(6, 3), batch_size=2))
        learner.learn()
        """
    record = lab.experimented(written(program), "Learner.learn", CODE)
    assert [(one.outcome, one.why) for one in record.result.tried] == [("broken", "")]
    (finding,) = record.findings
    assert (finding.path, finding.span.start.line - 3, finding.related[-1].span.start.line) == (None, 7, 4)


BASIS = """
        class Basis(nn.Module):
            def __init__(self, size=4, trainable=True):
                super().__init__()
                weights = torch.linspace(1.0, float(size), size)
                if trainable:
                    self.weights = nn.Parameter(weights)
                else:
                    {}

            def forward(self, x):
                return torch.sin(x[..., None] * self.weights)

        # dry-run: basis=Basis(){}, x=torch.rand(3){}
        def f(basis, x):
            return basis(x)

        Basis(){}(torch.rand(3){})
        """


@pytest.mark.parametrize("there", ["", ", device='cuda'"])
def test_a_module_made_with_the_other_of_true_and_false(there: str, lab: Lab) -> None:
    moved = ".cuda()" if there else ""
    places = moved, there, moved, there
    record = lab.experimented(written(BASIS.format("self.weights = weights", *places)), "Basis.forward", CODE)
    (finding,) = (finding for finding in record.findings if "made with trainable=False" in finding.message)
    assert (finding.code, finding.severity) == ("DG204", "info")
    record = lab.experimented(
        written(BASIS.format("self.register_buffer('weights', weights)", *places)), "Basis.forward", CODE
    )
    assert [(one.outcome, one.why) for one in record.result.tried] == [("held", "")]


@pytest.mark.parametrize("case", OWN)
def test_what_the_code_itself_makes_on_the_cpu_is_told(case: str, lab: Lab) -> None:
    code, line, program = OWN[case]
    record = lab.experimented(written(program), "f", CODE)
    assert record.result.outcome == "passed"
    assert [(one.code, one.outcome) for one in record.result.tried] == [(CODE, "broken")]
    (finding,) = (finding for finding in record.findings if "on the GPU" in finding.message)
    assert (finding.code, finding.span.start.line - 3, finding.severity) == (code, line, "warning")


def test_a_target_with_a_parameter_for_it_is_told_the_device(lab: Lab) -> None:
    program = """
        # dry-run: n=4
        def f(n, device=None):
            grid = torch.arange(n, device=device)
            return grid * torch.ones(n)
        """
    (finding,) = (f for f in lab.experimented(written(program), "f", CODE).findings if f.run)
    assert (finding.code, finding.span.start.line - 3) == ("DG203", 4)


def test_a_fix_holds_only_where_the_relation_was_tried_with_it(lab: Lab) -> None:
    program = """
        # dry-run: x=torch.randn(2, 3)
        def f(x):
            return x + torch.ones(3)
        """
    record = lab.experimented(written(program), "f", CODE)
    assert [finding.code for finding in record.findings] == ["DG203"]
    assert lab.verdict_on(record, "torch.ones(3)", "torch.ones(3, device=x.device)") is True
    assert lab.verdict_on(record, "torch.ones(3)", "torch.ones(1, 3)") is False
    assert lab.verdict_on(record, "torch.ones(3)", '(int("x") if x.is_cuda else torch.ones(3))') is None


@pytest.mark.parametrize("moved", ["", ".to(device)"])
def test_what_the_program_itself_calls_on_the_cpu_is_told_as_an_info(moved: str, lab: Lab) -> None:
    program = f"""
        def f(x):
            return x + torch.ones(3)

        if __name__ == "__main__":
            device = "cuda" if torch.cuda.is_available() else "cpu"
            print(f(torch.zeros(3)){moved})
        """
    (finding,) = (f for f in lab.experimented(written(program), "f", CODE).findings if f.run)
    assert (finding.code, finding.severity) == ("DG203", "info")


def test_a_run_that_took_longer_than_experiments_have_is_not_tried_again(lab: Lab) -> None:
    record = lab.experimented(written(RIGHT["buffers"]), "f", CODE, seconds=1e-4)
    (tried,) = record.result.tried
    assert (tried.outcome, tried.why.partition(" took ")[0]) == ("not-tried", "the run")


@pytest.mark.parametrize("blocks", ["[torch.ones(2, 2)]", "[torch.ones(2, 2, device='cuda')]"])
def test_what_is_made_on_the_cpu_and_returned_is_an_info_wherever_the_inputs_were(blocks: str, lab: Lab) -> None:
    program = """
        # dry-run: blocks={}
        def f(blocks):
            size = sum(len(block) for block in blocks)
            whole = torch.zeros(size, size)
            for block in blocks:
                whole[: len(block), : len(block)] = block
            return whole
        """
    record = lab.experimented(written(program.replace("{}", blocks)), "f", CODE)
    told = [(f.span.start.line - 3, f.severity) for f in record.findings if f.code == CODE]
    assert told == [(4, "info")]


@pytest.mark.parametrize("case", RIGHT)
def test_code_that_runs_anywhere_holds(case: str, lab: Lab) -> None:
    record = lab.experimented(written(RIGHT[case]), "f", CODE)
    assert [(one.outcome, one.why) for one in record.result.tried] == [("held", "")]
    assert [finding for finding in record.findings if finding.code.startswith("DG2")] == []


@pytest.mark.parametrize("case", UNTRIED)
def test_what_is_not_owed_is_not_tried_and_says_why(case: str, lab: Lab) -> None:
    why, program = UNTRIED[case]
    (tried,) = lab.experimented(written(program), "f", CODE).result.tried
    assert tried.outcome == "not-tried"
    assert why in tried.why
