"""Whole programs with one fault each, a family of faults after the other: by name, the code and the text.

They run on a simulated GPU, and ``tests/gpu`` compares that with a real one.
"""

from __future__ import annotations

from textwrap import dedent

_IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"

_PIECES = {
    "in-place on a saved output": (
        "DG101",
        """
        x = torch.randn(4, device="cuda", requires_grad=True)
        y = x.exp()
        y.add_(1)
        y.sum().backward()
        """,
    ),
    "log of a negative number": (
        "DG410",
        """
        x = torch.tensor([1.0, -1.0], device="cuda", requires_grad=True)
        loss = (x * 2).log().sum()
        loss.backward()
        """,
    ),
    "root at zero": (
        "DG407",
        """
        x = torch.zeros(3, device="cuda", requires_grad=True)
        loss = (x * 2).sqrt().sum()
        loss.backward()
        """,
    ),
    "overflow of half precision": (
        "DG411",
        """
        x = torch.full((4,), 300.0, device="cuda", requires_grad=True)
        x.half().square().sum().backward()
        """,
    ),
    "token outside the vocabulary": (
        "DG302",
        """
        model = nn.Embedding(10, 4).cuda()
        tokens = torch.tensor([[1, 2, 12]], device="cuda")
        model(tokens).sum().backward()
        """,
    ),
    "index of gather": (
        "DG302",
        """
        scores = torch.randn(3, 5, device="cuda")
        chosen = torch.tensor([[0], [5], [1]], device="cuda")
        print(scores.gather(1, chosen).sum().item())
        """,
    ),
    "index of scatter": (
        "DG302",
        """
        counts = torch.zeros(4, device="cuda")
        counts.scatter_add_(0, torch.tensor([0, 4], device="cuda"), torch.ones(2, device="cuda"))
        """,
    ),
    "probability above one": (
        "DG307",
        """
        p = torch.tensor([0.2, 1.4], device="cuda")
        F.binary_cross_entropy(p, torch.ones(2, device="cuda"))
        """,
    ),
    "probabilities that are negative": (
        "DG316",
        """
        p = torch.tensor([0.2, -0.4], device="cuda")
        torch.multinomial(p, 1)
        """,
    ),
    "operands on two devices": (
        "DG201",
        """
        model = nn.Linear(3, 2).cuda()
        model(torch.ones(4, 3))
        """,
    ),
    "labels on the host": (
        "DG205",
        """
        scores = torch.randn(2, 3, device="cuda")
        F.cross_entropy(scores, torch.tensor([0, 1]))
        """,
    ),
    "dtypes of a product": (
        "DG317",
        """
        a = torch.ones(2, 3, device="cuda", dtype=torch.half)
        b = torch.ones(3, 2, device="cuda")
        a @ b
        """,
    ),
    "shapes of a product": (
        "DG314",
        """
        model = nn.Linear(8, 2).cuda()
        model(torch.ones(4, 7, device="cuda"))
        """,
    ),
    "all pairs in a loss": (
        "DG303",
        """
        x = torch.randn(8, 1, device="cuda", requires_grad=True)
        F.mse_loss(x * 2, torch.randn(8, device="cuda")).backward()
        """,
    ),
    "a copy there and back": (
        "DG206",
        """
        x = torch.randn(8, 4, device="cuda")
        for step in range(3):
            mean = x.cpu().mean().cuda()
        """,
    ),
    "waiting in each step": (
        "DG602",
        """
        model = nn.Linear(4, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            model(torch.ones(8, 4, device="cuda")).sum().backward()
            torch.cuda.synchronize()
            optimizer.step()
        """,
    ),
    "backward twice": (
        "DG113",
        """
        x = torch.randn(3, device="cuda", requires_grad=True)
        loss = (x * x).sum()
        loss.backward()
        loss.backward()
        """,
    ),
    "more memory than there is": (
        "DG507",
        """
        held = []
        for step in range(8):
            held.append(torch.empty(64 << 20, device="cuda").fill_(step) * 2)
        """,
    ),
    "losses that keep their graphs": (
        "DG501",
        """
        model = nn.Linear(512, 512).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for step in range(3):
            loss = model(torch.randn(1024, 512, device="cuda")).relu().pow(2).sum()
            losses.append(loss)
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            optimizer.step()
        """,
    ),
}


def _program(piece: str) -> str:
    return _IMPORTS + dedent(piece).lstrip("\n")


PROGRAMS = {name: (code, _program(piece)) for name, (code, piece) in _PIECES.items()}
