"""``python -m drygrad``."""

import sys

from drygrad.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
