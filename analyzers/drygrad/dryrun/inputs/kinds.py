"""What a value could be, from its annotations, from how it is used and from what it is called."""

from __future__ import annotations

import ast
from functools import cached_property

from drygrad.dryrun.inputs import annotations, configuration, conventions
from drygrad.dryrun.inputs.arguments import FunctionNode
from drygrad.dryrun.inputs.constructing import Constructors
from drygrad.dryrun.inputs.gradients import PARAMETER, has_gradients_read, with_gradients
from drygrad.dryrun.inputs.hints import Hints
from drygrad.dryrun.inputs.known_names import KnownNames
from drygrad.dryrun.inputs.namesakes import Namesakes
from drygrad.dryrun.inputs.neighbours import Neighbours
from drygrad.dryrun.inputs.nodes import (
    BATCH,
    FEATURES,
    USUAL_SHAPES,
    Node,
    changed,
    function,
    group,
    number,
    row,
    saved,
    tensor,
    text,
    unbatched,
    with_others,
)
from drygrad.dryrun.inputs.recognising import (
    is_array,
    is_loader,
    is_mapping,
    is_module,
    is_tensor,
    is_used,
    own_members,
    plain_text,
)
from drygrad.dryrun.inputs.siblings import is_optimizer_like
from drygrad.dryrun.inputs.stand_ins import is_structured, stand_in_models
from drygrad.dryrun.inputs.tracing import Tracer
from drygrad.dryrun.inputs.usage import Usage

_DEPTH = 5
_SIZES = (8, 16, 32, 64)
"""What a list of sizes has."""
_ROWS = 4
"""How many elements a list of samples has."""
_LOADING = frozenset("DataLoader Iterable Iterator Generator IterableDataset".split())
_NONE = text("None", "search")
_PAIR = row("tuple", [tensor((BATCH, FEATURES)), tensor((BATCH,), "int64", high=2)])
_SAMPLES = 8
_TOLD_BY_USE = frozenset("Tensor ndarray Module Callable list List tuple Tuple Sequence dict Dict".split())
_ATTENDING = frozenset("q k v query key value".split())
_AMBIGUOUS = frozenset("y src tgt seq sequence target targets gt".split())
"""Names of classes and of tokens that stand for real numbers as well, where these are calculated with."""


class Proposer:
    """Proposes values for the parameters of one function."""

    def __init__(self, tree: ast.Module, hints: Hints, neighbours: Neighbours) -> None:
        self._tree = tree
        self.hints = hints
        self.names = KnownNames()
        self._namesakes = Namesakes(tree, neighbours)
        self.parameters = frozenset[str]()
        """What the function's parameters are called."""
        self.offers = False
        """Whether what has a default is proposed as well."""
        self.wants_gradients = False
        """Whether the function reads gradients that it does not compute."""
        self.tracer = Tracer(tree, neighbours)
        self.constructors = Constructors(tree, self.tracer, self, neighbours)
        self.tracer.model_for = self.constructors.model_class

    def receiver(self, usage: Usage, method: FunctionNode) -> Node | None:
        """Return the object to call a method on; None where it cannot be made."""
        assert usage.owner is not None
        whole = self.constructors.completed(usage.owner, method)
        if whole is not usage.owner:
            usage.owner, usage.given = whole, None
        made = self.constructors.object_of(usage.owner, usage)
        spare = self.constructors.bare(usage, [method]) if method.name != "__init__" else None
        if made is None:
            return spare
        whole = self.constructors.prepared(made, usage, [method])
        return {**whole, "spare": [spare]} if spare is not None else whole

    def of(self, usage: Usage, depth: int = 0) -> Node:
        """Return the proposal for a value."""
        holder = self.names.of(usage.state_of) if usage.state_of is not None else ""
        if holder:
            return text(f"{holder}.state_dict()", "search")
        optional = False
        for annotation in usage.annotations or self._annotations_elsewhere(usage):
            kinds = annotations.members(annotation)
            optional |= any(annotations.last_name(kind) == "None" for kind in kinds)
            found = next((n for k in kinds if (n := self._by_annotation(k, usage, depth)) is not None), None)
            if found is not None:
                return annotations.or_none(found) if optional else found
        if usage.owner is not None:
            made = self.constructors.object_of(usage.owner, usage, depth + 1)
            if made is not None:
                return self.constructors.prepared(made, usage, usage.entered)
        return self._by_usage(usage, depth)

    def _annotations_elsewhere(self, usage: Usage) -> list[ast.expr]:
        """Return how other functions annotate what is called so; of numbers and tensors, the use tells more."""
        if not usage.names or is_tensor(usage) or own_members(usage) or usage.calls:
            return []
        found = self._namesakes.annotation(usage.names[0])
        kinds = [annotations.last_name(kind) for kind in annotations.members(found)[:1]]
        return [found] if found is not None and kinds[0] not in _TOLD_BY_USE else []

    # -- annotations ---------------------------------------------------------------------------------------------

    def _by_annotation(self, node: ast.expr, usage: Usage, depth: int) -> Node | None:
        kind = annotations.last_name(node)
        if kind == "int":
            return conventions.number_by_names(usage.names)
        if kind == "float":
            return conventions.fraction_by_names(usage.names)
        if kind == "str":
            return self._word(usage)
        dtype = annotations.dtype_of_tensor(node)
        if dtype is not None:
            return self._tensor(usage, dtype)
        if kind in ("Module", "ModuleList") or (kind.endswith("Model") and not self.constructors.has(kind)):
            return self._model(usage, depth)
        if (
            kind in _LOADING
            and not self.constructors.has(kind)
            and (kind == "DataLoader" or not isinstance(node, ast.Subscript))
        ):
            return self._loader(usage, depth)
        if kind in ("dict", "Dict", "Mapping", "MutableMapping", "BatchEncoding"):
            return self._mapping(usage, depth, self._value_of_mapping(node))
        if kind in ("Optimizer", "LRScheduler", "_LRScheduler"):
            return text("None", conventions.SOURCE)
        if "Loss" in kind and not self.constructors.has(kind):
            return conventions.criterion()
        if kind.lower() in ("list", "sequence", "tuple", "iterable", "iterator", "collection", "set"):
            return self._several(node, kind, usage, depth)
        if kind in ("Path", "PathLike"):
            return self._path(usage, depth)
        if kind == "Callable" and not (usage.calls or own_members(usage)):
            return self._callable(usage, depth)
        if kind in ("Callable", "Any", "object"):
            return None
        if kind == "ndarray" and not isinstance(node, ast.Subscript):
            return changed(self._tensor(usage, ""), ".numpy()")
        made = self.constructors.object_named(kind, usage, depth + 1)
        if made is not None and usage.owner is not None:
            return self.constructors.prepared(made, usage, usage.entered)
        return made or annotations.by_annotation(node, self.hints.sizes)

    def _value_of_mapping(self, node: ast.expr) -> ast.expr | None:
        parts = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
        return parts[1] if len(parts) == 2 else None

    def _several(self, node: ast.expr, kind: str, usage: Usage, depth: int) -> Node | None:
        """Return the list or the tuple that an annotation with the type of its elements describes."""
        parts = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
        parts = parts or ([node.slice] if isinstance(node, ast.Subscript) else [])
        parts = [part for part in parts if not (isinstance(part, ast.Constant) and part.value is ...)]
        if not parts:
            return None
        is_tuple = kind.lower() == "tuple"
        count = len(parts) if is_tuple and len(parts) > 1 else max(usage.width, 2)
        made: list[Node] = []
        for index in range(min(count, 16)):
            part = usage.any_item() if usage.item is not None else usage.element(index)
            part.annotations.insert(0, parts[index % len(parts)])
            part.called(_singular(usage.names[0]) if usage.names else "")
            made.append(self.of(part, depth + 1))
            part.annotations.pop(0)
        if annotations.last_name(parts[0]) in ("int",) and not is_tuple:
            return with_others(row("list", made[:2]), *(row("list", [*made, *made][:n]) for n in (3, 4, 1)))
        return row("tuple" if is_tuple else "list", made)

    # -- use -----------------------------------------------------------------------------------------------------

    def _by_usage(self, usage: Usage, depth: int) -> Node:
        if depth > _DEPTH:
            return tensor((BATCH, FEATURES))
        if is_optimizer_like(usage):
            return text("None", conventions.SOURCE)
        for recognised in (self._container, self._object, self._named):
            found = recognised(usage, depth)
            if found is not None:
                return found
        return self._value(usage, depth)

    def _container(self, usage: Usage, depth: int) -> Node | None:
        lowered = [name.lower() for name in usage.names]
        surely_tensor = is_tensor(usage)
        if is_mapping(usage) and not self.constructors.fits(usage):
            return self._mapping(usage, depth)
        if "path" in usage.kinds:
            return self._path(usage, depth)
        if "dataset" in usage.kinds and not own_members(usage):
            return self._dataset(usage, depth)
        if is_loader(usage):
            return self._loader(usage, depth)
        if is_array(usage) and ("setting" not in usage.kinds or usage.used):
            return with_others(changed(self._tensor(usage, ""), ".numpy()"), self._tensor(usage, ""))
        if surely_tensor or own_members(usage):
            return None
        loads = any(conventions.LOADERS.fullmatch(name) for name in lowered)
        if "iterated" in usage.kinds and not usage.calls:
            if loads and (depth == 0 or "setting" in usage.kinds) and not lowered[0].startswith("batch"):
                return self._loader(usage, depth)
            return self._list(usage, depth)
        if usage.width and not usage.calls:
            return row("tuple", [self.of(usage.element(i), depth + 1) for i in range(usage.width)])
        if len(usage.elements) > 1 and not usage.calls:
            count = max(usage.elements) + 1
            return with_others(
                row("tuple", [self.of(usage.element(i), depth + 1) for i in range(count)]), self._tensor(usage, "")
            )
        if loads and depth == 0 and usage.item is not None and "sequence" not in usage.kinds:
            return with_others(self._list(usage, depth), self._tensor(usage, ""))
        return None

    def _object(self, usage: Usage, depth: int) -> Node | None:
        plain = plain_text(usage)
        if plain is not None:
            own = self.constructors.fitting(usage, depth + 1) if own_members(usage) else None
            return own or text(plain, conventions.SOURCE)
        if is_module(usage) or (usage.calls and any(conventions.is_model_name(name) for name in usage.names)):
            return self._model(usage, depth)
        members = own_members(usage)
        if usage.methods and any(conventions.LOGGERS.fullmatch(name.lower()) for name in usage.names):
            return text(conventions.SILENT, conventions.STAND_IN)
        config = conventions.CONFIGS if members else conventions.SURE_CONFIGS
        if usage.attributes and not usage.methods and any(config.fullmatch(name.lower()) for name in usage.names):
            return self._configuration(usage, depth)
        if not members:
            return None
        made = self.constructors.fitting(usage, depth + 1)
        if made is not None:
            return made
        silent = next((k for n in usage.names if (k := conventions.by_name(n)) and conventions.is_silent(k)), None)
        if silent is not None:
            return silent
        helps = any("context" in part.kinds for part in usage.methods.values())
        if is_tensor(usage) and len(members) < 2 and not helps:
            return None
        return self._stand_in(usage, depth)

    def _named(self, usage: Usage, depth: int) -> Node | None:
        known = conventions.by_names(usage.names)
        if known is not None and depth > 0 and "setting" not in usage.kinds and conventions.is_plain(known):
            known = None  # a part of a batch is data, however short its name
        if known is not None and known["kind"] == "text" and not is_tensor(usage):
            if conventions.is_criterion(known):
                return conventions.criterion()
            if usage.calls and conventions.is_word(known):
                return self._callable(usage, depth)
            if known["text"] == conventions.DEVICE:
                return known
            return with_others(known, tensor((BATCH, FEATURES)), *self._anything())
        return None

    def _value(self, usage: Usage, depth: int) -> Node:
        usual = self._namesakes.default(usage.names[0]) if usage.names and not is_tensor(usage) else None
        if usual is not None and not usage.calls:
            return with_others(text(usual, configuration.SOURCE), *self._anything(), self._tensor(usage, ""))
        if usage.calls:
            return self._callable(usage, depth)
        if "scalar" in usage.kinds:
            return self._scalar(usage)
        if usage.choices and not is_tensor(usage):
            return self._choice(usage)
        known = conventions.by_names(usage.names)
        surely = is_tensor(usage)
        if "flag" in usage.kinds and usage.kinds <= {"flag", "number"} and not surely and known is None:
            return with_others(text("False", "search"), *self._anything(), self._tensor(usage, ""))
        setting = "setting" in usage.kinds
        named = known is None and depth == 0 and conventions.is_number_name(usage.names)
        if (named or setting or "number" in usage.kinds) and not surely:
            others = (*self._anything(), text(conventions.IDENTITY, "search")) if setting else self._anything()
            return with_others(conventions.number_by_names(usage.names), *others, self._tensor(usage, ""))
        if "list" in usage.kinds and usage.item is not None and not surely:
            return self._list(usage, depth)
        if "numbers" in usage.kinds and not surely:
            return self._numbers(usage, depth)
        return self._tensor(usage, "")

    def _scalar(self, usage: Usage) -> Node:
        """Return a number that is put into a tensor: a class, a reward."""
        known = (conventions.by_name(name) for name in usage.names)
        counts = any(k is not None and k.get("dtype") == "int64" for k in known) or usage.kinds & {"ids", "classes"}
        first, second = number(1), text("0.5", "search")
        return with_others(*((first, second) if counts else (second, first)), self._tensor(usage, ""))

    def _numbers(self, usage: Usage, depth: int) -> Node:
        """Return numbers that are put into a tensor; those of one sample where they are a part of it."""
        whole = self._tensor(usage, "")
        shape = whole["shape"] if whole["kind"] == "tensor" else ()
        own = {**whole, "shape": shape[1:]} if depth and len(shape) > 1 else whole
        return with_others(changed(own, ".tolist()"), whole)

    def _anything(self) -> tuple[Node, ...]:
        return (text("0.5", "search"), number(8), _NONE, row("tuple", [number(8), number(16)]))

    # -- what a value is -----------------------------------------------------------------------------------------

    def _tensor(self, usage: Usage, dtype: str) -> Node:
        if self.wants_gradients and "gradient" in usage.kinds:
            return text(PARAMETER, "search")
        known = (conventions.by_name(name) for name in usage.names)
        base = next((k for k in known if k is not None and k["kind"] == "tensor"), None)
        hint = self.hints.tensor(usage.names)
        kinds = usage.kinds
        if usage.names[:1] and self._is_alone(usage.names[0]):
            base = None
        if base and "computed" in kinds and not kinds & {"ids", "index", "classes"} and usage.names[0] in _AMBIGUOUS:
            base = None
        if hint is not None:
            return self._others_of({**hint, **({"dtype": dtype} if dtype else {})}, dtype or hint["dtype"] != "float32")
        rank = usage.ranks[0] if usage.ranks else max(usage.least_rank, len(base["shape"]) if base else 2)
        if "classes" in kinds and not usage.ranks:
            rank = 1
        if not dtype and kinds & {"ids", "index", "classes"}:
            dtype = "int64"
        if not dtype and "mask" in kinds and "number" not in kinds:
            dtype = "bool"
        shape = base["shape"] if base and len(base["shape"]) == rank else USUAL_SHAPES.get(rank, (BATCH,) * rank)
        kind = dtype or (base["dtype"] if base and not kinds & {"alike", "unit"} else "float32")
        low = 1 if "unit" in kinds else (base or {}).get("value", 0)
        plain = tensor(shape, kind, "search", high=(base or {}).get("high", 0), low=low)
        source = base["source"] if base else "annotation" if dtype and usage.annotations else "search"
        return self._others_of({**plain, "source": source}, bool(dtype) and bool(usage.annotations))

    def _is_alone(self, name: str) -> bool:
        """Say whether a parameter is called as the keys of an attention are, in a function that has no queries."""
        return name in _ATTENDING and name in self.parameters and len(self.parameters & _ATTENDING) < 2

    def _others_of(self, node: Node, surely: object) -> Node:
        others = (number(4), text("0.5", "search"), _NONE, text(conventions.IDENTITY, "search"))
        return node if surely else with_others(node, *others)

    def _mapping(self, usage: Usage, depth: int, value: ast.expr | None = None) -> Node:
        if not usage.keys and ("mapping" in usage.kinds or usage.item is not None or value is not None):
            item = usage.any_item()
            item.annotations += [value] if value is not None else []
            names = (
                ("first", "second") if value is not None or not usage.kinds & {"passed"} else ("input_ids", "labels")
            )
            return group("mapping", {name: self.of(item, depth + 1) for name in names})
        if not usage.keys:
            return text("{}", "search") if usage.annotations else group("mapping", {})
        for part in usage.keys.values():
            part.annotations += [value] if value is not None else []
        return group("mapping", {key: self.of(part, depth + 1) for key, part in usage.keys.items()})

    def _loader(self, usage: Usage, depth: int) -> Node:
        item = usage.item
        if item is None and usage.elements:
            item = usage.element(0)
        if item is None or not (item.width or item.elements or item.names or item.keys or item.used):
            return row("loader", [_PAIR])
        return row("loader", [self.of(item, depth + 1)])

    def _dataset(self, usage: Usage, depth: int) -> Node:
        """Return samples: what a batch has, without its first dimension."""
        item = usage.item
        known = item is not None and (item.width or item.elements or item.keys or is_tensor(item))
        batch = self.of(item, depth + 1) if item is not None and known else _PAIR
        return row("list", [unbatched(batch)] * _SAMPLES)

    def _list(self, usage: Usage, depth: int) -> Node:
        item = usage.any_item()
        if not item.names and usage.names and usage.names[0].endswith("s"):
            item.called(_singular(usage.names[0]))
        if "number" in item.kinds and "setting" in usage.kinds and not is_tensor(item):
            sizes = [number(size) for size in _SIZES]
            return with_others(*(row("list", sizes[:count]) for count in (3, 2, 4, 1)))
        made = self.of(item, depth + 1)
        return with_others(row("list", [made] * _ROWS), self._tensor(usage, ""))

    def _model(self, usage: Usage, depth: int) -> Node:
        """Return a model of the file that fits, else one that stands in."""
        made = self.constructors.models_for(usage, depth)
        stand_ins = stand_in_models(usage)
        anything = conventions.is_any_layer(usage.names)
        first = 2 if anything or (is_structured(usage) and not self.constructors.gives_several(usage)) else 0
        found = [*stand_ins[:first], *made[:3], *stand_ins[first:]]
        if self.wants_gradients and has_gradients_read(usage):
            found[0] = with_gradients(found[0])
        return with_others(found[0], *found[1:])

    def _configuration(self, usage: Usage, depth: int) -> Node:
        parts: dict[str, Node] = {}
        for name, part in usage.attributes.items():
            nested = part.attributes and not is_tensor(part) and name not in self._defaults
            whole = part.owner is not None or part.calls or is_tensor(part) or "load" in part.methods
            parts[name] = (
                self.of(part, depth + 1) if nested or whole else configuration.value(name, self._defaults, part)
            )
        return group("namespace", parts)

    def _stand_in(self, usage: Usage, depth: int) -> Node:
        """Return an object with the attributes and the methods that are used."""
        parts: dict[str, Node] = {name: self.of(part, depth + 1) for name, part in usage.attributes.items()}
        for name, given in usage.methods.items():
            given.called(name.rpartition("_")[2])
            parts[name] = function(self._given(given, depth))
        return group("namespace", parts)

    def _given(self, usage: Usage, depth: int) -> Node:
        """Return what a call gives; nothing where nothing is done with it."""
        if "context" in usage.kinds:
            return text("__import__('contextlib').nullcontext()", "search")
        return self.of(usage, depth + 1) if is_used(usage) else _NONE

    def _callable(self, usage: Usage, depth: int) -> Node:
        found = [*conventions.callables()]
        result = usage.result
        formed = result is not None and (result.width or result.keys or own_members(result) or result.elements)
        if result is not None and (formed or "mapping" in result.kinds):
            found.insert(0, function(self.of(result, depth + 1)))
        found += self.constructors.models_for(usage, depth)[:2] if depth < 2 else []
        return with_others(found[0], *found[1:], number(8))

    def _word(self, usage: Usage) -> Node:
        if "path" in usage.kinds:
            return self._path(usage, 0)
        if usage.choices:
            return self._choice(usage)
        usual = next((self._words[name] for name in usage.names if name in self._words), None)
        if usual is not None:
            return text(usual, configuration.SOURCE)
        known = (conventions.by_name(name) for name in usage.names)
        found = next((k for k in known if k is not None and k["kind"] == "text" and conventions.is_word(k)), None)
        return found or text("'name'", annotations.SOURCE)

    def _choice(self, usage: Usage) -> Node:
        found = [text(written, "search") for written in dict.fromkeys(usage.choices)][:6]
        return with_others(found[0], *found[1:], *self._anything(), self._tensor(usage, ""))

    def _path(self, usage: Usage, depth: int) -> Node:
        """Return the path of a file; one with what is read from it where that is told, or that of a folder."""
        if "folder" in usage.kinds:
            return text(conventions.FOLDER, conventions.SOURCE)
        content = usage.methods.get("load")
        if content is not None and self.names.of(content.state_of):
            return saved(self.of(content, depth + 1))
        if content is not None and (content.keys or content.item is not None or content.used):
            for part in content.keys.values():
                part.kinds.add("setting")
            return saved(self.of(content, depth + 1))
        return with_others(text("'dry-run.tmp'", conventions.SOURCE), text("'.'", "search"))

    @cached_property
    def _words(self) -> dict[str, str]:
        return configuration.words_of(self._tree)

    @cached_property
    def _defaults(self) -> dict[str, str]:
        return configuration.argparse_defaults(self._tree)


def _singular(name: str) -> str:
    return name[:-1] if name.endswith("s") else name
