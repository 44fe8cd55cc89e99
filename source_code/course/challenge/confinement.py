"""What the kernel keeps a process from, whatever runs in it: other files than it needs, the network, and memory."""

import contextlib
import ctypes
import os
import re
import resource
import struct
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

# Landlock, by the kernel's documentation: system calls on all architectures, and rights by version of the interface.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
READ_FILE, READ_DIR, EXECUTE = 1 << 2, 1 << 3, 1 << 0
RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
NETWORK = 0b11  # bind and connect, from version 4
SCOPED = 0b11  # abstract sockets and signals, from version 6
PR_SET_NO_NEW_PRIVS = 38
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/sys/devices/system", "/proc/self")
SINGLE = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/dev/urandom", "/dev/random", "/dev/zero")


def landlock() -> int:
    """Return the version of the kernel's Landlock, 0 where it has none."""
    return max(0, ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, 1))


def confine(reads: Iterable[str | Path] = (), writes: Iterable[str | Path] = (), *, network: bool = False) -> bool:
    """Keep this process, from now on, from all files but Python's own and those below the given paths.

    Without `network` also from TCP, and from other processes' sockets and signals. Threads that are there already keep
    what they have. Return whether the kernel can (Linux 5.13 or later, with Landlock).
    """
    libc, version = ctypes.CDLL(None), landlock()
    if not version:
        return False
    handled = sum(rights for first, rights in RIGHTS.items() if version >= first)
    closed = (NETWORK, SCOPED) if not network else (0, 0)
    attributes = struct.pack("=QQQ", handled, *closed)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules_of = libc.syscall(CREATE_RULESET, attributes, len(attributes), 0)
    if rules_of < 0:
        return False
    reading = READ_FILE | READ_DIR | EXECUTE
    package = Path(__file__).resolve().parents[2]
    python = {sys.prefix, sys.base_prefix, str(package), *sysconfig.get_paths().values()}
    allowed = {os.path.realpath(path): reading for path in (*SYSTEM, *python, *reads)}
    allowed |= dict.fromkeys(SINGLE, READ_FILE) | {"/dev/null": READ_FILE | 1 << 1}
    allowed |= {os.path.realpath(path): handled & ~EXECUTE for path in writes}
    for path, rights in allowed.items():
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            if not os.path.isdir(path):
                rights &= READ_FILE | EXECUTE | 1 << 1
            libc.syscall(ADD_RULE, rules_of, 1, struct.pack("=Qi", rights & handled, descriptor), 0)
            os.close(descriptor)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return libc.syscall(RESTRICT_SELF, rules_of, 0) == 0


def limit_memory(further: int) -> None:
    """Let this process take so many bytes more than it has; TensorFlow says where they do not suffice."""
    taken = int(re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = taken + further
    resource.setrlimit(resource.RLIMIT_DATA, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))
