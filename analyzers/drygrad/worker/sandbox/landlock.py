"""Landlock: writes only below given folders, no TCP, no signals to processes outside (Linux 5.13, 6.7, 6.12)."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from drygrad.worker.sandbox import system

_WRITE_FILE = 1 << 1
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_ALL_TCP = 3
_ABSTRACT_UNIX_AND_SIGNALS = 3
_VERSION_QUERY = 1
_RULE_PATH_BENEATH = 1

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/kfd", "/dev/dxg", "/dev/dri")


def version() -> int:
    """The kernel's Landlock ABI. Raises `OSError` where there is none."""
    return system.call("landlock_create_ruleset", None, 0, _VERSION_QUERY)


def devices() -> list[str]:
    """The device files that a computation may write to: the harmless ones and those of accelerators."""
    return [name for name in DEVICES if Path(name).exists()] + [str(path) for path in Path("/dev").glob("nvidia*")]


def file_rights(abi: int) -> int:
    """The rights to change files that this ABI knows and that the ruleset therefore withholds."""
    return _WRITE_FILE | _REMOVE_AND_MAKE | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)


def restrict(writable: Iterable[str]) -> None:
    """Confine this process and all its descendants for good: only files below `writable` may be changed."""
    abi = version()
    rights = file_rights(abi)
    ruleset = _create(abi, rights)
    try:
        for path in writable:
            _allow(ruleset, path, rights if Path(path).is_dir() else rights & (_WRITE_FILE | _TRUNCATE))
        system.forbid_new_privileges()
        system.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def isolate_signals() -> None:
    """Confine further: no signals to processes that are not descendants (ABI 6; below it nothing happens)."""
    if version() < 6:
        return
    attributes = struct.pack("=3Q", 0, 0, _ABSTRACT_UNIX_AND_SIGNALS)
    ruleset = system.call("landlock_create_ruleset", attributes, len(attributes), 0)
    system.forbid_new_privileges()
    system.call("landlock_restrict_self", ruleset, 0)
    os.close(ruleset)


def _create(abi: int, rights: int) -> int:
    fields = [rights, _ALL_TCP, _ABSTRACT_UNIX_AND_SIGNALS][: 1 if abi < 4 else 2 if abi < 6 else 3]
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    return system.call("landlock_create_ruleset", attributes, len(attributes), 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        system.call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)
