"""Fixes of what a helper, a decorator or a loss's own arguments do wrong, tried by the real worker."""

from __future__ import annotations

import pytest
from verify_lab import Lab, written

from drygrad.fixing import apply_edits

MASKS = "masks = torch.randint(0, 5, (2, 8, 8))\nmasks[:, 0] = 255\nimages = torch.randn(2, 3, 8, 8)\n"

CASES = {
    "a void that a function counts": (
        "DG302",
        "model = nn.Conv2d(3, 5, 1)\n\n\n"
        "def step(images, masks):\n    return F.cross_entropy(model(images), masks)\n\n\n"
        + MASKS
        + "step(images, masks).backward()\n",
        ["F.cross_entropy(model(images), masks, ignore_index=255)"],
    ),
    "a void that a module counts": (
        "DG302",
        "class Trainer:\n    def __init__(self):\n        self.model = nn.Conv2d(3, 5, 1)\n"
        "        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)\n\n"
        "    def step(self, images, masks):\n        return self.criterion(self.model(images), masks)\n\n\n"
        + MASKS
        + "Trainer().step(images, masks).backward()\n",
        ["nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=255)"],
    ),
    "an expression beside what another function has made": (
        "DG205",
        "class Scores:\n    def __init__(self, values):\n        self.values = values\n\n\n"
        "def make():\n    return torch.zeros(3)\n\n\n"
        "def score(scores, prior):\n    return (scores.softmax(dim=-1) * prior).sum()\n\n\n"
        "place = getattr(torch, 'device')('cuda')\n"
        "held = Scores(torch.randn(3, requires_grad=True).to(*[place]))\nprior = make()\n"
        "score(held.values, prior).backward()\n",
        ["scores.softmax(dim=-1) * prior.to(scores.device)"],
    ),
}
"""The code of a finding, the program below torch's imports, and what a verified fix writes."""

FORMS = {
    "a checkpoint of inputs without gradients": (
        "DG119",
        """
        from torch.utils.checkpoint import checkpoint

        def train():
            net = nn.Linear(4, 4)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                loss = checkpoint(net, torch.randn(2, 4), use_reentrant=True).pow(2).mean()
                loss.backward()
                optimizer.step()

        train()
        """,
        ["checkpoint(net, torch.randn(2, 4), use_reentrant=False)"],
    ),
    "a training without gradients, by its decorator": (
        "DG103",
        """
        @torch.no_grad()
        def train():
            net = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                loss = net(torch.randn(2, 4)).pow(2).mean()
                loss.backward()
                optimizer.step()

        train()
        """,
        ["\ndef train():"],
    ),
    "a loss that a function computes without gradients": (
        "DG103",
        """
        def losses(net, x):
            with torch.no_grad():
                return net(x).pow(2).mean()

        def train():
            net = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                loss = losses(net, torch.randn(2, 4))
                loss.backward()
                optimizer.step()

        train()
        """,
        ["losses(net, x):\n    return net(x)"],
    ),
    "a training that is called without gradients": (
        "DG103",
        """
        def train(net, optimizer):
            for _ in range(3):
                optimizer.zero_grad()
                loss = net(torch.randn(2, 4)).pow(2).mean()
                loss.backward()
                optimizer.step()

        def main():
            net = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            with torch.no_grad():
                train(net, optimizer)

        main()
        """,
        ["lr=0.1)\n    train(net, optimizer)"],
    ),
    "gradients that a function clears at each micro-batch": (
        "DG704",
        """
        def micro(net, optimizer, x):
            optimizer.zero_grad()
            loss = net(x).pow(2).mean() / 4
            loss.backward()

        def train():
            net = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for step in range(8):
                micro(net, optimizer, torch.randn(2, 4))
                if (step + 1) % 4 == 0:
                    optimizer.step()

        train()
        """,
        ["def micro(net, optimizer, x):\n    loss =", "optimizer.step()\n            optimizer.zero_grad()"],
    ),
    "a backward in a function that autocast ends with": (
        "DG707",
        """
        def update(loss, optimizer):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        def train():
            net = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for step in range(8):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = net(torch.randn(2, 4)).pow(2).mean()
                    update(loss, optimizer)

        train()
        """,
        ["mean()\n        update(loss, optimizer)"],
    ),
    "a backward under a decorator's autocast": (
        "DG707",
        """
        @torch.autocast("cpu", dtype=torch.bfloat16)
        def learn(net, optimizer, x):
            loss = net(x).pow(2).mean()
            loss.backward()
            optimizer.step()

        net = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(8):
            optimizer.zero_grad()
            learn(net, optimizer, torch.randn(2, 4))
        """,
        ['with torch.autocast("cpu", enabled=False):\n        loss.backward()'],
    ),
    "float16 that a function's backward does not scale": (
        "DG724",
        """
        def update(optimizer, loss):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        def train():
            net = nn.Linear(4, 1).cuda()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(3):
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = net(torch.randn(2, 4).cuda()).pow(2).mean()
                update(optimizer, loss)

        train()
        """,
        ['torch.autocast("cuda", dtype=torch.bfloat16)'],
    ),
    "a loss handed to a function that keeps it": (
        "DG501",
        """
        def keep(values, value):
            values.append(value)

        def train():
            net = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            losses = []
            for step in range(8):
                loss = net(torch.randn(2, 4)).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                keep(losses, loss)

        train()
        """,
        ["keep(losses, loss.detach())"],
    ),
    "a loss handed on by its name": (
        "DG501",
        """
        def log(history, **values):
            for name, value in values.items():
                history.setdefault(name, []).append(value)

        def train():
            net = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            history = {}
            for step in range(8):
                loss = net(torch.randn(2, 4)).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                log(history, loss=loss)

        train()
        """,
        ["log(history, loss=loss.detach())"],
    ),
    "a total in an object that a loss is handed to": (
        "DG502",
        """
        class Mean:
            def __init__(self):
                self.total, self.count = 0.0, 0

            def add(self, value, n):
                self.total = self.total + value * n
                self.count += n

        def train():
            net = nn.Linear(4, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            mean = Mean()
            for step in range(8):
                loss = net(torch.randn(2, 4)).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                mean.add(loss, 2)

        train()
        """,
        ["mean.add(loss.detach(), 2)"],
    ),
}


@pytest.mark.parametrize("name", [*CASES, *FORMS])
def test_a_fix_holds_and_leaves_no_such_finding(name: str, lab: Lab) -> None:
    code, program, expected = {**CASES, **FORMS}[name]
    source = written(program)
    finding = next(f for f in lab.tried(source) if f.code == code and f.status == "confirmed")
    texts = [apply_edits(source, fix.edits) for fix in finding.fixes if fix.verified]
    assert any(all(part in text for part in expected) for text in texts), texts


def test_a_loss_that_leaves_out_a_class_is_not_told_to_leave_out_another(lab: Lab) -> None:
    program = MASKS + "F.cross_entropy(nn.Conv2d(3, 5, 1)(images), masks, ignore_index=0).backward()\n"
    (finding,) = lab.tried(written(program))
    assert finding.code == "DG302"
    assert not [fix for fix in finding.fixes if "ignore_index" in fix.title]


def test_a_class_too_many_is_not_left_out(lab: Lab) -> None:
    program = "labels = torch.tensor([0, 5, 1])\nF.cross_entropy(torch.randn(3, 5, requires_grad=True), labels)\n"
    (finding,) = lab.tried(written(program))
    assert finding.code == "DG302"
    assert not [fix for fix in finding.fixes if "ignore_index" in fix.title]
