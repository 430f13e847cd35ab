"""``python -m drygrad``."""

from drygrad.cli.main import program

if __name__ == "__main__":
    program()
