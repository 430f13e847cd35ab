"""A fix that removes or replaces a call for the sake of one reader leaves the result to every other reader."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

import pytest
from rule_harness import Example

from drygrad.model import Edit, Finding, Fix, Position, Rule
from drygrad.static.registry import all_rules

OBSERVED = "observe_the_result"
FOR_ALL = {
    "DG206": "the values are the same, on the device that they came from",
    "DG735": "a list gives every reader the elements, and more than once",
}
"""Rules whose fault is the value itself: what replaces it is better for all who read it, and why."""


def _bindings(tree: ast.Module) -> Iterator[tuple[ast.Assign, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call()):
                yield node, name
            case _:
                pass


def _changes_call(edit: Edit, statement: ast.Assign) -> bool:
    """Say whether an edit goes to what is called, or takes the whole call away; not one of its arguments alone."""
    call = statement.value
    assert isinstance(call, ast.Call)
    start, end = Position(call.lineno, call.col_offset), Position(call.end_lineno or 0, call.end_col_offset or 0)
    function_end = Position(call.func.end_lineno or 0, call.func.end_col_offset or 0)
    whole = edit.span.start <= start and end <= edit.span.end
    return whole or (edit.span.start < function_end and start < edit.span.end)


def _first_fix(rule: type[Rule], example: Example) -> tuple[Finding, Fix] | None:
    found = (finding for finding in example.findings() if finding.code == rule.code)
    return next(((finding, finding.fixes[0]) for finding in found if finding.fixes), None)


def _observed(example: Example, statement: ast.Assign, name: str) -> Example:
    lines = example.text.splitlines()
    lines.insert(statement.end_lineno or statement.lineno, " " * statement.col_offset + f"{OBSERVED}({name})")
    return replace(example, text="\n".join(lines) + "\n")


def _cases(rule: type[Rule]) -> Iterator[tuple[Example, ast.Assign, str]]:
    """Yield the examples whose fix changes a call that gave a name its value, with a second reader of that name."""
    for invalid in rule.INVALID:
        example = Example.of(invalid.text, invalid.target_torch)
        found = _first_fix(rule, example) if invalid.fixed is not None else None
        if found is None or found[1].safety == "safe":
            continue
        for statement, name in _bindings(ast.parse(example.text)):
            at_fault = statement.lineno <= found[0].span.start.line <= (statement.end_lineno or statement.lineno)
            if not at_fault and any(_changes_call(edit, statement) for edit in found[1].edits):
                yield example, statement, name


def _value_read(text: str) -> str:
    """Return the text of what the observed name is bound to where it is observed."""
    tree = ast.parse(text)
    reader = next(n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == OBSERVED)
    name = ast.unparse(reader.args[0])
    bound = {s.lineno: s for s in ast.walk(tree) if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == name}
    last = bound[max(line for line in bound if line < reader.lineno)]
    fresh = {ast.unparse(s.targets[0]): s.value for s in ast.walk(tree) if isinstance(s, ast.Assign)}
    value = last.value
    names = [n.id for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in ("logits", "raw_logits", "scores")]
    text = ast.unparse(value)
    return text.replace(names[0], ast.unparse(fresh[names[0]])) if names and names[0] in fresh else text


RULES = [rule for rule in all_rules() if not rule.run_only and rule.code not in FOR_ALL]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_second_reader_sees_the_same_value(rule: type[Rule]) -> None:
    for example, statement, name in _cases(rule):
        observed = _observed(example, statement, name)
        found = _first_fix(rule, observed)
        if found is not None:
            assert _value_read(observed.after(found[1]).text) == _value_read(observed.text), (observed.text, name)


LOSSES = {
    "DG304": ("F.cross_entropy({}, y)", "softmax", "dim=1", "torch.randint(0, 4, (6,))"),
    "DG305": ("F.binary_cross_entropy_with_logits({}, y)", "sigmoid", "", "torch.rand(6, 4)"),
    "DG308": ("F.nll_loss({}, y)", "softmax", "dim=1", "torch.randint(0, 4, (6,))"),
    "DG311": ("F.kl_div({}, y, reduction='batchmean')", "softmax", "dim=1", "torch.rand(6, 4)"),
    "DG328": ("F.cross_entropy({}, y)", "tanh", "", "torch.randint(0, 4, (6,))"),
}
"""A loss, the activation that must not stand before it, its arguments, and a target."""
FORMS = {
    "a name": "layer = nn.Linear(3, 4)\nresult = torch.{0}(layer(x){1})\nloss = {2}\n",
    "a name of a name": "layer = nn.Linear(3, 4)\nz = layer(x)\nresult = z.{0}({3})\nloss = {2}\n",
    "one name for both": "layer = nn.Linear(3, 4)\nresult = layer(x)\nresult = torch.{0}(result{1})\nloss = {2}\n",
    "laid out anew": "layer = nn.Linear(3, 4)\nresult = torch.{0}(layer(x){1}).contiguous()\nloss = {2}\n",
    "a function": "layer = nn.Linear(3, 4)\ndef head(x: torch.Tensor):\n    return torch.{0}(layer(x){1})\n"
    "result = head(x)\nloss = {2}\n",
    "a module": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.out = nn.Linear(3, 4)\n    def forward(self, x):\n        return torch.{0}(self.out(x){1})\n"
    "result = Net()(x)\nloss = {2}\n",
    "the last layer": "net = nn.Sequential(nn.Linear(3, 4), nn.{4}({3}))\nresult = net(x)\nloss = {2}\n",
}
READERS = {
    "a sum": "seen = result.sum(dim=0)\n",
    "another function": "def other(values):\n    return 1 - (2 * values).mean()\nseen = other(result)\n",
    "a comparison": "seen = (result > 0.5).float()\n",
}


def _program(code: str, form: str, reader: str) -> str:
    loss, activation, arguments, target = LOSSES[code]
    more = f", {arguments}" if arguments else ""
    body = FORMS[form].format(activation, more, loss.format("result"), arguments, activation.capitalize())
    return f"torch.manual_seed(0)\nx, y = torch.randn(6, 3), {target}\n{body}{READERS[reader]}"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("code", LOSSES)
def test_the_loss_is_repaired_and_the_second_reader_keeps_its_values(code: str, form: str, reader: str) -> None:
    torch = pytest.importorskip("torch")
    example = Example.of(_program(code, form, reader))
    found = [finding for finding in example.findings() if finding.code == code]
    assert found
    before: dict[str, object] = {}
    exec(example.program, before)
    for fix in (fix for finding in found for fix in finding.fixes):
        after: dict[str, object] = {}
        exec(example.after(fix).program, after)
        assert torch.allclose(after["seen"], before["seen"], atol=1e-6), fix.title
        assert not torch.allclose(after["loss"], before["loss"]), fix.title
    if form in ("a name", "a name of a name", "laid out anew") and code in ("DG304", "DG305", "DG328"):
        assert any(finding.fixes for finding in found)
