"""The server itself, which also answers ``test/objects``: how many objects of each type it keeps."""

import gc
from collections import Counter

from drygrad.lsp.local_dry_runs import LocalDryRuns
from drygrad.lsp.server import DrygradServer


def kept(*_: object) -> dict[str, int]:
    """Return the number of objects by type, garbage not counted."""
    gc.collect()
    return dict(Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects()))


if __name__ == "__main__":
    server = DrygradServer(LocalDryRuns())
    server.feature("test/objects")(kept)
    server.run_stdio()
