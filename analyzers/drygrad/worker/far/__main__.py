"""Started by path on another machine: ``python .../drygrad/worker/far ORDER``; needs the standard library only."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path


def lend_packages() -> None:
    """Make `drygrad.worker` importable, and nothing else of drygrad; torch is none of this process's business."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    for name, folder in (("drygrad", None), ("drygrad.worker", here.parent)):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)] if folder else []
        sys.modules[name] = package


if __name__ == "__main__":
    if not __package__:
        lend_packages()
    from drygrad.worker.far import beside

    sys.exit(beside.main(json.loads(sys.argv[1])))
