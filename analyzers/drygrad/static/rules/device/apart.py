"""What is on the default device and meets what its giver places: where it is told, and how it is repaired."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from drygrad.model import Edit, Fix
from drygrad.static.context import Context, FunctionNode
from drygrad.static.editing import with_keyword
from drygrad.static.expected_errors import is_expected
from drygrad.static.facts.places.chosen import chosen_device
from drygrad.static.facts.places.entries import GROUPS
from drygrad.static.facts.places.following import Places
from drygrad.static.facts.places.keeping import BEGINS
from drygrad.static.facts.places.lattice import MODULE
from drygrad.static.facts.places.meeting import TYPED, Fault
from drygrad.static.facts.places.models import is_model
from drygrad.static.facts.places.objects import OWN
from drygrad.static.facts.values import Function, Quantity, Tensor
from drygrad.static.syntax import class_around, parameter_names
from drygrad.static.tree import walk

_ON_CPU = re.compile(
    r"__getitem__|collate|plot|show|draw|visuali[sz]e|_?test_|(load|save|read|write|parse)(_|$)|main$|"
    r"prepare_data|setup$|__len__|__iter__|__repr__"
)
"""Functions that work on the CPU by design."""
_CPU_CLASSES = re.compile(r"Dataset|DataModule|DataLoader|Sampler|Collat|Tokenizer|TestCase|^Test")
_SPEAKS_OF_DEVICES = re.compile(r"cuda|device|gpu|accelerat|lightning", re.IGNORECASE)
_FORWARD = frozenset({"forward", "__call__"})
_PLAIN = frozenset({"int", "float", "bool", "str", "len", "list", "tuple", "dict", "set", "range", "min", "max", "sum"})
"""Calls that make neither parameters nor modules."""
_TO_CPU = frozenset({"cpu", "to"})
_CPU_PACKAGES = ("matplotlib", "PIL", "cv2", "seaborn", "plotly", "skimage", "librosa", "soundfile")


@dataclass(frozen=True)
class Apart:
    """A fault in a function, with the call (or the operand) that it is told at, and what surely are tensors there.

    ``plain`` says that it is a method of an object that is no module: nothing moves what such an object keeps.
    """

    function: Function
    fault: Fault
    site: ast.expr
    tensors: frozenset[str]
    plain: bool = False


def apart(ctx: Context, device: str = "cpu") -> list[Apart]:
    """Return what is made on a device (the default one) and meets what is elsewhere, once for each that makes it."""
    return [found for found in ctx.derived(_apart) if found.fault.made.device == device]


def left_behind(ctx: Context) -> list[Apart]:
    """Return what functions return on the default device wherever their arguments are, unless more is told of it."""
    told = {found.site for found in apart(ctx)}
    return [found for found in ctx.derived(_left_behind) if found.site not in told]


def arrays_of_chosen(ctx: Context) -> tuple[tuple[ast.Call, str], ...]:
    """Return the calls of ``numpy()`` on what is on a device that is chosen at run time, with that device."""
    if ctx.facts.default_device is None or _is_program_of_cpu(ctx):
        return ()
    return tuple(Places(ctx.facts).arrayed())


def _apart(ctx: Context) -> tuple[Apart, ...]:
    return tuple(_unplanned(ctx, Places.faults))


def _left_behind(ctx: Context) -> tuple[Apart, ...]:
    return tuple(_unplanned(ctx, Places.left))


def _unplanned(ctx: Context, faults: Callable[[Places], list[tuple[Function, Fault]]]) -> Iterable[Apart]:
    """Return the faults of functions that are not for the CPU by design, once for each call that makes a tensor."""
    if ctx.facts.default_device is None or _is_program_of_cpu(ctx):
        return ()
    found: dict[ast.AST, Apart] = {}
    places = Places(ctx.facts)
    for function, fault in faults(places):
        plain = function.owner is not None and not places.objects.is_module(function.owner)
        kept = plain and fault.made.kept_by_init  # nothing moves it: where it is used is the place to
        site = fault.made.site if not kept and ctx.function(fault.made.site) is not None else fault.operand
        known = _is_known(fault, ctx) or _is_by_design(function, fault, places, ctx)
        if site not in found and not known:
            tensors = places.summary(ctx.function(site) or function.node).tensors
            found[site] = Apart(function, fault, site, tensors, plain)
    return found.values()


def _is_known(fault: Fault, ctx: Context) -> bool:
    """Say whether both devices are known by name: then DG201 and DG205 tell of them."""
    of_model = isinstance(fault.node, ast.Call) and is_model(fault.node.func)  # of which neither rule tells
    if of_model or all(chosen_device(root) is None for root in fault.roots):
        return False
    met = [ctx.quantity(node) for node in (fault.operand, fault.other)]
    return all(isinstance(value, (Tensor, Quantity)) and value.device is not None for value in met)


def _is_program_of_cpu(ctx: Context) -> bool:
    """Say whether a file runs by itself and nowhere speaks of a device: what it computes stays on the CPU."""
    if ctx.mentions(_SPEAKS_OF_DEVICES):
        return False
    return any(_runs(statement) for statement in ctx.tree.body)


def _runs(statement: ast.stmt) -> bool:
    match statement:
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))) | ast.For() | ast.While() | ast.With():
            return True
        case ast.Expr(value=ast.Call()):
            return True
        case _:
            return False


def _is_by_design(function: Function, fault: Fault, places: Places, ctx: Context) -> bool:
    """Say whether a function works on the CPU by what it is for, or by how the file calls it."""
    maker = None if fault.made.kept_by_init else ctx.function(fault.made.site)
    minds = all(chosen_device(root) is not None for root in fault.roots)  # then arrays are no sign, but a fault
    for node in (function.node, ctx.function(fault.node), maker):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
            _works_on_cpu(node, ctx, minds=minds) or _is_for_beginning(node, ctx) or _serves_cpu(node, ctx)
        ):
            return True
    if is_expected(fault.node, ctx):
        return True
    return not _is_forward(function) and _is_placed_here(function, fault, places, ctx)


def _works_on_cpu(node: ast.FunctionDef | ast.AsyncFunctionDef, ctx: Context, *, minds: bool = False) -> bool:
    """Say whether a function works on the CPU: by its name or class, or by arrays unless it ``minds`` devices."""
    if _ON_CPU.match(node.name.lstrip("_")) or _ON_CPU.match(node.name):
        return True
    cls = ctx.parent(node)
    if isinstance(cls, ast.ClassDef):
        bases = (ast.unparse(base) for base in cls.bases)
        if BEGINS.match(node.name) or any(_CPU_CLASSES.search(name) for name in (cls.name, *bases)):
            return True
    if isinstance(cls, ast.ClassDef) and not cls.bases and any(_is_call(member) for member in cls.body):
        return True  # a transform: loaders call it
    returns_arrays = not minds and node.name not in _FORWARD and any(map(_is_array_of_tensor, walk(node)))
    return returns_arrays or any(_is_of_images(n, ctx) for n in walk(node))


def _is_array_of_tensor(node: ast.AST) -> bool:
    """Say whether a tensor is handed to NumPy as it is, which only one on the CPU can be."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="numpy"), args=[]):
            return not any(isinstance(part, ast.Attribute) and part.attr in _TO_CPU for part in walk(owner))
        case _:
            return False


def _is_call(member: ast.stmt) -> bool:
    return isinstance(member, ast.FunctionDef) and member.name == "__call__"


def _is_for_beginning(node: ast.FunctionDef | ast.AsyncFunctionDef, ctx: Context) -> bool:
    """Say whether only methods that make their object name a function: nobody has moved a module then."""
    named = [n for n in ctx.nodes(ast.Attribute) if n.attr == node.name]
    named += [n for n in ctx.nodes(ast.Name) if n.id == node.name]
    return bool(named) and all(_is_in_beginning(n, ctx) and not _is_handed_on(n, ctx) for n in named)


def _is_handed_on(node: ast.expr, ctx: Context) -> bool:
    """Say whether an attribute keeps a function itself, which others then call later."""
    called = any(isinstance(a, ast.Call) for a in ctx.ancestors(node))
    match ctx.statement(node):
        case ast.Assign(targets=[ast.Attribute(), *_]):
            return not called
        case _:
            return False


def _serves_cpu(node: ast.FunctionDef | ast.AsyncFunctionDef, ctx: Context) -> bool:
    """Say whether all calls of a function of the module stand in methods that work on the CPU, such as a dataset's."""
    callers = [ctx.function(site.node) for site in ctx.callers(node)]
    return (
        bool(callers)
        and isinstance(ctx.parent(node), ast.Module)
        and all(
            isinstance(caller, (ast.FunctionDef, ast.AsyncFunctionDef)) and _works_on_cpu(caller, ctx)
            for caller in callers
        )
    )


def _is_in_beginning(node: ast.expr, ctx: Context) -> bool:
    around = ctx.function(node)
    begins = isinstance(around, ast.FunctionDef) and BEGINS.match(around.name) is not None
    return begins and class_around(node, ctx) is not None


def _is_of_images(node: ast.AST, ctx: Context) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = ctx.name(node.func)
    return name is not None and name.split(".")[0] in _CPU_PACKAGES


def _is_forward(function: Function) -> bool:
    """Say whether a function is called by others than the file shows, with what is wherever they want it."""
    return function.owner is not None and getattr(function.node, "name", "") in _FORWARD


def _is_placed_here(function: Function, fault: Fault, places: Places, ctx: Context) -> bool:
    """Say whether the file itself decides, by its calls, where what is met is: then it is not known to be on a GPU."""
    node = function.node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return True
    outside = [site.node for site in ctx.callers(node) if ctx.function(site.node) is None]
    if outside and all(_gives_cpu(call, ctx) for call in outside if isinstance(call, ast.Call)):
        return True
    return not any(places.is_given(node, root) for root in fault.roots)


def _gives_cpu(call: ast.Call, ctx: Context) -> bool:
    """Say whether a call at the module's level gives tensors of the CPU alone."""
    given = [ctx.tensor(argument) for argument in (*call.args, *(k.value for k in call.keywords))]
    known = [tensor.device for tensor in given if tensor is not None]
    return bool(known) and all(device == "cpu" for device in known)


def called_model(found: Apart) -> ast.expr | None:
    """Return the model that is given both, where it is not known what it does with them; None where torch says."""
    node = found.fault.node
    return node.func if isinstance(node, ast.Call) and is_model(node.func) else None


def by_init(found: Apart) -> ast.Assign | ast.AnnAssign | None:
    """Return the statement of ``__init__`` that keeps the tensor; None where it is made later on."""
    stored = None if found.plain else found.fault.made.stored
    return stored if found.fault.made.kept_by_init and isinstance(stored, (ast.Assign, ast.AnnAssign)) else None


# -- repairs ------------------------------------------------------------------------------------------------------


def repaired(found: Apart, ctx: Context) -> Fix | None:
    """Return the fix that makes the tensor where what it meets is, or moves it there."""
    if found.plain and found.fault.made.stored is not None and found.fault.roots != frozenset({GROUPS}):
        return None
    device = _device(found)
    owner, certain = _owner(found, ctx) if device is None else (None, True)
    if device is None and owner is not None:
        device = f"{owner}.device"
    elif device is not None and ctx.function(found.site) is not ctx.function(found.fault.node):
        device = None
    if device is None:
        return None
    edit = _placed(found, device, ctx)
    title = "the module" if device.startswith("next(") else owner
    made_here = found.site is found.fault.made.factory and (ctx.name(found.fault.made.factory.func) or "")
    verb = "Make it on" if made_here and made_here.startswith("torch.") else "Move it to"
    safe = certain and found.fault.made.device == "cpu"  # where there is no GPU, other code runs on than before
    where = f"the device of {title}" if title else f"`{device}`"
    return ctx.fix(f"{verb} {where}", edit, safety="safe" if safe else "unsafe")


def _placed(found: Apart, device: str, ctx: Context) -> Edit | None:
    site, factory = found.site, found.fault.made.factory
    is_factory = site is factory and isinstance(site, ast.Call)
    if is_factory and found.fault.made.device != "cpu":
        return _sent_elsewhere(factory, device, ctx)
    name = ctx.name(site.func) if is_factory and isinstance(site, ast.Call) else None
    takes_device = name is not None and name.startswith("torch.") and name != "torch.from_numpy"
    if isinstance(site, ast.Call) and name is not None and takes_device and not TYPED.match(name):
        return with_keyword(ctx, site, "device", device)
    return ctx.insert_after(site, f".to({device})")


def _sent_elsewhere(call: ast.Call, device: str, ctx: Context) -> Edit | None:
    """Name another device in a call that names one: ``.cuda()``, ``device="cuda"``."""
    told = next((keyword.value for keyword in call.keywords if keyword.arg == "device"), None)
    if told is not None:
        return ctx.replace(told, device)
    return (
        ctx.replace(call, f"{ctx.source_of(call.func.value)}.to({device})")
        if isinstance(call.func, ast.Attribute)
        else None
    )


def _device(found: Apart) -> str | None:
    """Return the device that the text has chosen for what the tensor meets."""
    texts = {chosen_device(root) for root in found.fault.roots}
    return next(iter(texts)) if len(texts) == 1 else None


def _owner(found: Apart, ctx: Context) -> tuple[str | None, bool]:
    """Return what knows the device at the site, and whether it surely is a tensor there."""
    here = ctx.function(found.site)
    other = found.fault.other
    met = [n.id for n in walk(other) if isinstance(n, ast.Name)]
    if found.site is not found.fault.made.site:  # the operand itself: what it meets stands beside it
        names = [other.id] if isinstance(other, ast.Name) else []
    else:
        names = [*found.fault.made.owners]
    names = [name for name in names if here is not None and _is_bound_before(name, found.site, here)]
    parameters = [name for name in names if here is not None and name in parameter_names(here)]
    tensors = [name for name in parameters if name in found.tensors and not _is_gone_through(name, here)]
    beside = [name for name in met if name in names and (name in tensors or name not in parameters)]
    ordered = [*(name for name in beside if name in tensors), *tensors, *beside]
    optimized = _optimized(found, ctx)
    if ordered or optimized is not None:
        return ordered[0] if ordered else optimized, True
    if _is_own_parameter(found, ctx):
        return ctx.text(other), True
    kept = _replaced_buffer(found.site, ctx) if isinstance(found.site, ast.Call) else None
    if kept is not None:
        return kept, True
    return ("next(self.parameters())", False) if _has_parameters(here, ctx) else (None, False)


def _is_bound_before(name: str, site: ast.expr, function: FunctionNode) -> bool:
    """Say whether a name is a parameter or is bound above a place, and not merely further down in a loop."""
    bound = (n.lineno for n in walk(function) if isinstance(n, ast.Name) and n.id == name and _is_store(n))
    return name in parameter_names(function) or min(bound, default=site.lineno) < site.lineno


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_gone_through(name: str, function: ast.AST | None) -> bool:
    """Say whether a function takes the items of what it is given one by one, as it does with a list of tensors."""
    loops = (n for n in walk(function) if isinstance(n, (ast.For, ast.comprehension))) if function is not None else ()
    return any(isinstance(n, ast.Name) and n.id == name for loop in loops for n in _gone_through(loop.iter))


def _gone_through(iterated: ast.expr) -> list[ast.expr]:
    match iterated:
        case ast.Call(func=ast.Name(id="zip" | "enumerate" | "reversed"), args=args):
            return args
        case ast.Call(func=ast.Attribute(value=held, attr="items" | "values"), args=[]):
            return [held]
        case _:
            return [iterated]


def _optimized(found: Apart, ctx: Context) -> str | None:
    """Return the parameter of the optimizer that the site is within the loop of."""
    if found.fault.roots != frozenset({GROUPS}):
        return None
    for loop in ctx.loops(found.site):
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and "params" in ast.unparse(loop.iter):
            return loop.target.id
    return None


def _is_own_parameter(found: Apart, ctx: Context) -> bool:
    """Say whether what is met is written as a parameter of the module whose method makes the tensor."""
    other = found.fault.other
    written = isinstance(other, ast.Attribute) and found.fault.roots == frozenset({MODULE})
    return written and ctx.function(other) is ctx.function(found.site) and _is_of_self(other)


def _is_of_self(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "self"


def _replaced_buffer(site: ast.expr, ctx: Context) -> str | None:
    """Return the buffer that a statement gives another value: it is where the module is."""
    match ctx.parent(site):
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
            cls = class_around(site, ctx)
            calls = (n for n in walk(cls) if isinstance(n, ast.Call)) if cls is not None else ()
            registered = [call.args[0] for call in calls if ctx.text(call.func) == "self.register_buffer" and call.args]
            known = any(isinstance(first, ast.Constant) and first.value == name for first in registered)
            return f"self.{name}" if known else None
        case _:
            return None


def _has_parameters(method: ast.AST | None, ctx: Context) -> bool:
    """Say whether a method belongs to a module that may have parameters by the time it is called."""
    cls = ctx.parent(method) if method is not None else None
    if not isinstance(cls, ast.ClassDef) or not ctx.is_module_class(cls) or getattr(method, "name", "") == "__init__":
        return False
    inherits = any(ctx.name(base) != "torch.nn.Module" for base in cls.bases)
    return inherits or any(_may_register(statement, ctx) for statement in walk(cls))


def _may_register(node: ast.AST, ctx: Context) -> bool:
    """Say whether a node may give its object a parameter, or a module that has some."""
    match node:
        case ast.Call(func=ast.Attribute(attr="register_parameter" | "add_module" | "register_module")):
            return True
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"))], value=value):
            pass
        case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self")), value=ast.expr() as value):
            pass
        case _:
            return False
    tensor = ctx.tensor(value)
    if tensor is not None:
        return tensor.parameter
    plain = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _PLAIN
    return isinstance(value, (ast.Call, ast.IfExp)) and not plain


def whose(found: Apart, ctx: Context) -> str:
    """Say where what the tensor meets is: after "is", in a sentence."""
    device = _device(found)
    if device is not None:
        return f"on `{device}`"
    if found.fault.roots == frozenset({GROUPS}):
        return "on the device of its parameter"
    if found.fault.roots == frozenset({MODULE}):
        return "on the device of the module's parameters"
    if all(root.startswith(OWN) for root in found.fault.roots):
        return "wherever the creator of the object put it"
    cls = ctx.parent(found.function.node)
    in_module = isinstance(cls, ast.ClassDef) and ctx.is_module_class(cls)
    return "on the device of the module's inputs and parameters" if in_module else "wherever the caller put it"
