"""What can be run in a text, and what is under a cursor."""

from __future__ import annotations

import pytest
from plan_harness import source_of

from drygrad.dryrun.targets import target_at, target_named, targets
from drygrad.model import Position
from drygrad.static.source import Source

PROGRAM = source_of("""
    import torch

    class Outer:
        factor = 2

        class Inner:
            @staticmethod
            def forward(x):
                def helper():
                    return x
                return helper()

        @property
        def size(self):
            return 1

        @classmethod
        async def make(cls, n): ...

    if torch.cuda.is_available():
        @torch.no_grad()
        def evaluate(model): ...

    # dry-run: skip
    def download(url): ...

    if __name__ == "__main__":
        evaluate(None)
""")


def test_the_targets_of_a_text() -> None:
    found = targets(PROGRAM)
    assert [(t.qualname, t.kind) for t in found] == [
        ("Outer.Inner.forward", "method"),
        ("Outer.make", "method"),
        ("evaluate", "function"),
        ("download", "function"),
        (None, "script"),
    ]
    assert [t.qualname for t in found if t.skipped] == ["download"]
    assert [(t.receiver, t.is_class_method) for t in found[:3]] == [(None, False), ("cls", True), (None, False)]
    assert [PROGRAM.slice(t.name_span) for t in found] == [
        "forward",
        "make",
        "evaluate",
        "download",
        'if __name__ == "__main__":',
    ]
    assert PROGRAM.slice(found[2].span).startswith("@torch.no_grad()")


@pytest.mark.parametrize(
    ("line", "qualname"),
    [
        (4, None),  # the class has no forward
        (5, None),
        (6, "Outer.Inner.forward"),
        (7, "Outer.Inner.forward"),
        (10, "Outer.Inner.forward"),
        (13, "Outer.size"),
        (21, "evaluate"),
        (22, "evaluate"),
    ],
)
def test_the_target_under_a_cursor(line: int, qualname: str | None) -> None:
    found = target_at(PROGRAM, Position(line, 0))
    assert (found.qualname if found else None) == qualname


def test_the_script_is_under_a_cursor_at_module_level() -> None:
    found = target_at(PROGRAM, Position(1, 0))
    assert found is not None
    assert found.kind == "script"


COMMENTED = source_of("""
    import torch

    # dry-run: x=torch.ones(3)

    # Not about inputs.
    # dry-run: x=(
    #     torch.ones(2),
    # )
    @torch.no_grad()
    # Between them.
    @torch.compile
    def f(x): ...

    class C:
        # dry-run: self=C(), x=1
        def g(self, x): ...

    # Nothing of it.
    def h(): ...

    print(f)
""")


@pytest.mark.parametrize(
    ("words", "qualname"),
    [
        ("# dry-run: x=(", "f"),
        ("torch.ones(2),", "f"),
        ("# )", "f"),
        ("@torch.no_grad", "f"),
        ("# Between", "f"),
        ("@torch.compile", "f"),
        ("# dry-run: self", "C.g"),
        ("# dry-run: x=torch.ones(3)", None),
        ("# Nothing", None),
    ],
)
def test_a_cursor_on_its_inputs_or_decorators_means_a_function(words: str, qualname: str | None) -> None:
    found = target_at(COMMENTED, COMMENTED.position(COMMENTED.text.index(words)))
    assert found is not None
    assert found.qualname == qualname


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("import torch\nRATE = 0.1\n", False),
        ('"""Docs."""\nlog = logging.getLogger(__name__)\n', False),
        ("x = torch.zeros(3)\n", True),
        ("for i in range(3):\n    print(i)\n", True),
        ("if __name__ == '__main__':\n    pass\n", True),
        ("if '__main__' == __name__:\n    pass\n", True),
        ("def f(: \n", False),
    ],
)
def test_a_text_that_runs_something_is_a_script(text: str, runs: bool) -> None:
    assert any(target.kind == "script" for target in targets(Source(text))) is runs


def test_what_a_thread_does_until_it_is_told_to_end_is_run_only_when_it_is_named() -> None:
    source = source_of(
        """
        import threading
        class Monitor:
            def start(self):
                threading.Thread(target=self._report, daemon=True).start()
                threading.Thread(target=once).start()
            def _report(self):
                while not self.finished.wait(1.0):
                    print("on")
        def once():
            return 1
        """
    )
    assert [target.qualname for target in targets(source)] == ["Monitor.start", "once"]
    named = target_named(source, "Monitor._report")
    assert named is not None


def test_the_last_definition_of_a_name_is_meant() -> None:
    source = Source("def f(): ...\ndef f(x): ...\n")
    found = target_named(source, "f")
    assert found is not None
    assert found.name_span.start.line == 2
    assert [t.qualname for t in targets(source)] == ["f"]


NAMED = source_of("""
    import torch
    from functools import cached_property

    class Base(torch.nn.Module):
        def forward(self, x):
            return x

        def helper(self): ...

    class Net(Base):
        @property
        def width(self):
            return 1

        @width.setter
        def width(self, value): ...

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

    class Apart(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output): ...

    class Held:
        def __init__(self, a): ...

    class Plain:
        a = 1

    def outer():
        def inner(): ...
""")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Net", "Net.forward"),
        ("Net.forward", "Net.forward"),
        ("Net.helper", "Net.helper"),
        ("Held", "Held.__init__"),
        ("outer.inner", "outer"),
        ("outer.<locals>.inner", "outer"),
        ("Plain", None),
        ("outer.other", None),
        ("Net.other", None),
    ],
)
def test_what_a_name_means(name: str, found: str | None) -> None:
    target = target_named(NAMED, name)
    assert (target.qualname if target else None) == found


def test_an_inherited_method_is_run_on_an_object_of_the_class_that_was_named() -> None:
    target = target_named(NAMED, "Net")
    assert target is not None
    assert target.owner is not None
    assert (target.owner.name, target.receiver, target.span.start.line) == ("Net", "self", 5)


def test_of_a_property_what_reads_it_is_run() -> None:
    target = target_named(NAMED, "Net.width")
    assert target is not None
    assert target.function is not None
    assert [p.arg for p in target.function.args.args] == ["self"]


def test_autograd_gives_a_forward_its_context() -> None:
    own, apart = target_named(NAMED, "Square"), target_named(NAMED, "Apart.forward")
    assert own is not None
    assert apart is not None
    assert (own.receiver, own.is_class_method) == ("ctx", True)
    assert apart.receiver is None
