"""What is on the CPU for certain, and meets what a device chosen at run time, a model or an optimizer places."""

from __future__ import annotations

import pytest
from rule_harness import Example

RULES = frozenset(("DG203", "DG204", "DG205", "DG207"))
FAULTY = {
    "gradients to start from": (
        """
        class Attack:
            def gradients(self, images):
                x = torch.from_numpy(images).to(self._device)
                scores = self._model(x)[-1]
                torch.autograd.backward(scores[:, 0], torch.Tensor([1.0] * len(scores)){})
        """,
        ".to(self._device)",
    ),
    "an input beside another": (
        """
        def scores(model, ids: torch.Tensor):
            return model.forward(ids, attention_mask=torch.ones(1, ids.shape[1]){})
        """,
        ".to(ids.device)",
    ),
    "what an object is given when it is made": (
        """
        class Bernoulli:
            def __init__(self, probs: torch.Tensor):
                self.probs = probs

            def sample(self, n):
                return torch.rand(n, 4{}) < self.probs
        """,
        ", device=self.probs.device",
    ),
    "the state of an optimizer": (
        """
        class Own(torch.optim.Optimizer):
            def step(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        if len(state) == 0:
                            state["rows"] = torch.zeros(p.shape[:-1]{})
                        rows = state["rows"]
                        rows.mul_(0.9).add_(p.grad.mean(dim=-1), alpha=0.1)
        """,
        ", device=p.device",
    ),
    "the state that another method of an optimizer begins": (
        """
        class Own(torch.optim.Optimizer):
            def begin(self, p):
                self_state = self.state[p]
                self_state["rows"] = torch.zeros(p.shape[:-1]{})

            def step(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        if not self.state[p]:
                            self.begin(p)
                        state = self.state[p]
                        p.add_(state["rows"].unsqueeze(-1), alpha=-0.1)
        """,
        ", device=p.device",
    ),
    "a state of several parts": (
        """
        class Own(torch.optim.Optimizer):
            def step(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        for i in range(p.dim()):
                            state[f"part_{i}"] = torch.zeros(p.shape[i]{device})
                        update = p.grad.clone()
                        for i in range(p.dim()):
                            update.add_(state[f"part_{i}"])
        """,
        ", device=p.device",
    ),
    "a list that is made a tensor": (
        """
        class Reader:
            def energy(self, names, positions):
                numbers = [self.table[name] for name in names]
                kinds = torch.tensor(numbers{})
                return self.net((kinds, torch.tensor(positions, device=self.device)))
        """,
        ", device=self.device",
    ),
    "a method that is handed on": (
        """
        class Explainer:
            def __init__(self, method, model, device):
                self.method, self.model, self.device = method, model, device
                self.method.forward_func = self._score

            def _score(self, x):
                x = x.to(self.device)
                return self.model(x, torch.tensor([[1.0] * x.shape[1]]){})
        """,
        ".to(self.device)",
    ),
    "results of a model that become an array": (
        """
        class Energies:
            def of(self, positions):
                x = torch.tensor(positions, device=self.device)
                return self.model(x).sum(dim=-1).detach(){}.numpy()
        """,
        ".cpu()",
    ),
}
SAFE = {
    "a device of the CPU's": """
        class Kept:
            def add(self, x):
                self.x = x.to(self.storage_device)
                return self.x + torch.ones(3)
    """,
    "a tested device": """
        class Kept:
            def add(self, x):
                y = self.model(x.to(self.device))
                if self.device == "cpu":
                    y = y + torch.ones(3)
                return y
    """,
    "lengths beside a model's input": """
        def scores(model, x: torch.Tensor, texts):
            return model(x, lengths=torch.tensor([len(t) for t in texts]))
    """,
    "a dictionary that something moves": """
        def scores(x: torch.Tensor, move):
            batch = {"bias": torch.ones(3)}
            move(batch, x.device)
            return x.exp() + batch["bias"]
    """,
    "a state like its parameter": """
        class Own(torch.optim.Optimizer):
            def step(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        if "step" not in state:
                            state["step"] = torch.tensor(0.0)
                            state["mean"] = torch.zeros_like(p)
                        state["step"] += 1
                        state["mean"].add_(p.grad)
                        p.add_(state["mean"] / state["step"])
    """,
    "a number that an object is given": """
        class Noise:
            def __init__(self, scale, size):
                self.scale, self.size = scale, size

            def draw(self):
                return torch.randn(self.size) * self.scale
    """,
    "a size that a layer is given as well": """
        class Grown(nn.Module):
            def __init__(self, weight):
                super().__init__()
                self.weight = weight

            def grow(self, size):
                factor = torch.zeros(size, 4)
                factor[size // 2, :] = 1
                self.weight = self.weight.grown(size, factor)
    """,
    "an array of what was copied": """
        class Predictor:
            def predict(self, x):
                return self.model(x.to(self.device)).cpu().numpy()
    """,
}


def _found(text: str) -> list[str]:
    return [finding.code for finding in Example.of(text).findings() if finding.code in RULES]


@pytest.mark.parametrize(("text", "repair"), FAULTY.values(), ids=FAULTY.keys())
def test_what_is_left_on_the_cpu_is_told(text: str, repair: str) -> None:
    hole = "{device}" if "{device}" in text else "{}"
    assert _found(text.replace(hole, ""))
    assert not _found(text.replace(hole, repair))


@pytest.mark.parametrize("text", SAFE.values(), ids=SAFE.keys())
def test_what_is_right_is_not_told(text: str) -> None:
    assert not _found(text)
