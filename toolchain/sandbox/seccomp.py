"""Seccomp filter (BPF) for the system calls of a sandboxed program.

The filter is always on. Programs that have to start others (compilers, build tools) may fork, but no program may create
namespaces, mount, trace, or use kernel interfaces that no HIP program needs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import struct
from collections.abc import Iterator, Sequence

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000  # SECCOMP_RET_*, linux/seccomp.h
_AUDIT_ARCH_X86_64 = 0xC000003E
_CLONE, _CLONE3, _CLONE_THREAD = 56, 435, 0x00010000
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}, linux/sched.h
# x86-64 system call numbers (arch/x86/entry/syscalls/syscall_64.tbl)
_FORKS = {"fork": 57, "vfork": 58}
_KILLED = {
    "ptrace": 101, "syslog": 103, "vhangup": 153, "modify_ldt": 154, "pivot_root": 155, "chroot": 161, "acct": 163,
    "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "iopl": 172,
    "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "clock_settime": 227, "kexec_load": 246,
    "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "fanotify_init": 300,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
    "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438,
    "mount_setattr": 442,
}  # fmt: skip
# These fail with EACCES, so that a program that merely probes for them continues (CMake: io_uring). System V objects
# and memfds would hold memory that the limit does not cover; a priority set for the whole user and a message queue
# would last beyond the job.
_REFUSED = {
    "mq_open": 240,
    "socket": 41, "socketpair": 53, "shmget": 29, "shmat": 30, "semget": 64, "msgget": 68, "memfd_create": 319,
    "memfd_secret": 447, "setpriority": 141, "ioprio_set": 251, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427,
}  # fmt: skip
# Access lists and other attributes of the folders that later jobs use; they fail as where a file system has none.
_UNSUPPORTED = {
    "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199,
    "setxattrat": 463, "removexattrat": 466,
}  # fmt: skip
# Shared memory without a file: no limit sees it when it is not mapped. Children can share files in /dev/shm.
_MMAP, _FLAGS_ARGUMENT, _MAP_SHARED, _MAP_ANONYMOUS = 9, 3, 0x01, 0x20
# Locks and leases of files, since those that a sandbox shows are the user's: they fail as where there are no locks.
_FLOCK, _FCNTL, _COMMAND_ARGUMENT = 73, 72, 1
_LOCK_COMMANDS = {"F_SETLK": 6, "F_SETLKW": 7, "F_OFD_SETLK": 37, "F_OFD_SETLKW": 38, "F_SETLEASE": 1024}
# These take a process as their first argument and fail for process 1: the supervisor of a sandbox runs as the same
# user, and later jobs inherit its limits and processors.
_NOT_ON_SUPERVISOR = {
    "sched_setparam": 142, "sched_setscheduler": 144, "sched_setaffinity": 203, "prlimit64": 302, "sched_setattr": 314,
}  # fmt: skip

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF operations, linux/filter.h
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data
_Code = list[tuple[int, int, int, int]]


def seccomp_program(*, forks: bool = False) -> bytes:
    """The filter as BPF for x86-64. `forks`: whether the program may start processes; threads are always allowed."""
    code = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, _AUDIT_ARCH_X86_64), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    code += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL)]  # the x32 calling convention
    # A filter cannot read clone3's flags; if clone3 is missing, libraries fall back to clone.
    code += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for number in [*_KILLED.values(), *(() if forks else _FORKS.values())]:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _KILL)]
    for number in _REFUSED.values():
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EACCES)]
    for number in _UNSUPPORTED.values():
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EOPNOTSUPP)]
    code += [(_EQUAL, 0, 1, _FLOCK), (_RETURN, 0, 0, _ERRNO | errno.ENOLCK)]
    for command in _LOCK_COMMANDS.values():
        code += _refused_if(_FCNTL, _COMMAND_ARGUMENT, [(_EQUAL, command)], errno.ENOLCK)
    for number in _NOT_ON_SUPERVISOR.values():
        code += _refused_if(number, 0, [(_EQUAL, 1)], errno.EACCES)
    code += _refused_if(_MMAP, _FLAGS_ARGUMENT, [(_ANY_BIT, _MAP_SHARED), (_ANY_BIT, _MAP_ANONYMOUS)], errno.EACCES)
    code += [(_EQUAL, 0, 4, _CLONE), (_LOAD, 0, 0, _argument_offset(0))]
    if forks:
        code += [(_ANY_BIT, 0, 1, _NEW_NAMESPACES), (_RETURN, 0, 0, _KILL), (_RETURN, 0, 0, _ALLOW)]
    else:
        code += [(_ANY_BIT, 0, 1, _CLONE_THREAD), (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _KILL)]
    code += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _argument_offset(index: int) -> int:
    """Offset of the lower half of a system call's argument in struct seccomp_data."""
    return 16 + 8 * index


def _refused_if(number: int, argument: int, tests: Sequence[tuple[int, int]], error: int) -> _Code:
    """Fails call `number` with `error` if an argument passes all tests (operation, operand); goes on otherwise."""
    length = len(tests)
    code: _Code = [(_EQUAL, 0, length + 3, number), (_LOAD, 0, 0, _argument_offset(argument))]
    code += [(operation, 0, length - at, operand) for at, (operation, operand) in enumerate(tests)]
    return [*code, (_RETURN, 0, 0, _ERRNO | error), (_LOAD, 0, 0, _NUMBER)]


@contextlib.contextmanager
def seccomp_file(*, forks: bool) -> Iterator[int | None]:
    """Yields a file descriptor from which the filter can be read, or None on machines other than x86-64."""
    if platform.machine() != "x86_64":
        yield None
        return
    reader, writer = os.pipe()
    os.write(writer, seccomp_program(forks=forks))
    os.close(writer)
    try:
        yield reader
    finally:
        os.close(reader)
