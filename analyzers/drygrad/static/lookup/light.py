"""The light look-up: follows imports, aliases and bases through modules' text, as far as names alone lead."""

from __future__ import annotations

import builtins
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from drygrad.static.lookup.answers import MODULE, TENSOR, UNKNOWN, Answer, Question
from drygrad.static.lookup.modules import Module, Modules, OutOfTimeError, module_at
from drygrad.static.lookup.outline import Class, Function, Import, Value

TENSOR_FACTORIES = frozenset({
    "arange", "as_tensor", "cat", "empty", "empty_like", "eye", "from_numpy", "full", "full_like", "linspace", "ones",
    "ones_like", "rand", "rand_like", "randint", "randn", "randn_like", "randperm", "stack", "tensor", "zeros",
    "zeros_like",
})  # fmt: skip
RENAMED = {"torch.nn.Module": MODULE, "torch._tensor.Tensor": TENSOR}
GRAD_MODES = frozenset({"no_grad", "inference_mode"})


@dataclass(frozen=True, slots=True)
class Definition:
    """Where a name is defined, and as what."""

    module: Module
    name: str
    binding: Class | Function | Value

    @property
    def full_name(self) -> str:
        """The dotted name of the place of definition."""
        name = f"{self.module.name}.{self.name}".lstrip(".")
        return RENAMED.get(name, name)


@dataclass(frozen=True, slots=True)
class Outside:
    """A name whose text is not read: torch's own top level, the standard library (known), or a missing module."""

    full_name: str
    known: bool = True


Target = Definition | Module | Outside


@dataclass(frozen=True, slots=True)
class Result:
    """An answer; ``decided`` is False where jedi might say more. ``definition`` is what the name led to."""

    answer: Answer
    decided: bool = True


class Search:
    """One question's way through the modules; it visits no name twice, so that cycles and diamonds cost nothing."""

    def __init__(self, modules: Modules, origin: Path) -> None:
        self.modules = modules
        self.origin = origin
        self._seen: dict[tuple[Path | None, str, str], Target | None] = {}

    def answer(self, question: Question) -> Result:
        """Say what a name is that the file imports."""
        if not question.valid:
            return Result(UNKNOWN)
        target = self.target(question)
        return self.describe(target) if target else Result(UNKNOWN, decided=False)

    def target(self, question: Question) -> Target | None:
        """Return what a name leads to that the file imports; None where the light look-up cannot tell."""
        return self._imported(module_at(self.origin), question.name)

    def describe(self, target: Target) -> Result:
        """Say what a target is."""
        if isinstance(target, Module):
            return Result(Answer("module", target.name))
        if isinstance(target, Outside):
            return Result(Answer("unknown", target.full_name))
        match target.binding:
            case Class():
                return Result(Answer("class", target.full_name, *self.ancestors(target)))
            case Function() as function:
                return self._function(target, function)
            case value:
                return self._instance(target, value)

    def definition_at(self, path: Path, name: str) -> Target | None:
        """Return what a module's file binds to a name."""
        return self._member(module_at(path), name)

    def ancestors(self, definition: Definition) -> tuple[tuple[str, ...], bool]:
        """Return the full names of all ancestors, nearest first, and whether every one was found."""
        names: dict[str, None] = {}
        complete = True
        waiting = [definition]
        for current in waiting:
            for base in self._bases(current):
                if base is None or (isinstance(base, Outside) and not base.known):
                    complete = False
                if isinstance(base, Definition):
                    if base.full_name not in names:
                        waiting.append(base)
                    names[base.full_name] = None
                elif base is not None:
                    names[base.full_name] = None
        return tuple(names), complete

    def _bases(self, definition: Definition) -> Iterator[Definition | Outside | None]:
        if not isinstance(definition.binding, Class):
            return
        for name in definition.binding.bases:
            base = self._named(definition.module, name) if name else None
            if isinstance(base, Outside) or (isinstance(base, Definition) and isinstance(base.binding, Class)):
                yield base
            else:
                yield None

    def _instance(self, target: Definition, value: Value) -> Result:
        if value.kind == "plain":
            return Result(Answer("instance", target.full_name))
        made = self._made_by(target.module, value)
        if made is None:
            return Result(UNKNOWN, decided=False)
        return Result(replace(made, kind="instance", full_name=target.full_name))

    def _function(self, target: Definition, function: Function) -> Result:
        decorators = tuple(self._decorator_names(target.module, function))
        answer = Answer(
            "function",
            target.full_name,
            decorators=decorators,
            no_grad=self._turns_grad_off(decorators, function),
        )
        if function.annotation:
            made = self._instance_of(self._named(target.module, function.annotation))
            return Result(_returning(answer, made))
        values = [value for value in function.results if value.kind != "plain"]
        if len(values) < len(function.results) or not values:
            return Result(answer)
        made = [self._made_by(target.module, value) for value in values]
        if None in made:
            return Result(answer, decided=False)
        return Result(_returning(answer, made[0])) if len(set(made)) == 1 else Result(answer)

    def _decorator_names(self, module: Module, function: Function) -> Iterator[str]:
        for decorator in function.decorators:
            target = self._named(module, decorator.name)
            yield target.full_name if isinstance(target, Definition | Outside) else decorator.name

    @staticmethod
    def _turns_grad_off(names: tuple[str, ...], function: Function) -> bool:
        for name, decorator in zip(names, function.decorators, strict=True):
            package, _, last = name.rpartition(".")
            if package.partition(".")[0] == "torch":
                if last in GRAD_MODES and not decorator.off:
                    return True
                if last == "set_grad_enabled" and decorator.off:
                    return True
        return False

    def _made_by(self, module: Module, value: Value) -> Answer | None:
        """Return an answer about the object that an expression makes; UNKNOWN where nothing more is to be had."""
        if value.kind == "plain":
            return UNKNOWN
        target = self._named(module, value.name) if value.name else None
        if target is None:
            return None
        made = self._instance_of(target) if value.kind == "call" else self._held_by(target)
        keeps_class = made is not None and (made.is_module or made.returns == TENSOR)
        return made if keeps_class or not value.fluent else UNKNOWN

    def _held_by(self, target: Target) -> Answer | None:
        if isinstance(target, Definition) and isinstance(target.binding, Value):
            return self._made_by(target.module, target.binding)
        return UNKNOWN

    def _instance_of(self, target: Target | None) -> Answer | None:
        """Return an answer about what calling the target (or annotating with it) gives."""
        match target:
            case Definition(binding=Class()):
                bases, complete = self.ancestors(target)
                return Answer(bases=bases, complete=complete, returns=target.full_name)
            case Definition(binding=Function()):
                key = (target.module.path, target.module.name, f"{target.name}()")
                if key in self._seen:
                    return UNKNOWN
                self._seen[key] = None
                result = self.describe(target)
                answer = result.answer
                made = Answer(bases=answer.bases, complete=answer.complete, returns=answer.returns)
                return made if result.decided else None
            case Outside(full_name=name):
                return _outside_instance(name)
            case _:
                return UNKNOWN

    def _named(self, module: Module, name: str) -> Target | None:
        """Return what a dotted name means at a module's top level."""
        head, *rest = name.split(".")
        target = self._member(module, head, submodules=False)
        if target is None and hasattr(builtins, head):
            target = Outside(f"builtins.{head}")
        return self._attributes(target, rest)

    def _attributes(self, target: Target | None, names: list[str]) -> Target | None:
        for name in names:
            match target:
                case Module():
                    target = self._member(target, name)
                case Outside(full_name=full_name, known=known):
                    target = _outside(f"{full_name}.{name}", known)
                case _:
                    return None
        return target

    def _member(self, module: Module, name: str, *, submodules: bool = True) -> Target | None:
        """Return an attribute of a module, or else its submodule."""
        if module.name == "torch" and submodules:
            # Torch's own top level takes long to read and tells nothing that its names do not.
            return self.modules.submodule(module, name) or _outside(f"torch.{name}")
        key = (module.path, module.name, name)
        if key not in self._seen:
            self._seen[key] = None
            self._seen[key] = self._bound(module, name)
        found = self._seen[key]
        return found or (self.modules.submodule(module, name) if submodules and module.folders else None)

    def _bound(self, module: Module, name: str) -> Target | None:
        outline = self.modules.outline(module)
        match outline.bindings.get(name):
            case Import(target=target):
                return self._imported(module, target)
            case Value(kind="name", name=other):
                target = self._named(module, other)
                is_value = isinstance(target, Definition) and isinstance(target.binding, Value)
                return Definition(module, name, Value("name", other)) if is_value else target
            case None:
                return self._from_stars(module, name, outline.stars)
            case binding:
                return Definition(module, name, binding)

    def _from_stars(self, module: Module, name: str, stars: list[str]) -> Target | None:
        for star in reversed(stars):
            source = self._imported(module, star, whole=True)
            if isinstance(source, Module) and self.modules.outline(source).exported(name):
                target = self._member(source, name, submodules=False)
                if target is not None:
                    return target
        return None

    def _imported(self, module: Module, target: str, *, whole: bool = False) -> Target | None:
        """Return what an import in a module brings.

        What comes before the last name is a module even where its package binds the name to something else, as
        ``from package.build import build`` does; ``whole`` says that the last name is one, too.
        """
        question = Question(target)
        names = [part for part in question.parts if part]
        if question.level:
            found: Target | None = self._package(module, question.level)
        elif (found := self.modules.find(names[0], module.path or self.origin)) is None:
            known = names[0] in sys.stdlib_module_names or names[0] == "torch"
            return _outside(".".join(names), known)
        else:
            names = names[1:]
        for place, name in enumerate(names, 1):
            inner = whole or place < len(names)
            submodule = self.modules.submodule(found, name) if inner and isinstance(found, Module) else None
            found = submodule or self._attributes(found, [name])
        return found

    def _package(self, module: Module, level: int) -> Module | None:
        package = module.package
        for _ in range(level - 1):
            package = package.parent if package else None
        return package


def _outside(full_name: str, known: bool = True) -> Outside:
    return Outside(RENAMED.get(full_name, full_name), known)


def _outside_instance(name: str) -> Answer:
    if name == TENSOR or (name.startswith("torch.") and name[len("torch.") :] in TENSOR_FACTORIES):
        return Answer(returns=TENSOR)
    last = name.rpartition(".")[2]
    if name.startswith("torch.") and last[:1].isupper():
        return Answer(returns=name)
    return UNKNOWN


def _returning(answer: Answer, made: Answer | None) -> Answer:
    if made is None:
        return answer
    return replace(answer, bases=made.bases, complete=made.complete, returns=made.returns)


def look_up_light(modules: Modules, path: Path, names: list[str], timeout: float) -> dict[str, Result]:
    """Answer what the light look-up can within the time; names that it did not come to are left out."""
    results: dict[str, Result] = {}
    modules.deadline = time.monotonic() + timeout
    try:
        for name in names:
            results[name] = Search(modules, path).answer(Question(name))
    except (OutOfTimeError, RecursionError):
        pass
    return results
