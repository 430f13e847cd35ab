"""Steps whose micro-batches do not add up to the batch, with repaired twins, and steps that add up in other ways."""

from __future__ import annotations

from relation_pairs import Pair

_HEAD = """
        model = nn.Linear(5, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        """
_LABELS = "y=torch.tensor([0, 1, 2, 1, -100, -100, -100, 2])"

UNEVEN = {
    "means over unlike numbers of targets": Pair(
        _HEAD
        + f"""
        # dry-run: x=torch.randn(8, 5), {_LABELS}
        def step(x, y):
            optimizer.zero_grad()
            for a, b in zip(x.split(4), y.split(4)):
                loss = {{}}
                loss.backward()
            optimizer.step()
        """,
        "F.cross_entropy(model(a), b) / 2",
        'F.cross_entropy(model(a), b, reduction="sum") / (y != -100).sum()',
    ),
    "means that class weights divide": Pair(
        _HEAD
        + """
        weight = torch.tensor([1.0, 2.0, 9.0])

        # dry-run: x=torch.randn(8, 5), y=torch.tensor([0, 0, 0, 1, 2, 2, 1, 2])
        def step(x, y):
            optimizer.zero_grad()
            for a, b in zip(x.split(4), y.split(4)):
                loss = {}
                loss.backward()
            optimizer.step()
        """,
        "F.cross_entropy(model(a), b, weight) / 2",
        "F.cross_entropy(model(a), b, weight) * weight[b].sum() / weight[y].sum()",
    ),
    "a first step after one micro-batch": Pair(
        _HEAD
        + """
        # dry-run: x=torch.randn(16, 5)
        def step(x):
            optimizer.zero_grad()
            for i, a in enumerate(x.split(2)):
                (model(a).square().mean() / 4).backward()
                if {} == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """,
        "i % 4",
        "(i + 1) % 4",
    ),
    "a last group that is divided as a full one": Pair(
        _HEAD
        + """
        # dry-run: x=torch.randn(12, 5)
        def step(x):
            optimizer.zero_grad()
            parts = x.split(2)
            for i, a in enumerate(parts):
                size = min(4, len(parts) - i // 4 * 4)
                (model(a).square().mean() / {}).backward()
                if (i + 1) % 4 == 0 or i + 1 == len(parts):
                    optimizer.step()
                    optimizer.zero_grad()
        """,
        "4",
        "size",
    ),
    "gradients clipped in between": Pair(
        _HEAD
        + """
        # dry-run: x=torch.randn(8, 5)
        def step(x):
            optimizer.zero_grad()
            for a in x.split(2):
                (model(a).square().mean() / 4).backward()
            {}nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        """,
        "    ",
        "",
    ),
    "samples of the end in no micro-batch": Pair(
        _HEAD
        + """
        # dry-run: x=torch.randn(11, 5)
        def step(x):
            optimizer.zero_grad()
            for i in range({}):
                part = x[4 * i : 4 * i + 4]
                (model(part).square().sum() / len(x)).backward()
            optimizer.step()
        """,
        "len(x) // 4",
        "-(-len(x) // 4)",
    ),
}
"""The culprit's line is the one of which ``TOLD_AT`` names a part, or that of ``broken``."""

TOLD_AT = {
    "a first step after one micro-batch": "optimizer.step()",
    "samples of the end in no micro-batch": "x[4 * i",
}

ADDS_UP = {
    "clipped by itself and kept elsewhere": _HEAD
    + """
        # dry-run: x=torch.randn(8, 5)
        def step(x):
            total = [torch.zeros_like(p) for p in model.parameters()]
            for a in x.split(1):
                optimizer.zero_grad()
                model(a).square().mean().backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for kept, p in zip(total, model.parameters()):
                    kept += p.grad / 8
            optimizer.zero_grad()
            for a in x.split(4):
                (model(a).square().mean() / 2).backward()
            for kept, p in zip(total, model.parameters()):
                p.grad += kept
            optimizer.step()
        """,
    "weights that fall with each step": _HEAD
    + """
        # dry-run: x=torch.randn(12, 5)
        def step(x):
            optimizer.zero_grad()
            for i, a in enumerate(x.split(2)):
                (model(a).square().mean() * 0.5 / (2 + i // 2)).backward()
                if i % 2:
                    optimizer.step()
                    optimizer.zero_grad()
        """,
    "a validation set behind the micro-batches": _HEAD
    + """
        # dry-run: x=torch.randn(10, 5)
        def step(x):
            optimizer.zero_grad()
            for i in range(2):
                (model(x[4 * i : 4 * i + 4]).square().mean() / 2).backward()
            optimizer.step()
            return model(x[8:]).mean()
        """,
}

NO_ACCUMULATION = {
    "gradients that are clipped, kept elsewhere and cleared": _HEAD
    + """
        # dry-run: x=torch.randn(8, 5)
        def step(x):
            total = [torch.zeros_like(p) for p in model.parameters()]
            for a in x.split(1):
                optimizer.zero_grad(set_to_none=False)
                model(a).square().mean().backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                for kept, p in zip(total, model.parameters()):
                    kept += p.grad / 8
            for kept, p in zip(total, model.parameters()):
                p.grad.copy_(kept)
            optimizer.step()
        """,
    "one backward for each step": _HEAD
    + """
        # dry-run: x=torch.randn(8, 5)
        def step(x):
            for a in x.split(2):
                optimizer.zero_grad()
                model(a).square().mean().backward()
                optimizer.step()
        """,
    "gradients that are only asked for": _HEAD
    + """
        # dry-run: x=torch.randn(8, 5)
        def step(x):
            optimizer.zero_grad()
            for a in x.split(2):
                torch.autograd.grad(model(a).square().mean(), list(model.parameters()))
            model(x).mean().backward()
            optimizer.step()
        """,
    "two losses of their own lines": _HEAD
    + """
        # dry-run: x=torch.randn(8, 5)
        def step(x):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            model(x).abs().mean().backward()
            optimizer.step()
        """,
}
