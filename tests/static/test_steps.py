"""The steps of training: which they are, in which order, of what, and what stands around them."""

from __future__ import annotations

from textwrap import dedent

from drygrad.settings import Settings
from drygrad.static.context import Context
from drygrad.static.facts.module import ModuleFacts
from drygrad.static.source import Source
from drygrad.static.steps import Event, Training, trainings
from drygrad.static.tree import Tree


def read(text: str) -> dict[str, Training]:
    source = Source("import torch\nimport torch.nn as nn\n" + dedent(text))
    tree = Tree.parse(source)
    context = Context(tree, ModuleFacts(tree.module, source.text), Settings())
    return {getattr(training.node, "name", "script"): training for training in trainings(context)}


def kinds(training: Training) -> list[str]:
    return [event.kind for event in training.events]


def only(training: Training, kind: str) -> Event:
    (event,) = [event for event in training.events if event.kind == kind]
    return event


PLAIN = """
    def train(model, loader, optimizer, criterion, scheduler):
        for epoch in range(3):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            scheduler.step()
            model.eval()
"""


def test_a_plain_loop_by_conventional_names() -> None:
    training = read(PLAIN)["train"]
    assert kinds(training) == [
        *("train", "zero_grad", "forward", "loss", "backward", "clip", "step", "scheduler_step", "eval")
    ]
    assert len(only(training, "step").loops) == 2
    assert len(only(training, "scheduler_step").loops) == 1
    assert only(training, "clip").receiver == "model"
    assert [loop.lineno for loop in training.loops] == [7, 5]
    assert {step.receiver for step in training.of("step")} == {"optimizer"}


def test_a_class_of_the_file_says_itself_what_its_methods_do() -> None:
    text = """
        class Scaled:
            def __init__(self, optimizer):
                self.optimizer = optimizer
                self.scaler = torch.amp.GradScaler("cuda")

            def backward(self, loss):
                self.scaler.scale(loss).backward()

            def clip_grad_norm_(self):
                self.scaler.unscale_(self.optimizer)

            def train(self, model, loader):
                for x in loader:
                    self.backward(model(x))
                    self.clip_grad_norm_()

        def fit(loss, helper: Scaled, other):
            helper.backward(loss)
            other.backward(loss)
    """
    trained = read(text)
    assert kinds(trained["train"]) == ["forward", "scale", "backward", "unscale"]
    assert only(trained["train"], "backward").scaler is not None
    assert [event.scaler for event in trained["fit"].of("backward")] == ["helper.scaler", None]
    assert trained["fit"].framework == "other"


def test_types_decide_before_names() -> None:
    text = """
        net, tool = nn.Linear(2, 2), torch.amp.GradScaler("cuda")
        sgd = torch.optim.SGD(net.parameters())
        plan = torch.optim.lr_scheduler.StepLR(sgd, 3)
        optimizer = "adam"
        tool.scale(net(x).sum()).backward()
        tool.unscale_(sgd)
        tool.step(sgd)
        tool.update()
        plan.step()
        optimizer.step()
    """
    training = read(text)["script"]
    assert kinds(training) == ["forward", "scale", "backward", "unscale", "step", "update", "scheduler_step"]
    assert only(training, "backward").scaler == "tool"
    assert (only(training, "step").receiver, only(training, "step").scaler) == ("sgd", "tool")


def test_a_choice_of_optimizers_is_an_optimizer() -> None:
    text = """
        def main(model, flag):
            tuner = torch.optim.SGD(model.parameters()) if flag else torch.optim.Adam(model.parameters())
            tuner.step()
    """
    assert kinds(read(text + "    model.zero_grad()\n")["main"])[0] == "step"


def test_helpers_are_seen_from_their_caller() -> None:
    text = """
        def one(net, opt, batch):
            opt.zero_grad()
            net(batch).sum().backward()
            opt.step()

        def main(model, optimizer, loader):
            for batch in loader:
                if batch is not None:
                    one(model, optimizer, batch)
    """
    training = read(text)["main"]
    step = only(training, "step")
    assert kinds(training) == ["zero_grad", "forward", "backward", "step"]
    assert (step.receiver, step.statement.lineno, step.anchor.lineno) == ("optimizer", 7, 12)
    assert [loop.lineno for loop in step.loops] == [10]
    assert [(branch[0].lineno, branch[1]) for branch in step.branches] == [(11, "body")]


def test_methods_of_self_are_followed() -> None:
    text = """
        class Trainer:
            def fit(self):
                for batch in self.loader:
                    self.one(batch)

            def one(self, batch):
                self.model(batch).sum().backward()
                self.optimizer.step()
    """
    training = read(text)["fit"]
    assert kinds(training) == ["forward", "backward", "step"]
    assert only(training, "step").receiver == "self.optimizer"


def test_gradients_cleared_by_hand() -> None:
    text = """
        for batch in loader:
            loss.backward()
            for p in model.parameters():
                p.grad = None
            for p in model.parameters():
                p.grad.zero_()
            weight.grad /= 2
    """
    training = read(text)["script"]
    assert kinds(training) == ["backward", "zero_grad", "zero_grad", "grad_edit"]
    assert {event.loops for event in training.events} == {only(training, "backward").loops}


def test_branches_exclude_each_other() -> None:
    text = """
        if amp:
            scaled = scaler.scale(loss)
            scaled.backward()
        else:
            loss.backward()
        optimizer.step()
    """
    first, second = read(text)["script"].of("backward")
    step = only(read(text)["script"], "step")
    assert (first.scaler, second.scaler) == ("scaler", None)
    assert first.excludes(second)
    assert not first.excludes(step)
    assert step.surely_with(step)


def test_a_closure_runs_before_its_step() -> None:
    text = """
        def main(model, x):
            optimizer = torch.optim.LBFGS(model.parameters())
            def closure():
                optimizer.zero_grad()
                loss = model(x).sum()
                loss.backward()
                return loss
            for _ in range(9):
                optimizer.step(closure)
    """
    training = read(text)["main"]
    assert kinds(training) == ["zero_grad", "forward", "backward", "step"]
    assert only(training, "step").closure


def test_unseen_code_that_gets_the_optimizer() -> None:
    text = """
        def main(model, optimizer, loader):
            for batch in loader:
                model(batch).sum().backward()
                print(optimizer)
                finish(optimizer)
            report(3)
    """
    training = read(text)["main"]
    assert only(training, "unseen").receiver == "finish"
    assert training.hides(training.loops[0], "optimizer")
    assert not training.hides(training.loops[0], "scaler")


def test_frameworks_are_marked() -> None:
    assert read("import accelerate\n" + dedent(PLAIN))["train"].framework == "accelerate"
    assert read("from transformers import Trainer\n" + dedent(PLAIN))["train"].framework == "transformers"
    assert read("from transformers import AutoModel\n" + dedent(PLAIN))["train"].framework is None
    assert read("self.fabric.backward(loss)")["script"].framework == "self.fabric"


def test_a_file_that_trains_nothing() -> None:
    assert read("def f(x):\n    return x.sum()") == {}
    assert read("def f(ctx, x):\n    return noise_scheduler.step(x, 1, 2)\n    # zero_grad") == {}


def test_recursion_ends() -> None:
    training = read("def f(loss, n):\n    loss.backward()\n    f(loss, n - 1)")["f"]
    assert kinds(training) == ["backward"]


def test_a_name_is_scaled_in_its_own_body_only() -> None:
    text = """
        def first(loss, scaler):
            loss = scaler.scale(loss)
            loss.backward()

        def second(loss, optimizer):
            loss.backward()
    """
    trainings_by_name = read(text)
    assert only(trainings_by_name["first"], "backward").scaler == "scaler"
    assert only(trainings_by_name["second"], "backward").scaler is None
