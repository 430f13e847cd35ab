"""Starts the drygrad that the extension carries; what the environment has installed stays behind it on the path."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent / "libs")

from drygrad.cli.main import program  # noqa: E402 - the path comes first

if __name__ == "__main__":
    sys.exit(program())
