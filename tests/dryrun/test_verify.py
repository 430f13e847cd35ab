"""Fixes tried by the real worker: each kind that holds, and those that only look as if they did."""

from __future__ import annotations

import pytest
from verify_lab import Lab, replaced, verdict, written

from drygrad.dryrun.reaching import lengthened
from drygrad.fixing import apply_edits
from drygrad.static.source import Source

TRAINING = """
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(6, 4)
"""


CASES = {
    "an operand that a function is handed": (
        "DG205",
        "def pair(prompt, answer):\n    return (prompt * answer).sum()\n\n\n"
        "batch = {'p': torch.randn(4, device='cuda', requires_grad=True), 'a': torch.randn(4), 'b': torch.randn(4)}\n"
        "loss = pair(batch['p'], batch['a']) + pair(batch['p'], batch['b'])\nloss.backward()\n",
        "answer.to(prompt.device)",
    ),
    "features from NumPy": (
        "DG317",
        "import numpy as np\n"
        + TRAINING
        + "inputs = torch.from_numpy(np.zeros((6, 4)))\nnet(inputs).sum().backward()\n",
        ".float()\n",
    ),
    "losses that are copied": (
        "DG105",
        TRAINING + "parts = [net(x).sum(), net(x).mean()]\nloss = torch.tensor(parts).sum()\nloss.backward()\n",
        "torch.stack(parts)",
    ),
    "a class target as float": (
        "DG309",
        TRAINING + "y = torch.randint(0, 3, (6,)).float()\nF.cross_entropy(net(x), y).backward()\n",
        "y = torch.randint(0, 3, (6,))\n",
    ),
    "an index as float": (
        "DG317",
        "table = nn.Embedding(9, 4)\nids = torch.arange(9).float()\nout = table(ids)\nagain = table(ids)\n",
        "ids = torch.arange(9)\nout = table(ids)",
    ),
    "a target with one dimension too many": (
        "DG301",
        "scores = torch.randn(5, requires_grad=True)\ntarget = torch.rand(5, 1)\n"
        "loss = F.binary_cross_entropy_with_logits(scores, target)\nloss.backward()\n",
        "target.squeeze(",
    ),
    "a mask without the dimension of the heads": (
        "DG314",
        "scores = torch.randn(4, 2, 7)\nmask = torch.rand(4, 7) > 0.5\nout = scores.masked_fill(mask, -1e9)\n",
        "mask.unsqueeze(1)",
    ),
    "a view of what is not contiguous": (
        "DG314",
        "x = torch.randn(2, 3, 4).transpose(1, 2)\ny = x.view(2, 12)\n",
        "x.reshape(2, 12)",
    ),
    "a layer for other features": (
        "DG314",
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc = nn.Linear(10, 2)\n\n"
        "    def forward(self, x):\n        return self.fc(x)\n\n\nNet()(torch.randn(3, int('12')))\n",
        "nn.Linear(12, 2)",
    ),
    "positions made on the CPU": (
        "DG201",
        "device = 'cuda'\ntable = nn.Embedding(9, 4).to(device)\n\n\ndef embed(ids):\n"
        "    positions = torch.arange(ids.size(1))\n    return table(positions) + table(ids)\n\n\n"
        "embed(torch.zeros(2, 5, dtype=torch.long, device=device))\n",
        "ids.device",
    ),
    "an average of weights that are moved afterwards": (
        "DG205",
        "class Average:\n    def __init__(self, net):\n"
        "        self.kept = [p.detach().clone() for p in net.parameters()]\n\n"
        "    def update(self, net):\n        with torch.no_grad():\n"
        "            for mine, p in zip(self.kept, net.parameters()):\n                mine.mul_(0.9).add_(p)\n\n\n"
        "net = nn.Linear(3, 1)\naverage = Average(net)\nnet.to('cuda')\naverage.update(net)\n",
        "net.to('cuda')\naverage = Average(net)\n",
    ),
    "a target left on the CPU": (
        "DG205",
        "a = torch.randn(4, device='cuda', requires_grad=True)\nb = torch.tensor([1.0, 2.0, 3.0, 4.0])\n"
        "loss = (a - b).pow(2).mean()\nloss.backward()\n",
        "cuda",
    ),
    "a write in place to what exp has kept": (
        "DG101",
        "w = torch.ones(3, requires_grad=True)\ny = w.exp()\ny += 1\ny.sum().backward()\n",
        "y = y + 1",
    ),
    "the logarithm of nothing": (
        "DG404",
        "w = torch.zeros(3, requires_grad=True)\ntorch.log(w * w).sum().backward()\n",
        "1e-8",
    ),
    "rows masked throughout": (
        "DG410",
        "scores = torch.randn(2, 3, requires_grad=True)\nmask = torch.tensor([[True] * 3, [False] * 3])\n"
        "masked = scores.masked_fill(mask, float('-inf'))\n(masked.softmax(-1) ** 2).sum().backward()\n",
        "torch.finfo(scores.dtype).min",
    ),
    "a hidden state with the graph of the turn before": (
        "DG108",
        "rnn = nn.GRU(3, 4)\nh = torch.zeros(1, 2, 4)\nfor step in range(3):\n"
        "    out, h = rnn(torch.randn(5, 2, 3), h)\n    out.pow(2).mean().backward()\n",
        "h = h.detach()",
    ),
    "losses kept with their graphs in one graph": (
        "DG105",
        "w = torch.randn(3, requires_grad=True)\nloss = torch.tensor([w.sum(), w.prod()]).sum()\nloss.backward()\n",
        "torch.stack([w.sum(), w.prod()])",
    ),
    "a softmax in the model before a loss that applies its own": (
        "DG304",
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.fc, self.last = nn.Linear(4, 3), nn.Softmax(dim=1)\n\n"
        "    def forward(self, x):\n        return self.last(self.fc(x))\n\n\n"
        "losses = {'class': nn.CrossEntropyLoss()}\n"
        "losses['class'](Net()(torch.randn(6, 4)), torch.tensor([0, 1, 2] * 2)).backward()\n",
        "return self.fc(x)",
    ),
    "a list of arrays that only a run can tell": (
        "DG609",
        "import numpy as np\n\n\ndef batch(rows):\n    return torch.tensor(rows, dtype=torch.float32) / 255\n\n\n"
        "batch([*map(np.ones, (3, 3, 3))])\n",
        "torch.tensor(np.stack(rows), dtype=torch.float32)",
    ),
    "gradients that are not cleared": (
        "DG703",
        TRAINING + "for step in range(3):\n    net(x).pow(2).mean().backward()\n    optimizer.step()\n",
        "optimizer.zero_grad()",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fix_of_each_kind_holds(name: str, lab: Lab) -> None:
    code, program, expected = CASES[name]
    source = written(program)
    finding = next(f for f in lab.tried(source) if f.code == code and f.status == "confirmed")
    verified = [fix for fix in finding.fixes if fix.verified]
    texts = [apply_edits(source, fix.edits) for fix in verified]
    assert any(expected in text for text in texts), texts
    assert list(finding.fixes[: len(verified)]) == verified
    repaired = Source(texts[0])
    assert [f for f in lab.tried(repaired) if f.code == code] == []


OVERWRITTEN = """
w = torch.ones(3, requires_grad=True)
v = torch.ones(3, requires_grad=True)
y = w.exp()
y.mul_(v)
(y * v).sum().backward()
"""


def test_the_same_fault_repaired_by_hand_is_verified(lab: Lab) -> None:
    assert verdict(lab, OVERWRITTEN, "y.mul_(v)", "y = y.mul(v)") is True


def test_a_detach_that_merely_silences_is_not(lab: Lab) -> None:
    assert verdict(lab, OVERWRITTEN, "y = w.exp()", "y = w.exp().detach()") is False


def test_a_fix_that_brings_another_fault_is_not(lab: Lab) -> None:
    assert verdict(lab, OVERWRITTEN, "y.mul_(v)", "y = torch.stack([y, v])[:, :2]") is False


NEXT_FAULT = """
def loss(x, y):
    z = x + y
    return F.nll_loss(z.log_softmax(0), torch.tensor(7))

def train():
    return loss(torch.ones(3), torch.ones(4))

train()
"""


def test_a_fix_after_which_the_next_fault_shows_is_neither_proved_nor_disproved(lab: Lab) -> None:
    assert verdict(lab, NEXT_FAULT, "torch.ones(4)", "torch.ones(3)") is None
    assert verdict(lab, NEXT_FAULT, "return loss(", "return loss(x, ") is False


FAULT_BEHIND = """
def loss(x, y):
    z = x + y
    return F.mse_loss(z.unsqueeze(1), torch.ones(3))

def train():
    return loss(torch.ones(3), torch.ones(4))

train()
"""


def test_a_fix_that_lets_a_run_come_to_a_fault_behind_is_not_disproved(lab: Lab) -> None:
    assert verdict(lab, FAULT_BEHIND, "torch.ones(4)", "torch.ones(3)") is None
    without = FAULT_BEHIND.replace(".unsqueeze(1)", "")
    assert verdict(lab, without, "torch.ones(4)", "torch.ones(3)") is True


def test_a_suspicion_behind_the_fault_that_ends_the_run_is_not_judged(lab: Lab) -> None:
    program = """
    x = torch.ones(2, 3) @ torch.ones(2, 3)
    F.cross_entropy(torch.randn(2, 3).softmax(-1), torch.tensor([0, 1]))
    """
    found = lab.tried(written(program))
    assert [fix.verified for f in found if f.code == "DG304" for fix in f.fixes] == [None]


UNPREPARED = """
class Encoding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.randn(1, 8)

    def forward(self, x):
        return x.to("cuda") + self.table

class Trainer:
    def __init__(self, store):
        self.net, self.store = Encoding(), store

    def step(self, x):
        return self.net(x) * self.store.fetch("scale").strict
"""


def test_a_fault_of_the_code_s_own_ends_a_search_as_failed(lab: Lab) -> None:
    source = written(UNPREPARED)
    own, *rest = lab.tried(source, "Trainer.step")
    assert (own.code, own.status, rest) == ("DG204", "confirmed", [])
    assert lab.run(source, "Trainer.step")[0].result.outcome == "failed"
    assert [fix.verified for fix in own.fixes] == [None], "what comes behind it wants inputs that are not to be had"


def test_a_search_goes_on_behind_the_fault_that_a_fix_repairs(lab: Lab) -> None:
    program = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.randn(1, 8)
            self.fc = nn.Linear(8, 12)

        def forward(self, x, y):
            return self.fc(x.to("cuda") + self.table) + y
    """
    own = lab.tried(written(program), "Net.forward")[0]
    assert (own.code, [fix.verified for fix in own.fixes]) == ("DG204", [True])


def test_a_fix_that_keeps_the_statement_from_running_is_not(lab: Lab) -> None:
    assert verdict(lab, OVERWRITTEN, "y.mul_(v)", "if not w.requires_grad:\n    y.mul_(v)") is False


def test_a_fix_under_which_the_fault_stays_is_not(lab: Lab) -> None:
    assert verdict(lab, OVERWRITTEN, "y.mul_(v)", "y.mul_(v).add_(1)") is False


def test_a_text_that_does_not_parse_is_not_run(lab: Lab) -> None:
    assert verdict(lab, OVERWRITTEN, "y.mul_(v)", "y.mul_(v") is False


def test_a_detach_is_found_out_by_the_backward_probe_too(lab: Lab) -> None:
    function = (
        "\n\n# dry-run: w=torch.ones(3, requires_grad=True)\ndef f(w):\n    y = w.exp()\n    y += 1\n    return y * w\n"
    )
    assert verdict(lab, function, "y += 1", "y = y + 1", "f") is True
    assert verdict(lab, function, "y = w.exp()", "y = w.detach().exp()", "f") is True  # w is reached otherwise
    cut = function.replace("return y * w", "return y * y")
    assert verdict(lab, cut, "y = w.exp()", "y = w.detach().exp()", "f") is False
    assert verdict(lab, cut, "y += 1", "y = y + 1", "f") is True


def test_fixes_that_time_did_not_suffice_for_have_no_verdict(lab: Lab) -> None:
    findings = lab.tried(written(OVERWRITTEN), budget=0.0)
    assert {fix.verified for finding in findings for fix in finding.fixes} == {None}


def test_a_fix_that_only_a_run_could_think_of_is_offered_without_a_verdict_where_time_is_up(lab: Lab) -> None:
    record, _ = lab.run(written(OVERWRITTEN))
    (finding,) = lab.verified(record, 0.01)
    assert [fix.verified for fix in finding.fixes] == [None]


DISTILLED = """
def step(student, teacher, x):
    before = F.softmax(student(x), dim=-1)
    after = F.softmax(teacher(x), dim=-1)
    return F.kl_div(before, after, reduction="batchmean")
"""


def test_a_fix_of_what_a_run_only_hints_at_is_offered_as_tried(lab: Lab) -> None:
    source = written(DISTILLED)
    (finding,) = lab.tried(source, "step")
    assert (finding.code, [(fix.title, fix.verified) for fix in finding.fixes]) == (
        "DG311",
        [("Use `log_softmax` instead", True)],
    )


def test_a_fix_of_an_evaluation_that_builds_a_graph_may_leave_no_graph_to_what_is_returned(lab: Lab) -> None:
    program = """
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5))

    def embed(loader):
        net.eval()
        found = []
        for x in loader:
            found.append(net(x))
        return torch.cat(found)

    if __name__ == "__main__":
        embed([torch.ones(3, 4)])
    """
    found = {f.code: [fix.verified for fix in f.fixes] for f in lab.tried(written(program), "embed")}
    assert found == {"DG506": [True], "DG501": [False]}, "one element detached leaves its caller the graph of none"


@pytest.mark.parametrize(
    ("repair", "expected"),
    [
        ("F.log_softmax(student(x.flatten(2).reshape(x.shape)), dim=-1)", True),
        ("F.softmax(student(x.flatten(2).reshape(x.shape)), dim=-1)", False),
        ("F.log_softmax(student(x.flatten(99)), dim=-1)", False),
    ],
)
def test_inputs_that_fit_only_the_fault_are_searched_anew(lab: Lab, repair: str, expected: bool) -> None:
    source = written(DISTILLED)
    own = replaced(source, "F.softmax(student(x), dim=-1)", repair)
    (finding,) = lab.tried(source, "step", own=own, severities=["hint"])
    assert next(fix.verified for fix in finding.fixes if fix.title == "by hand") is expected


def test_an_own_fix_of_a_hint_is_tried_too(lab: Lab) -> None:
    source = written("for i in range(2):\n    x = torch.zeros(3).cuda()\n")
    found = lab.tried(source, severities=["hint", "info"])  # an info, where the run has counted what it costs
    assert [(f.code, [fix.verified for fix in f.fixes]) for f in found] == [("DG209", [True])]


UNREGISTERED = """
class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4) for _ in range(2)]
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

def fit():
    tower = Tower()
    optimizer = torch.optim.SGD(tower.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        tower(torch.randn(2, 4)).sum().backward()
        optimizer.step()

fit()
"""


def test_one_repair_is_verified_at_each_of_the_findings_that_it_is_tried_for(lab: Lab) -> None:
    found = lab.tried(written(UNREGISTERED), "fit")
    assert {f.code: [fix.verified for fix in f.fixes] for f in found} == {"DG739": [True], "DG741": [True]}


HALVED = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)

    def forward(self, x, mask):
        q = self.q(x)
        return (q @ q.transpose(-1, -2)).masked_fill(mask, -1e9).softmax(-1) @ q

@torch.inference_mode()
def embed(model: Attention, x):
    return model.half()(x.half(), torch.zeros(x.size(-2), x.size(-2), dtype=torch.bool, device=x.device))
"""


def test_a_number_too_large_for_what_the_code_makes_half_needs_no_inputs_that_are_found(lab: Lab) -> None:
    (finding,) = lab.tried(written(HALVED), "embed")
    assert (finding.code, finding.severity) == ("DG409", "error")
    assert [(fix.safety, fix.verified) for fix in finding.fixes] == [("safe", True)]


ATTACK = """
def attack(model, x, y):
    x_adv = x.clone().requires_grad_()
    for _ in range(3):
        F.cross_entropy(model(x_adv), y).backward()
        step = x_adv.grad.sign()
        x_adv = (x_adv + step).clamp(0, 1)
    return x_adv

def accuracy(model: nn.Module, loader):
    return sum((model(attack(model, x, y)).argmax(1) == y).sum() for x, y in loader)
"""


def test_a_run_that_its_own_fault_ends_in_the_line_that_the_fault_names_has_had_its_inputs(lab: Lab) -> None:
    source = written(ATTACK)
    assert lab.run(source, "accuracy")[0].result.outcome == "failed"
    (finding,) = lab.tried(source, "accuracy")
    assert (finding.code, [fix.verified for fix in finding.fixes]) == ("DG118", [True])


SWITCHED_OFF = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Linear(4, 4), nn.Linear(4, 4)

    @torch.no_grad()
    def embed(self, x):
        return self.text(x)

    def forward(self, x):
        return self.image(x) * self.embed(x)

def train():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()

train()
"""


def test_what_a_run_says_as_information_is_repaired_too(lab: Lab) -> None:
    (finding,) = lab.tried(written(SWITCHED_OFF), "train", severities=["info"])
    assert [(fix.title, fix.verified) for fix in finding.fixes] == [("Remove the decorator", True)]


NESTED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, parts):
        return self.fc(parts["x"])

def to_device(item, device: torch.device):
    if isinstance(item, torch.Tensor):
        return item.to(device)
    if isinstance(item, dict):
        for value in item.values():
            to_device(value, device)
    return item

def train_epoch(net: Net, loader, device: torch.device):
    device = torch.device("cuda")
    for batch in loader:
        batch = to_device(batch, device)
        F.mse_loss(net(batch["parts"]), batch["y"]).backward()
"""


def test_invented_inputs_that_fitted_the_fault_alone_are_invented_again(lab: Lab) -> None:
    (finding,) = lab.tried(written(NESTED), "train_epoch")
    assert (finding.code, [fix.verified for fix in finding.fixes]) == ("DG202", [True])


COLLATED = """
from torch.utils.data import DataLoader

def collate(samples):
    return torch.stack(samples).to("cuda")

def train(net, loader):
    for x in loader:
        net(x).sum().backward()

def main():
    net = nn.Linear(3, 1).cuda()
    train(net, DataLoader([torch.ones(3)] * 4, batch_size=2, num_workers=2, collate_fn=collate))

main()
"""


def test_a_run_that_does_not_come_to_all_of_a_repair_says_nothing_of_it(lab: Lab) -> None:
    source = written(COLLATED)
    found = {name: lab.tried(source, name) for name in ("collate", "main")}
    verdicts = {
        name: [fix.verified for f in findings if f.code == "DG210" for fix in f.fixes]
        for name, findings in found.items()
    }
    assert verdicts == {"collate": [None], "main": [True]}


GATED = """
class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv1d(6, 8, 3), nn.Linear(8, 5)

    def forward(self, x):
        gate = torch.sigmoid(self.conv(x).mean(dim=-1))
        gate.clamp_(min=0.1)
        return self.fc(gate)

def training_step(model, optimizer, signals, stages):
    loss = F.cross_entropy(model(signals), stages)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_model_that_overwrites_what_backward_needs_is_not_given_up_for_another(lab: Lab) -> None:
    (finding,) = lab.tried(written(GATED), "training_step")
    assert (finding.code, finding.status) == ("DG101", "confirmed")
    assert any(fix.verified for fix in finding.fixes)


BEYOND = {
    "an evaluation every ten steps": (
        "fit",
        "DG710",
        """
        def evaluate(net, x):
            net.eval()
            with torch.no_grad():
                return net(x).mean()

        def fit():
            net = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            loader = torch.utils.data.DataLoader(torch.randn(90, 4), batch_size=2)
            for epoch in range(2):
                net.train()
                for step, x in enumerate(loader):
                    optimizer.zero_grad()
                    net(x).pow(2).mean().backward()
                    optimizer.step()
                    if (step + 1) % 10 == 0:
                        print(evaluate(net, x))

        fit()
        """,
    ),
    "a step every four of batches that are invented": (
        "train",
        "DG703",
        """
        def train(net: nn.Linear, optimizer: torch.optim.SGD, batches: list[tuple[torch.Tensor, torch.Tensor]]):
            optimizer.zero_grad()
            for i, (x, y) in enumerate(batches):
                (F.mse_loss(net(x), y) / 4).backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
        """,
    ),
    "a difference from the second frame on": (
        "Detector.update",
        "DG413",
        """
        class Detector:
            def __init__(self):
                self.last: torch.Tensor | None = None

            def update(self, frame: torch.Tensor):
                grey = frame.float().mean(0).to(torch.uint8)
                changed = 0.0
                if self.last is not None:
                    changed = ((grey - self.last).abs() > 20).float().mean().item()
                self.last = grey
                return changed
        """,
    ),
    "a backward of its own, of what needs no gradient": (
        "double",
        "DG115",
        """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(2 * x)
                return x.pow(2).sum()

            @staticmethod
            def backward(ctx, grad_output):
                (slope,) = ctx.saved_tensors
                return slope

        # dry-run: x=torch.ones(2, 3)
        def double(x):
            return Double.apply(x)
        """,
    ),
    "a sample of a loader that is returned": (
        "make",
        "DG803",
        """
        class Rows(torch.utils.data.Dataset):
            def __init__(self, n):
                self.rows = torch.randn(n, 3)

            def __len__(self):
                return len(self.rows)

            def __getitem__(self, index):
                row = self.rows[index]
                row += torch.randn(3)
                return row

        # dry-run: n=4
        def make(n):
            return torch.utils.data.DataLoader(Rows(n))
        """,
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_a_run_goes_further_to_try_what_the_call_does_not_come_to(name: str, lab: Lab) -> None:
    qualname, code, program = BEYOND[name]
    found = [finding for finding in lab.tried(written(program), qualname) if finding.code == code]
    assert [(f.witness, [fix.verified for fix in f.fixes]) for f in found] == [("static", [True])]


def test_lists_of_few_batches_that_are_alike_become_long() -> None:
    assert lengthened("n=2, b=[(1, 2), (1, 2)], other=[1, 2]") == "n=2, b=[(1, 2), (1, 2)] * 8, other=[1, 2]"
    loader = "torch.utils.data.DataLoader([x for _ in range({})], batch_size=None)"
    assert lengthened(f"l={loader.format(2)}") == f"l={loader.format(16)}"
