"""``python -m drygrad``.

Python puts the current folder in front of everything else it imports. That may be a stranger's project, with a folder
``drygrad`` or a ``json.py`` of its own: from here on nothing is imported from there.
"""

import sys

if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]

from drygrad.cli.main import program

if __name__ == "__main__":
    program()
