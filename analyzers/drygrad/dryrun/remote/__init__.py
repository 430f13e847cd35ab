"""Dry runs on a machine that does not have drygrad: the worker is sent there, and so are the project's files."""
