"""The filters of both machines, read by a small interpreter of classic BPF."""

from __future__ import annotations

import struct

import pytest

from drygrad.worker.sandbox import seccomp
from drygrad.worker.sandbox.syscalls import AUDIT_ARCHES, TABLES

ALLOWED = 0x7FFF0000
MACHINES = sorted(TABLES)
OWN = 4242


def answer(code: bytes, arch: int, number: int, *arguments: int) -> int | str:
    """What the filter makes of a call: `allowed` or the error number."""
    data = struct.pack(
        "=iIQ6Q", number, arch, 0, *(argument & (1 << 64) - 1 for argument in (*arguments, *[0] * 6)[:6])
    )
    instructions = list(struct.iter_unpack("=HBBI", code))
    position = accumulator = 0
    while True:
        operation, if_true, if_false, value = instructions[position]
        position += 1
        if operation == 0x20:
            accumulator = int.from_bytes(data[value : value + 4], "little")
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x15:
            position += if_true if accumulator == value else if_false
        elif operation == 0x35:
            position += if_true if accumulator >= value else if_false
        else:
            return "allowed" if value == ALLOWED else value & 0xFFFF


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return request.param


def ask(machine: str, denials: tuple[seccomp.Denial, ...], name: str, *arguments: int) -> int | str:
    code = seccomp.program(denials, machine)
    return answer(code, AUDIT_ARCHES[machine], TABLES[machine][name], *arguments)


@pytest.mark.parametrize(
    "name", ["socket", "connect", "ptrace", "bpf", "setns", "process_vm_writev", "chroot", "reboot"]
)
def test_stage_a_refuses(machine: str, name: str) -> None:
    assert ask(machine, seccomp.STAGE_A, name, 1, 1) == seccomp.EPERM


@pytest.mark.parametrize("name", ["execve", "kill", "mount", "unshare", "openat", "prctl", "landlock_restrict_self"])
def test_stage_a_leaves_the_worker_what_it_needs(machine: str, name: str) -> None:
    assert ask(machine, seccomp.STAGE_A, name, 1, 9) == "allowed"


def test_pairs_of_streams_are_private_and_pairs_of_datagrams_are_not(machine: str) -> None:
    close_on_exec = 0o2000000
    assert ask(machine, seccomp.STAGE_A, "socketpair", 1, 1 | close_on_exec) == "allowed"
    assert ask(machine, seccomp.STAGE_A, "socketpair", 1, 2 | close_on_exec) == seccomp.EPERM


def test_threads_and_forks_are_allowed_and_new_namespaces_are_not(machine: str) -> None:
    thread, fork, user_namespace = 0x3D0F00, 17, 0x10000000 | 17
    assert ask(machine, seccomp.STAGE_A, "clone", thread) == "allowed"
    assert ask(machine, seccomp.STAGE_A, "clone", fork) == "allowed"
    assert ask(machine, seccomp.STAGE_A, "clone", user_namespace) == seccomp.EPERM
    assert ask(machine, seccomp.STAGE_A, "clone3") == seccomp.ENOSYS


def test_stage_b_lets_a_process_signal_itself_only(machine: str) -> None:
    stage_b = seccomp.stage_b(OWN)
    assert ask(machine, stage_b, "kill", OWN, 9) == "allowed"
    assert ask(machine, stage_b, "kill", 1, 0) == "allowed"
    assert ask(machine, stage_b, "kill", 1, 9) == seccomp.EPERM
    assert ask(machine, stage_b, "kill", -1, 9) == seccomp.EPERM
    assert ask(machine, stage_b, "tgkill", OWN, OWN + 1, 6) == "allowed"
    assert ask(machine, stage_b, "tgkill", 1, 1, 6) == seccomp.EPERM


@pytest.mark.parametrize("name", ["execve", "execveat", "setsid", "mount", "unshare"])
def test_stage_b_refuses(machine: str, name: str) -> None:
    assert ask(machine, seccomp.stage_b(OWN), name) == seccomp.EPERM


@pytest.mark.parametrize("name", ["fchmodat", "fchownat", "utimensat", "setxattr"])
def test_without_an_overlay_changes_of_metadata_only_seem_to_succeed(machine: str, name: str) -> None:
    assert ask(machine, seccomp.WITHOUT_NAMESPACES, name) == 0


def test_opening_to_read_and_truncate_is_refused_before_landlock_3(machine: str) -> None:
    truncating, reading, writing = 0o1000, 0, 0o1001
    assert ask(machine, seccomp.BEFORE_LANDLOCK_3, "openat", 0, 0, truncating) == seccomp.EPERM
    assert ask(machine, seccomp.BEFORE_LANDLOCK_3, "openat", 0, 0, reading) == "allowed"
    assert ask(machine, seccomp.BEFORE_LANDLOCK_3, "openat", 0, 0, writing) == "allowed"


def test_another_machines_numbers_are_refused(machine: str) -> None:
    code = seccomp.program(seccomp.STAGE_A, machine)
    i386, x32 = 0x40000003, 0x40000000
    assert answer(code, i386, 1) == seccomp.EPERM
    assert answer(code, AUDIT_ARCHES[machine], x32 | 1) == seccomp.ENOSYS


def test_every_name_is_known_to_a_machine() -> None:
    denials = (*seccomp.STAGE_A, *seccomp.WITHOUT_NAMESPACES, *seccomp.BEFORE_LANDLOCK_3, *seccomp.stage_b(OWN))
    known = {name for table in TABLES.values() for name in table}
    assert [name for denial in denials for name in denial.calls.split() if name not in known] == []
