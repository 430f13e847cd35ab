"""What is proposed for parameters before anything is searched: by annotation, convention, use, constructor, parser."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_harness import plan, steps

from drygrad.dryrun.plan import RunOptions
from drygrad.worker.search.nodes import read, text_of

HEAD = "from typing import Annotated, Literal\nimport torch\nimport torch.nn as nn\nfrom jaxtyping import Float\n"


def proposed(text: str, qualname: str = "f") -> dict[str, str]:
    """Return the expression that the search begins with for each input."""
    found = plan(HEAD + text, qualname, RunOptions(root=Path("/project")))
    assert found.proposal is not None
    assert "search" in found.input_sources
    return {name: text_of(node) for name, node in read(dict(found.proposal.inputs)).parts}


@pytest.mark.parametrize(
    ("parameter", "expression"),
    [
        ('x: Float[torch.Tensor, "b 7 h w"]', "torch.randn(2, 7, 32, 32)"),
        ('x: Annotated[torch.Tensor, "b t 12"]', "torch.randn(2, 8, 12)"),
        ('x: Literal["mean", "sum"]', "'mean'"),
        ("x: torch.LongTensor", "torch.randint(0, 10, (2, 64))"),
        ("x: list[torch.Tensor]", "[torch.randn(2, 64), torch.randn(2, 64)]"),
        ("x: bool", "False"),
        ("hidden_dim: int", "64"),
        ("images", "torch.randn(2, 3, 32, 32)"),
        ("mask", "(torch.arange(8).expand(2, 8) < 7)"),
        ("num_classes", "10"),
        ("generator", "torch.Generator()"),
    ],
)
def test_one_parameter(parameter: str, expression: str) -> None:
    assert [*proposed(f"def f({parameter}):\n    pass\n").values()] == [expression]


@pytest.mark.parametrize(
    ("body", "expression"),
    [
        ("b, t, c = x.shape", "torch.randn(2, 8, 64)"),
        ("return x.permute(0, 2, 3, 1)", "torch.randn(2, 3, 32, 32)"),
        ('return rearrange(x, "b (h w) c -> b c h w", h=4)', "torch.randn(2, 8, 64)"),
        ("return torch.zeros(9)[x]", "torch.randint(0, 10, (2, 64))"),
        ("return torch.arange(x - 2, 9)", "8"),
        ("return torch.einsum('ij,bhij->bh', torch.ones(3, 32), x)", "torch.randn(2, 3, 32, 32)"),
        ("return einsum(x, torch.ones(9), 'b t d, t -> b d')", "torch.randn(2, 8, 64)"),
        ("return x['a'] + x['b']", "{'a': torch.randn(2, 64), 'b': torch.randn(2, 64)}"),
    ],
)
def test_how_a_parameter_is_used(body: str, expression: str) -> None:
    assert proposed(f"def f(x):\n    {body}\n")["x"] == expression


TRAIN = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--clip-norm", type=float, default=0.7)
class Critic(nn.Module):
    def __init__(self, dim, heads): ...
    def forward(self, x): ...
def f(opt_critic, critic, loader, args):
    for epoch in range(args.num_epochs):
        for step, (images, labels) in enumerate(loader):
            critic(images)
            print(args.clip_norm)
"""


def test_a_training_function() -> None:
    batch = "(torch.randn(2, 3, 32, 32), torch.randint(0, 2, (2,)))"
    assert proposed(TRAIN) == {
        "critic": "Critic(dim=64, heads=4)",
        "loader": f"torch.utils.data.DataLoader([{batch} for _ in range(2)], batch_size=None)",
        "args": "types.SimpleNamespace(num_epochs=2, clip_norm=0.7)",
        "opt_critic": "torch.optim.SGD(critic.parameters(), lr=0.01)",
    }


def test_a_method_gets_an_object_made_by_its_constructor() -> None:
    text = "class Net(nn.Module):\n    def __init__(self, cfg): self.d = nn.Linear(cfg.d_model, cfg.num_classes)\n"
    found = proposed(text + "    def forward(self, x): return self.d(x)\n", "Net.forward")
    assert found == {"self": "Net(cfg=types.SimpleNamespace(d_model=64, num_classes=10))", "x": "torch.randn(2, 64)"}


DOCUMENTED = """\
import torch
import torch.nn as nn

class Scale(nn.Module):
    \'\'\'Scales.

    >>> layer = Scale(3)
    >>> x = torch.ones(2, 3)
    >>> layer(x).shape
    torch.Size([2, 3])
    \'\'\'
    def __init__(self, n): self.n = n
    def forward(self, x): return x * self.n

def f(x, *, by):
    \'\'\'>>> f(torch.ones(5), by=2)\'\'\'
    return x * by
"""


DESCRIBED = """\
def f(x, state, images, mask, kernel, window, z):
    '''Does it.

    :param x: what is looked at, with ``shape = [batch, features]``
    :type x: torch.Tensor
    :param state: ``(h, c)``, where both tensors have shape ``[batch, hidden, 1]``

    Args:
        images (torch.Tensor): What is seen
            besides, of shape (3, C, H, W).
        mask (Tensor): a boolean mask. Its size is
            `(batch, time)`
        kernel: of size (3, 3)
        window (int): the dims (b, t)
        z:
            Tensor of shape [batch, num_features=96]. The output of the backbone.
    '''
    return x
"""


def test_what_a_docstring_says_of_a_parameters_shape_where_it_describes_it() -> None:
    found = proposed(DESCRIBED)
    assert (found["x"], found["images"]) == ("torch.randn(2, 64)", "torch.randn(3, 3, 32, 32)")
    assert found["z"] == "torch.randn(2, 96)"
    assert found["mask"] == "(torch.arange(8).expand(2, 8) < 7)"
    assert not any(shape in found["state"] for shape in ("2, 64, 1", "2, 5, 1"))
    assert "3, 3" not in found["kernel"]
    assert "2, 8" not in found["window"]


HANDED_ON = """\
class Attention(nn.Module):
    def __init__(self, n_head, dropout=0.0, *, d_model):
        super().__init__()
        self.lin = nn.Linear(d_model, n_head)

class Relative(Attention):
    def __init__(self, scale, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def f(self, x):
        return self.lin(x)

class Narrow(Attention):
    def __init__(self, **kwargs):
        kwargs.setdefault("dropout", 0.1)
        super().__init__(2, **kwargs)

    def f(self, x):
        return self.lin(x)

class Trainer:
    def __init__(self, *args, **kwargs):
        self.options = kwargs["options"]
        self.scheduler = kwargs["scheduler"]
        self.optimizer = kwargs["optimizer"]
        self.model = kwargs.pop("model")
        self.best = kwargs.get("best")

    def f(self, x):
        return self.model(x) * self.options.num_classes
"""


@pytest.mark.parametrize(
    ("owner", "made"),
    [
        ("Relative", "Relative(scale=0.5, n_head=4, d_model=64)"),
        ("Narrow", "Narrow(d_model=64)"),
        ("Trainer", "(lambda model: (lambda optimizer: Trainer(model=model, optimizer=optimizer, "),
    ],
)
def test_what_a_constructor_hands_on_or_reads_by_name(owner: str, made: str) -> None:
    assert proposed(HANDED_ON, f"{owner}.f")["self"].startswith(made)


TYPED = '''\
class Wrapper:
    """Wraps a model.

    Args:
        model (:obj:`torch.nn.Module`): what is wrapped
        sizes (list of ints, optional): of its layers
    """

    def __init__(self, model, sizes):
        self.model, self.sizes = model, sizes

    def f(self, x, k, names, wrapped, given, other):
        """Do it.

        :param x: the images.
        :type x: `np.ndarray`
        :param int k: how many.
        :type names: list(str)

        Parameters
        ----------
        wrapped : Wrapper
            Another one.
        given : LongTensor of shape (n, 3)
            What is given.
        other : Something that nobody knows
            It is told of elsewhere.
        """
        return x, k, names, wrapped, given, other
'''


@pytest.mark.parametrize(
    ("parameter", "expression"),
    [
        ("self", "Wrapper(model=torch.nn.Sequential("),
        ("x", "torch.randn(2, 64).numpy()"),
        ("k", "3"),
        ("names", "['name', 'name']"),
        ("wrapped", "Wrapper(model="),
        ("given", "torch.randint("),
        ("other", "torch.randn(2, 64)"),
    ],
)
def test_types_that_a_docstring_names(parameter: str, expression: str) -> None:
    assert proposed(TYPED, "Wrapper.f")[parameter].startswith(expression)


def test_an_abstract_class_is_completed() -> None:
    text = (
        "from abc import abstractmethod\nclass Base:\n    def clear(self):\n        return self.size()\n"
        "    @abstractmethod\n    def size(self): ...\n"
        "class Whole(Base):\n    def size(self):\n        return 3\n"
    )
    assert proposed(text, "Base.clear")["self"] == "Whole()"


def test_a_class_may_import_what_it_reads_in_its_body() -> None:
    text = (
        "class Wrapper:\n    try:\n        import torch.nn as inner\n"
        "        class Net(inner.Module):\n            pass\n    except ImportError:\n        pass\n"
        "    def __init__(self, size):\n        self.size = size\n"
        "    def f(self, x):\n        return helper(x)\n"
        "def helper(x):\n    return x + 1\n"
    )
    assert proposed(text, "Wrapper.f").keys() == {"self", "x"}


def test_examples_of_the_docstring_come_first() -> None:
    method, function = (plan(DOCUMENTED, name, RunOptions()) for name in ("Scale.forward", "f"))
    assert method.receiver is not None
    assert (method.receiver.text, method.receiver.source) == ("layer", "docstring")
    assert steps(method) == ["<layer = Scale(3)>", "<x = torch.ones(2, 3)>"]
    assert [(a.name, a.text) for a in function.arguments] == [("x", "torch.ones(5)"), ("by", "2")]
    assert method.proposal is None


def test_a_size_that_numpy_gets_is_a_number() -> None:
    text = "import numpy as np\nclass Mix(nn.Module):\n"
    text += "    def __init__(self, channels): self.order = np.arange(channels)\n"
    found = proposed(text + "    def forward(self, x): return x[:, self.order]\n", "Mix.forward")
    assert found["self"] == "Mix(channels=3)"


@pytest.mark.parametrize(("method", "expression"), [("log_prob", "Flow()"), ("log_density", "torch.distributions.Nor")])
def test_a_class_of_the_file_comes_before_a_distribution(method: str, expression: str) -> None:
    owner = f"class Flow(nn.Module):\n    def {method}(self, x):\n        return x\n"
    assert proposed(owner + "def f(flow, x):\n    return flow.log_prob(x)\n")["flow"].startswith(expression)


TOLD = """
def solve(x, tolerance=1e-5, adaptive: bool = True, method: str = "euler", size=512):
    return x
"""


@pytest.mark.parametrize(
    ("parameter", "expression"),
    [("tolerance", "1e-05"), ("adaptive", "False"), ("method", "'euler'"), ("other", "torch.randn(2, 64)")],
)
def test_what_another_function_says_of_a_parameter_of_the_same_name(parameter: str, expression: str) -> None:
    assert [*proposed(f"{TOLD}\ndef f({parameter}):\n    return [{parameter}]\n").values()] == [expression]


def test_what_is_calculated_with_is_no_class() -> None:
    body = "def f(x, y):\n    return (x * y).sum()\n"
    assert proposed(body)["y"] == "torch.randn(2, 64)"
    body = "def f(src, index):\n    return torch.zeros(9).scatter_add_(0, index, src)\n"
    assert proposed(body)["src"] == "torch.randn(2, 64)"
    body = "def f(x, y):\n    return torch.nn.functional.cross_entropy(x, y)\n"
    assert proposed(body)["y"].startswith("torch.randint")


def test_keys_are_those_of_an_attention_where_there_are_queries() -> None:
    assert proposed("def f(x, k):\n    return x * k.abs()\n")["k"] == "torch.randn(2, 64)"
    assert proposed("def f(q, k):\n    return q @ k.mT\n")["k"] == "torch.randn(2, 8, 64)"
