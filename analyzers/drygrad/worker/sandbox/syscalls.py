"""The numbers of the system calls that the sandbox makes or forbids, per machine, as the kernel's headers give them."""

from __future__ import annotations

import platform

_X86_64 = """
accept=43 acct=163 add_key=248 adjtimex=159 bind=49 bpf=321 capset=126 chmod=90 chown=92 chroot=161 clock_adjtime=305
clock_settime=227 clone=56 clone3=435 connect=42 delete_module=176 execve=59 execveat=322 fanotify_init=300 fchmod=91
fchmodat=268 fchmodat2=452 fchown=93 fchownat=260 fcntl=72 file_setattr=469 finit_module=313 fremovexattr=199
fsconfig=431 fsetxattr=190 fsmount=432 fsopen=430 fspick=433 futimesat=261 init_module=175 io_uring_enter=426
io_uring_register=427 io_uring_setup=425 ioctl=16 ioperm=173 iopl=172 ioprio_set=251 kexec_file_load=320
kexec_load=246 keyctl=250 kill=62 landlock_add_rule=445 landlock_create_ruleset=444 landlock_restrict_self=446
lchown=94 link=86 linkat=265 listen=50 lookup_dcookie=212 lremovexattr=198 lsetxattr=189 migrate_pages=256 mount=165
mount_setattr=442 move_mount=429 move_pages=279 mq_open=240 mq_unlink=241 msgget=68 open=2 open_by_handle_at=304
open_tree=428 open_tree_attr=467 openat=257 openat2=437 perf_event_open=298 pidfd_getfd=438 pidfd_send_signal=424
pivot_root=155 prctl=157 prlimit64=302 process_madvise=440 process_mrelease=448 process_vm_readv=310
process_vm_writev=311 ptrace=101 quotactl=179 quotactl_fd=443 reboot=169 removexattr=197 removexattrat=466
request_key=249 rt_sigqueueinfo=129 rt_tgsigqueueinfo=297 sched_setaffinity=203 sched_setattr=314 sched_setparam=142
sched_setscheduler=144 seccomp=317 semget=64 sendto=44 setdomainname=171 sethostname=170 setns=308 setpgid=109
setpriority=141 setsid=112 settimeofday=164 setxattr=188 setxattrat=463 shmget=29 socket=41 socketpair=53 swapoff=168
swapon=167 syslog=103 tgkill=234 tkill=200 truncate=76 umount2=166 unshare=272 userfaultfd=323 utime=132 utimensat=280
utimes=235 vhangup=153
"""
_AARCH64 = """
accept=202 acct=89 add_key=217 adjtimex=171 bind=200 bpf=280 capset=91 chroot=51 clock_adjtime=266 clock_settime=112
clone=220 clone3=435 connect=203 delete_module=106 execve=221 execveat=281 fanotify_init=262 fchmod=52 fchmodat=53
fchmodat2=452 fchown=55 fchownat=54 fcntl=25 file_setattr=469 finit_module=273 fremovexattr=16 fsconfig=431
fsetxattr=7 fsmount=432 fsopen=430 fspick=433 init_module=105 io_uring_enter=426 io_uring_register=427
io_uring_setup=425 ioctl=29 ioprio_set=30 kexec_file_load=294 kexec_load=104 keyctl=219 kill=129 landlock_add_rule=445
landlock_create_ruleset=444 landlock_restrict_self=446 linkat=37 listen=201 lookup_dcookie=18 lremovexattr=15
lsetxattr=6 migrate_pages=238 mount=40 mount_setattr=442 move_mount=429 move_pages=239 mq_open=180 mq_unlink=181
msgget=186 open_by_handle_at=265 open_tree=428 open_tree_attr=467 openat=56 openat2=437 perf_event_open=241
pidfd_getfd=438 pidfd_send_signal=424 pivot_root=41 prctl=167 prlimit64=261 process_madvise=440 process_mrelease=448
process_vm_readv=270 process_vm_writev=271 ptrace=117 quotactl=60 quotactl_fd=443 reboot=142 removexattr=14
removexattrat=466 request_key=218 rt_sigqueueinfo=138 rt_tgsigqueueinfo=240 sched_setaffinity=122 sched_setattr=274
sched_setparam=118 sched_setscheduler=119 seccomp=277 semget=190 sendto=206 setdomainname=162 sethostname=161
setns=268 setpgid=154 setpriority=140 setsid=157 settimeofday=170 setxattr=5 setxattrat=463 shmget=194 socket=198
socketpair=199 swapoff=225 swapon=224 syslog=116 tgkill=131 tkill=130 truncate=45 umount2=39 unshare=97
userfaultfd=282 utimensat=88 vhangup=58
"""

# The constants of the kernel's linux/audit.h, by which a filter tells which table a number belongs to.
AUDIT_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def _table(text: str) -> dict[str, int]:
    return {name: int(number) for name, _, number in (entry.partition("=") for entry in text.split())}


TABLES = {"x86_64": _table(_X86_64), "aarch64": _table(_AARCH64)}
NUMBERS = TABLES.get(platform.machine(), {})
"""Of this machine; empty where drygrad has no table, and then the kernel's layers are not used."""
