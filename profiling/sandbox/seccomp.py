"""Seccomp filter (BPF) for the system calls of a sandboxed program."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import struct
from collections.abc import Iterator

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000  # SECCOMP_RET_*, linux/seccomp.h
_AUDIT_ARCH_X86_64 = 0xC000003E
_CLONE, _CLONE3, _CLONE_THREAD = 56, 435, 0x00010000
# x86-64 system call numbers (arch/x86/entry/syscalls/syscall_64.tbl)
_KILLED = {
    "fork": 57, "vfork": 58, "ptrace": 101, "pivot_root": 155, "mount": 165, "umount2": 166, "init_module": 175,
    "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298,
    "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "finit_module": 313,
    "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425,
}  # fmt: skip
_REFUSED = {"socket": 41, "socketpair": 53}  # fail with EACCES, so that libraries that merely probe for them continue


def seccomp_program() -> bytes:
    """The filter as BPF code: fork and privileged kernel interfaces kill, sockets fail with EACCES, threads work."""

    def load(offset: int) -> tuple[int, int, int, int]:
        return (0x20, 0, 0, offset)

    def jump(code: int, value: int, yes: int, no: int) -> tuple[int, int, int, int]:
        return (code, yes, no, value)

    def give(value: int) -> tuple[int, int, int, int]:
        return (0x06, 0, 0, value)

    equal, at_least, any_bit = 0x15, 0x35, 0x45
    code = [load(4), jump(equal, _AUDIT_ARCH_X86_64, 1, 0), give(_KILL), load(0)]
    code += [jump(at_least, 0x40000000, 0, 1), give(_KILL)]  # the x32 calling convention
    code += [jump(equal, _CLONE3, 0, 1), give(_ERRNO | errno.ENOSYS)]  # a filter cannot read clone3's flags
    for number in _KILLED.values():
        code += [jump(equal, number, 0, 1), give(_KILL)]
    for number in _REFUSED.values():
        code += [jump(equal, number, 0, 1), give(_ERRNO | errno.EACCES)]
    code += [jump(equal, _CLONE, 0, 3), load(16), jump(any_bit, _CLONE_THREAD, 1, 0), give(_KILL)]
    code += [give(_ALLOW)]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


@contextlib.contextmanager
def seccomp_file() -> Iterator[int | None]:
    """Yields a file descriptor from which the filter can be read, or None on machines other than x86-64."""
    if platform.machine() != "x86_64":
        yield None
        return
    reader, writer = os.pipe()
    os.write(writer, seccomp_program())
    os.close(writer)
    try:
        yield reader
    finally:
        os.close(reader)
