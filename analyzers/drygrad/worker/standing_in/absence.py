"""Whether something failed to load because it is not on this machine."""

from __future__ import annotations

import importlib
import re
from typing import Any

from drygrad.worker.surroundings import chain, lacking, words_of

_NOT_THERE = re.compile(
    r"[Dd]ataset not found|is not present in the root directory|LocalEntryNotFound|cached files|couldn't connect to"
    r"|Couldn't reach|doesn't exist on the [\w ]*Hub|is not a local folder|Can't load|outgoing traffic|local_files_only"
    r"|does not appear to have a file"
)
"""What libraries say of data that they neither find nor get."""


def is_absent(error: BaseException) -> bool:
    """Say whether an error comes from what is not here and cannot be downloaded."""
    return lacking(error) is not None or any(_NOT_THERE.search(words_of(each)) for each in chain(error))


def library(name: str) -> Any:
    """Return a module of the user's, which the worker itself does not need."""
    return importlib.import_module(name)
