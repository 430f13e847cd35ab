"""The server on the small analyzer of the tests: ``python faulty_server.py``."""

import sys
from pathlib import Path

from faulty_analyzer import FaultyAnalyzer

from drygrad.lsp import logs
from drygrad.lsp.server import DrygradServer

if __name__ == "__main__":
    logs.set_up(Path(sys.argv[1]) if len(sys.argv) > 1 else None, "info")
    DrygradServer(FaultyAnalyzer).run_stdio()
