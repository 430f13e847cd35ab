"""Proposals for every input of a function that nothing in the file gives: what the worker's search begins with."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from drygrad.dryrun.inputs import annotations, configuration, conventions
from drygrad.dryrun.inputs.arguments import FunctionNode, missing_parameters
from drygrad.dryrun.inputs.constructing import Constructors
from drygrad.dryrun.inputs.nodes import (
    BATCH,
    FEATURES,
    USUAL_SHAPES,
    Node,
    group,
    number,
    row,
    tensor,
    text,
    texts,
    with_others,
)
from drygrad.dryrun.inputs.usage import Usage, usage_of
from drygrad.dryrun.slicing import free_of_text
from drygrad.dryrun.targets import Target

_OF_MODULES = frozenset("parameters train eval state_dict named_parameters modules children zero_grad".split())
_OF_OPTIMIZERS = frozenset(("step", "zero_grad", "param_groups"))
_OF_TENSORS = frozenset(
    "shape size dim ndim dtype device to view reshape permute transpose unsqueeze squeeze flatten sum mean numel float "
    "long contiguous detach cpu cuda clone new_zeros expand repeat chunk split T mT item backward requires_grad "
    "sigmoid softmax exp log pow abs max min argmax std var norm masked_fill type unbind matmul bmm is_cuda".split()
)
_OF_PLAIN = (
    (frozenset(("keys", "items", "values", "pop", "setdefault")), "{'name': torch.randn(2, 64)}"),
    (frozenset(("startswith", "endswith", "lower", "upper", "format", "strip", "encode")), "'name'"),
    (frozenset(("append", "extend")), "[]"),
    (frozenset(("weight", "bias", "in_features", "out_features")), "torch.nn.Linear(64, 64)"),
)
_DEPTH = 3
_STAND_IN = f"torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear({FEATURES}, 10))"


@dataclass(frozen=True)
class Proposal:
    """What a search begins with; ``names`` are those of the file that it reads."""

    inputs: Node
    names: frozenset[str]


def propose(tree: ast.Module, target: Target) -> Proposal | None:
    """Return the proposal for a function's receiver and required parameters; None where some cannot be proposed."""
    function = target.function
    if function is None or function.args.posonlyargs:
        return None
    proposer = Proposer(tree, function)
    parts: dict[str, Node] = {}
    if target.receiver is not None and not target.is_class_method:
        made = proposer.constructors.object_of(target.owner) if target.owner else None
        if made is None:
            return None
        parts[target.receiver] = made
    parts |= proposer.parameters(missing_parameters(function, target.receiver, ()))
    inputs: Node = {**group("inputs", parts), "text": target.receiver or ""}
    return Proposal(inputs, frozenset(name for written in texts(inputs) for name in free_of_text(written)))


class Proposer:
    """Proposes the parameters of one function."""

    def __init__(self, tree: ast.Module, function: FunctionNode) -> None:
        self._tree = tree
        self._function = function
        self._sizes: dict[str, int] = {}
        self.constructors = Constructors(tree)

    def parameters(self, names: Sequence[str]) -> dict[str, Node]:
        """Return a proposal for each name, in an order in which those that read others come after them."""
        found = {name: self.parameter(name) for name in names}
        models = [n for n, node in found.items() if self._is_model(n, node) and not self._is_optimizer(n)]
        for name in names:
            if self._is_optimizer(name):
                found[name] = (
                    conventions.optimizer(name, models) or conventions.optimizer("optimizer", models) or found[name]
                )
        late = [name for name in names if any(free_of_text(t) & {*names} for t in texts(found[name]))]
        return {name: found[name] for name in (*(n for n in names if n not in late), *late)}

    def parameter(self, name: str) -> Node:
        """Return the proposal for one parameter: by annotation, by what its name stands for, by how it is used."""
        arguments = self._function.args
        given = next(
            p.annotation for p in (*arguments.args, *arguments.kwonlyargs, *arguments.posonlyargs) if p.arg == name
        )
        usage = usage_of(name, self._function.body)
        kinds = annotations.members(given)
        found = next((n for k in kinds if (n := self._by_annotation(k, name, usage)) is not None), None)
        if found is not None:
            optional = any(annotations.last_name(kind) == "None" for kind in kinds)
            return annotations.or_none(found) if optional else found
        return self.by_usage(name, usage)

    def _by_annotation(self, node: ast.expr, name: str, usage: Usage) -> Node | None:
        kind = annotations.last_name(node)
        if kind == "int":
            return conventions.number_by_name(name)
        dtype = annotations.dtype_of_tensor(node)
        if dtype is not None:
            return self._tensor(name, usage, dtype)
        if kind in ("Module", "ModuleList") or kind.endswith("Model"):
            return self._model(name, usage)
        if kind in ("DataLoader", "Dataset", "Iterable", "Iterator"):
            return self._loader(usage)
        if kind.endswith("Optimizer") or kind.endswith("Scheduler") or "Loss" in kind:
            return conventions.optimizer(name, []) or conventions.by_name("criterion" if "Loss" in kind else name)
        return self.constructors.object_named(kind) or annotations.by_annotation(node, self._sizes)

    def by_usage(self, name: str, usage: Usage, depth: int = 0) -> Node:
        """Return the proposal for a name whose type nothing says."""
        used = {*usage.attributes, *usage.methods}
        lowered = name.lower()
        if usage.keys or usage.is_unpacked:
            return self._mapping(usage, depth)
        if self._is_optimizer(name):
            return text("None", conventions.SOURCE)
        plain = next((value for methods, value in _OF_PLAIN if used & methods), None)
        if plain is not None and not used & _OF_TENSORS:
            return text(plain, conventions.SOURCE)
        if usage.items and (conventions.LOADERS.fullmatch(lowered) or not used & _OF_TENSORS):
            if depth == 0 and not lowered.startswith("batch"):
                return self._loader(usage)
            if depth < _DEPTH:
                return self._batch(usage.items[0], depth)
        if used & _OF_MODULES or (conventions.MODELS.fullmatch(lowered) and usage.is_called):
            return self._model(name, usage)
        if conventions.CONFIGS.fullmatch(lowered) and used - _OF_TENSORS:
            return configuration.namespace(usage.attributes, self._defaults)
        known = conventions.by_name(name)
        if known is not None and known["kind"] == "text" and not used & _OF_TENSORS:
            return self._named(known, usage)
        if usage.is_called:
            return conventions.stand_in_callable()
        counts = usage.is_number or (known is None and depth == 0 and conventions.is_number_name(name))
        if counts and not used & _OF_TENSORS and not usage.least_rank:
            return with_others(conventions.number_by_name(name), self._tensor(name, usage, ""))
        if usage.is_sequence and not used & _OF_TENSORS and name.endswith("s"):
            return with_others(row("list", [tensor((BATCH, FEATURES))] * 2), self._tensor(name, usage, ""))
        return self._tensor(name, usage, "")

    def _named(self, known: Node, usage: Usage) -> Node:
        if "CrossEntropyLoss" in known["text"]:
            others = [text(t, conventions.SOURCE) for t in ("torch.nn.MSELoss()", "lambda *given: given[0].sum()")]
            return with_others(known, *others)
        return known if known["text"] == conventions.DEVICE else with_others(known, tensor((BATCH, FEATURES)))

    def _tensor(self, name: str, usage: Usage, dtype: str) -> Node:
        known = conventions.by_name(name)
        base = known if known is not None and known["kind"] == "tensor" else None
        rank = usage.ranks[0] if usage.ranks else max(usage.least_rank, len(base["shape"]) if base else 2)
        if usage.is_index and not dtype:
            dtype = "int64"
        shape = base["shape"] if base and len(base["shape"]) == rank else USUAL_SHAPES.get(rank, (BATCH,) * rank)
        kind = dtype or (base["dtype"] if base else "float32")
        plain = tensor(shape, kind, "search", high=(base or {}).get("high", 0), low=(base or {}).get("value", 0))
        source = base["source"] if base else "annotation" if dtype else "search"
        others = (number(4), text("0.5", "search"), text("None", "search"), text(conventions.IDENTITY, "search"))
        return with_others({**plain, "source": source}, *(others if not dtype else ()))

    def _mapping(self, usage: Usage, depth: int) -> Node:
        keys = list(dict.fromkeys(usage.keys)) or ["input_ids", "attention_mask", "labels"]
        return group("mapping", {key: self.by_usage(key, Usage(), depth + 1) for key in keys})

    def _loader(self, usage: Usage) -> Node:
        if not usage.items:
            return row("loader", [row("tuple", [tensor((BATCH, FEATURES)), tensor((BATCH,), "int64", high=2)])])
        return row("loader", [self._batch(usage.items[0], 0)])

    def _batch(self, target: ast.expr, depth: int) -> Node:
        """Return what a loop binds to its target."""
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = [e.value if isinstance(e, ast.Starred) else e for e in target.elts]
            return row("tuple", [self._batch(part, depth + 1) for part in parts])
        if isinstance(target, ast.Name) and depth < _DEPTH:
            if target.id == "_":
                return tensor((BATCH,), "int64", high=2)
            return self.by_usage(target.id, usage_of(target.id, self._function.body), depth + 1)
        return tensor((BATCH, FEATURES))

    def _model(self, name: str, usage: Usage) -> Node:
        """Return a model of the file that fits the name, else one that stands in."""
        wide = any(len(call.args) + len(call.keywords) > 1 for call in usage.calls)
        stand_in = text(conventions.ANY_CALL if wide else _STAND_IN, conventions.SOURCE)
        made = self.constructors.models_for(name)
        found = [*made[:3], stand_in, text(conventions.IDENTITY, conventions.SOURCE)]
        return with_others(found[0], *found[1:])

    def _is_model(self, name: str, node: Node) -> bool:
        return bool(conventions.MODELS.fullmatch(name.lower())) or node.get("text") == _STAND_IN

    def _is_optimizer(self, name: str) -> bool:
        usage = usage_of(name, self._function.body)
        named = conventions.optimizer(name, []) is not None
        return named or ("step" in usage.methods and "zero_grad" in usage.methods)

    @cached_property
    def _defaults(self) -> dict[str, str]:
        return configuration.argparse_defaults(self._tree)
