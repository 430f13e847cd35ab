"""What ``native_functions.yaml`` of torch says of its operators: which have CUDA kernels and which check devices."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field

FILE = os.path.join("packaged", "ATen", "native", "native_functions.yaml")
COMPOSITE = {"CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"}


@dataclass
class Operator:
    """One entry of the file, as far as it is needed.

    ``check`` is ``wrapper`` where the generated wrapper compares the devices of all tensors, ``iterator`` where
    TensorIterator does, ``none`` where the kernel is left to itself.
    """

    check: str = "wrapper"
    delegate: str = ""
    structured: bool = False
    keys: set[str] = field(default_factory=set[str])

    @property
    def composite(self) -> bool:
        """Whether it is made of other operators where a backend has no kernel of its own."""
        return bool(self.keys & COMPOSITE) or bool(self.delegate)


def path() -> str:
    """Path of the file that comes with torch; ImportError where it does not."""
    found = importlib.util.find_spec("torchgen")
    if found is None or found.origin is None:
        raise ImportError("torchgen")
    return os.path.join(os.path.dirname(found.origin), FILE)


def load() -> dict[str, Operator]:
    """Read the file, some 30 ms; the keys are names such as ``add.Tensor``."""
    operators: dict[str, Operator] = {}
    current, dispatching = Operator(), False
    with open(path(), encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("- func: "):
                current = operators[line[8 : line.index("(")].strip()] = Operator()
                dispatching = False
            elif line.startswith("    ") and dispatching:
                keys, colon, _ = line.split("#")[0].partition(":")
                if colon:
                    current.keys.update(key.strip() for key in keys.split(","))
            elif line.startswith("  ") and line.strip():
                dispatching = line.startswith("  dispatch:")
                _read(current, line.strip())
    return operators


def _read(current: Operator, line: str) -> None:
    key, _, value = line.partition(":")
    if key == "device_check" and "NoCheck" in value:
        current.check = "iterator" if "TensorIterator" in value else "none"
    elif key == "structured_delegate":
        current.delegate = value.strip()
    elif key == "structured":
        current.structured = value.strip() == "True"
    elif key == "ufunc_inner_loop":
        current.keys |= {"CPU", "CUDA"}


def on_device(operators: dict[str, Operator], name: str) -> bool:
    """Whether an operator has a CUDA kernel, its own or the one it delegates to."""
    operator = operators[name]
    return "CUDA" in operators.get(operator.delegate, operator).keys
