"""Run by the user's interpreter, by path: ``python .../drygrad/worker``. Lends it nothing but this package."""

import os
import sys

if sys.version_info < (3, 9):  # noqa: UP036 - whoever starts us with an older one shall hear of it
    _WHY = "the dry run needs Python 3.9 or newer, this is %d.%d" % sys.version_info[:2]  # noqa: UP031
    os.write(1, ('{"type": "unusable", "why": "%s"}\n' % _WHY).encode("ascii"))  # noqa: UP031
    sys.exit(2)


def load():  # noqa: ANN201 - an older Python must be able to read this file
    """Load the package ``drygrad.worker`` by its location, so that nothing beside it becomes importable.

    But for the callbacks, which programs import that are dry-run; within one they do nothing.
    """
    import importlib.util
    import types

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    parent = types.ModuleType("drygrad")
    parent.__path__ = []
    sys.modules["drygrad"] = parent
    for name in ("worker", "callbacks"):
        folder = os.path.join(os.path.dirname(here), name)
        initial = os.path.join(folder, "__init__.py")
        if not os.path.isfile(initial):
            continue
        spec = importlib.util.spec_from_file_location("drygrad." + name, initial, submodule_search_locations=[folder])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        module.within_a_dry_run = True  # pyright: ignore[reportAttributeAccessIssue]


if not __package__:
    load()

from drygrad.worker.program import main  # noqa: E402 - only now it can be found

if __name__ == "__main__":
    main(sys.argv[1:])
