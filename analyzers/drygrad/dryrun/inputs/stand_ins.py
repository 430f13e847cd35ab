"""Modules that stand in for a model that a function is given: their results have the form that the function reads."""

from __future__ import annotations

import re

from drygrad.dryrun.inputs import conventions
from drygrad.dryrun.inputs.nodes import FEATURES, LENGTH, Node, text
from drygrad.dryrun.inputs.recognising import is_tensor, own_members
from drygrad.dryrun.inputs.usage import MOST_ELEMENTS, Usage

_FLAT = f"torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear({FEATURES}, 10))"
_OF_IDS = (
    f"torch.nn.Sequential(torch.nn.Embedding(10, {FEATURES}), torch.nn.Flatten(), "
    f"torch.nn.Linear({LENGTH * FEATURES}, 10))"
)
_KEEPING = f"torch.nn.Linear({FEATURES}, {FEATURES})"
_WIDE = (
    "type('Net', (torch.nn.Linear,), {{'forward': lambda self, x, *rest, **more: "
    "(lambda made: ({result}))(torch.nn.Linear.forward(self, x))}})" + f"({FEATURES}, {FEATURES})"
)
_PASSING = "type('Same', (torch.nn.Identity,), {'forward': lambda self, x, *rest, **more: x})()"
_ANY = (
    "type('Net', (torch.nn.Linear,), {{'forward': lambda self, *given, **named: (lambda made: {result})"
    "(torch.nn.Linear.forward(self, [v for v in (*given, *named.values()) if isinstance(v, torch.Tensor)][0].float()"
    "{rows}.mean(-1, keepdim=True)))}})(1, 10)"
)
"""Takes anything whose first tensor has a batch, and gives ten numbers for each element of it, or for each position."""
_ROWS = ("[:, None].flatten(1)", "[..., None].flatten(2)")
_OF_DISTRIBUTIONS = frozenset(("log_prob", "rsample", "entropy"))
_DISTRIBUTIONS = ("torch.distributions.Normal(made, 1.0)", "torch.distributions.Categorical(logits=made)")
_PLAIN = re.compile(r"made|\((made, )*made,\)")
_DEPTH = 3


def stand_in_models(usage: Usage) -> list[Node]:
    """Return modules that stand in for one that is called so."""
    many = any(len(call.args) + len(call.keywords) > 1 for call in usage.calls)
    unpacks = any(keyword.arg is None for call in usage.calls for keyword in call.keywords)
    width = usage.result.width if usage.result is not None else 0
    written = [_WIDE.format(result=", ".join(["made"] * width))] if width and not is_structured(usage) else []
    if unpacks or is_structured(usage):
        written += [_ANY.format(result=result, rows=rows) for rows in _ROWS for result in _results(usage.result)]
    if usage.result is not None and usage.result.ranks[:1] == [3]:
        written += [_KEEPING, _ANY.format(result="made", rows=_ROWS[1])]
    elif usage.result is not None and usage.result.least_rank == 3:
        written += [_ANY.format(result="made", rows=_ROWS[1])]
    if conventions.is_any_layer(usage.names):
        written += [_PASSING, _WIDE.format(result="made")]
    written += [_WIDE.format(result="made")] if many else []
    written += [_FLAT, _OF_IDS, _KEEPING, _WIDE.format(result="made"), _ANY.format(result="made", rows=_ROWS[0])]
    written += [conventions.IDENTITY, conventions.ANY_CALL]
    found = [text(t, conventions.STAND_IN) for t in dict.fromkeys(written)]
    return [{**node, "is_module": node["text"] != conventions.ANY_CALL} for node in found]


def is_structured(usage: Usage) -> bool:
    """Say whether what a call gives is read as more than a tensor, or as several tensors."""
    return usage.result is not None and _PLAIN.fullmatch(_form(usage.result)) is None


def _results(usage: Usage | None) -> list[str]:
    """Return the forms that a result could have, as expressions of the tensor that the module has made."""
    form = _form(usage) if usage is not None else "made"
    return [form, form.replace(*_DISTRIBUTIONS)] if _DISTRIBUTIONS[0] in form else [form]


def _form(usage: Usage, depth: int = 0) -> str:
    if depth > _DEPTH:
        return "made"
    if usage.used & _OF_DISTRIBUTIONS:
        return _DISTRIBUTIONS[0]
    elements = max(usage.elements, default=0) + 1 if len(usage.elements) > 1 and not is_tensor(usage) else 0
    count = min(usage.width or elements, MOST_ELEMENTS)
    if count:
        parts = [_form(usage.element(index), depth + 1) for index in range(count)]
        return f"({', '.join(parts)},)"
    if usage.keys:
        return "{" + ", ".join(f"{key!r}: {_form(part, depth + 1)}" for key, part in usage.keys.items()) + "}"
    own = own_members(usage) & {*usage.attributes}
    if own:
        parts = [f"{name}={_form(usage.attributes[name], depth + 1)}" for name in usage.attributes if name in own]
        return f"types.SimpleNamespace({', '.join(parts)})"
    return "made.mean()" if usage.names and usage.names[0].endswith("loss") else "made"
