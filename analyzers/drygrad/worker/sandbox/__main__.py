"""Started by path: `python .../drygrad/worker/sandbox [options] -- COMMAND ...`; needs the standard library only."""

from __future__ import annotations

import sys
import types
from pathlib import Path


def lend_packages() -> None:
    """Make `drygrad.worker.sandbox` importable from this folder, and nothing else of drygrad."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    for name, folder in (("drygrad", None), ("drygrad.worker", None), ("drygrad.worker.sandbox", here)):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)] if folder else []
        sys.modules[name] = package


if __name__ == "__main__":
    if not __package__:
        lend_packages()
    from drygrad.worker.sandbox import launcher

    sys.exit(launcher.main(sys.argv[1:]))
