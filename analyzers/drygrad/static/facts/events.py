"""What happens during the abstract interpretation that no single node shows. Rules subscribe to these classes."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from drygrad.static.facts.values import Tensor, TorchCall, Value


@dataclass(frozen=True, slots=True)
class Saved:
    """An operation that keeps a tensor for its backward: ``role`` says whether as its input or its output.

    ``records`` is True where the operation surely recorded a graph, None where it may have.
    """

    operation: str
    node: ast.expr
    role: str
    records: bool | None


@dataclass(frozen=True, slots=True)
class InplaceWrite:
    """A tensor is overwritten: ``x.clamp_()``, ``x += y``, ``x[i] = v``, ``F.relu(x, inplace=True)``.

    ``operation`` is the plain name (``clamp``, ``add``, ``setitem``); ``target`` the tensor before the write,
    ``expression`` its place in the text; ``saved`` who kept its old content for a backward that has not run yet;
    ``grad_enabled`` the grad mode (None: unknown).
    """

    node: ast.expr | ast.stmt
    expression: ast.expr
    operation: str
    target: Tensor
    saved: tuple[Saved, ...]
    grad_enabled: bool | None
    call: TorchCall | None = None


@dataclass(frozen=True, slots=True)
class DeviceMismatch:
    """An operation gets tensors (or a module and a tensor) that live on different devices.

    ``certain`` is False where one of the devices is only known by a name (``$device``) and the other is the CPU: the
    operation fails unless the name stands for the CPU.
    """

    node: ast.expr
    operation: str
    expressions: tuple[ast.expr, ...]
    devices: tuple[str, ...]
    values: tuple[Value, ...]
    call: TorchCall | None = None
    certain: bool = True


@dataclass(frozen=True, slots=True)
class ShapeMismatch:
    """An operation gets sizes that cannot work together.

    ``kind`` is ``matmul``, ``linear``, ``conv``, ``broadcast``, ``view``, ``cat``, ``embedding`` ...; ``message`` says
    which sizes meet, in words.
    """

    node: ast.expr
    operation: str
    kind: str
    message: str
    call: TorchCall | None = None
    values: tuple[Value, ...] = ()
