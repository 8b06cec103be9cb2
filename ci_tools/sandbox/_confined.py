"""Applies Landlock and seccomp to its own process and execs a command: a script for `sandbox.run_in_sandbox`.

It stays one file, although it is long: it runs before anything else of the toolkit may be read, and needs only the
standard library. Only `_fork_server` loads it, for a process that is prepared. Its one argument is the command, its
variables, its folder, the paths it may read, and its limits, as `marshal` and hexadecimal digits. Right before it
starts the command it prints the "ready" mark from its argument: output without that mark is about this machine, not
about the command.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import resource
import struct
import sys

# It starts before every confined command. The modules `contextlib`, `json`, `pathlib`, `platform` and `typing` would
# take longer to import than all the rest, and Python to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MASK = 0o022  # the usual umask, so that built files have the modes that users will see
NICENESS = 10  # the supervisor still gets processor time, whatever the command starts

# linux/prctl.h, linux/capability.h
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION_3 = 0x20080522

# linux/landlock.h. Its system calls have the same numbers on every architecture.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1
ACCESS_EXECUTE, ACCESS_WRITE_FILE, ACCESS_READ_FILE, ACCESS_READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
ACCESS_MAKE_CHAR, ACCESS_MAKE_BLOCK = 1 << 6, 1 << 11
ACCESS_TRUNCATE, ACCESS_IOCTL_DEV = 1 << 14, 1 << 15
# The number of access bits in each version of the Landlock ABI, from version 1 on.
ACCESS_BITS = (13, 14, 15, 15, 16, 16, 16, 16, 17)
ACCESS_TCP, SINCE_TCP = 0b11, 4
SCOPES, SINCE_SCOPES = 0b11, 6  # of abstract unix sockets and of signals
SINCE_TRUNCATE = 3
OF_A_FILE = ACCESS_EXECUTE | ACCESS_WRITE_FILE | ACCESS_READ_FILE | ACCESS_TRUNCATE | ACCESS_IOCTL_DEV

# linux/seccomp.h, linux/bpf_common.h, linux/audit.h
SECCOMP_SET_MODE_FILTER = 1
KILL_PROCESS, FAIL, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
LOAD, EQUAL, ABOVE, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # bytes from the start of struct seccomp_data

# The number of each system call on x86_64 and on aarch64; None if it does not exist there.
FORBIDDEN: dict[str, tuple[int | None, int | None]] = {
    # leaving the process group, by which all processes are killed
    "setsid": (112, 157),
    "setpgid": (109, 154),
    # access to other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    # other namespaces and mounts
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "unshare": (272, 97),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    # the kernel and the machine
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "personality": (135, 92),
    # watching files and listing mounts: Landlock has no right for these
    "fanotify_init": (300, 262),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "name_to_handle_at": (303, 264),
    "statmount": (457, 457),
    "listmount": (458, 458),
    # memory that outlives a process or is charged to none; the calls take a number that can be guessed
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semctl": (66, 191),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    # extended attributes of outside files: shutil.copystat takes the error for a file system without them
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
}
NETWORK: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    # A descriptor in flight belongs to no process until it is received, so its file would not be counted.
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "setsockopt": (54, 208),  # could enlarge the buffer beyond the size that `sandbox` counts
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
# Landlock has no right for reading extended attributes: shutil.copystat takes the error for a file system without them.
ATTRIBUTES: dict[str, tuple[int | None, int | None]] = {
    "getxattr": (191, 8),
    "lgetxattr": (192, 9),
    "fgetxattr": (193, 10),
    "listxattr": (194, 11),
    "llistxattr": (195, 12),
    "flistxattr": (196, 13),
}
# A page in a pipe or a socket may keep the 2 MiB around it allocated, charged to no process. Programs that use these
# calls fall back to read and write if they fail: "applications may wish to fall back", sendfile(2).
BY_REFERENCE: dict[str, tuple[int | None, int | None]] = {
    "splice": (275, 76),
    "tee": (276, 77),
    "vmsplice": (278, 75),
    "sendfile": (40, 71),
}
# A descriptor of an outside process tells when it ends; asynchronous requests are a supply that all processes
# share (fs.aio-max-nr). Programs take the answer for that of an older kernel, or of one without these calls.
ABSENT: dict[str, tuple[int | None, int | None]] = {"pidfd_open": (434, 434), "io_setup": (206, 0)}
# Landlock does not cover modes, owners and times, and every shutil.copy sets some: these calls do nothing and return 0.
PRETENDED: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
}
# If this version of Landlock cannot scope signals, no signal is allowed.
SIGNALS: dict[str, tuple[int | None, int | None]] = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}
TRUNCATION: dict[str, tuple[int | None, int | None]] = {"truncate": (76, 45)}
# Calls whose first argument may name another process; 0 is the caller itself.
OF_ITSELF: dict[str, tuple[int | None, int | None]] = {
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
}
# Calls whose first argument is a clock: a negative one is the processor time of a process or thread that it names.
CLOCKS: dict[str, tuple[int | None, int | None]] = {
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "timer_create": (222, 107),
}
CLONE: tuple[int | None, int | None] = (56, 220)
CLONE3: tuple[int | None, int | None] = (435, 435)  # its flags are in memory, where a filter cannot see them
MMAP: tuple[int | None, int | None] = (9, 222)
IOCTL: tuple[int | None, int | None] = (16, 29)
FCNTL: tuple[int | None, int | None] = (72, 25)
SOCKETPAIR: tuple[int | None, int | None] = (53, 199)
LAST = 462  # mseal. Later calls are unknown here, so they fail as missing; the numbers of x32 are above this as well
NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
# TCGETS and TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FICLONE
HARMLESS_REQUESTS = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409)
# F_SETOWN and F_SETOWN_EX send signals to others, F_SETLEASE makes others wait, F_NOTIFY watches others
OF_OTHERS = (8, 15, 1024, 1026)
MAX_CLOCKS, OWN_PROCESS, OWN_THREAD = 15, 0xFFFFFFFA, 0xFFFFFFFE  # linux/posix-timers.h, for process 0
CLONE_FILES, CLONE_THREAD = 0x400, 0x10000
MAP_SHARED, MAP_ANONYMOUS = 0x1, 0x20
AF_UNIX, SOCK_STREAM, SOCKET_KIND = 1, 1, 0xF


class Architecture:
    """A CPU architecture: its value in struct seccomp_data, and its column in the tables of numbers."""

    def __init__(self, word: int, column: int) -> None:
        self.word, self.column = word, column


ARCHITECTURES = {"x86_64": Architecture(0xC000003E, 0), "aarch64": Architecture(0xC00000B7, 1)}
Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


def main() -> None:
    """Confine this process unless the command is trusted, then exec the command."""
    rules = marshal.loads(bytes.fromhex(sys.argv[1]))  # noqa: S302 - the parent process has written it
    restrict(rules)
    execute(rules["command"], rules["env"])


def execute(command: list[str], env: dict[str, str]) -> None:
    """Let this process become a program with these variables."""
    try:
        os.execvpe(command[0], command, env)  # noqa: S606 - there is no shell to ask for
    except OSError as error:
        raise SystemExit(f"{command[0]} cannot be started: {error.strerror}") from error


def restrict(rules: dict[str, Any]) -> None:
    """Limit this process, confine it unless the command is trusted, and report that the command is about to start."""
    _limit(rules["memory"], rules["written"], rules["tasks"], rules["files"])
    if not rules["trusted"]:
        _confine(rules)
    os.umask(MASK)
    os.write(1, rules["ready"].encode())


def _limit(memory: int, written: int, tasks: int, files: int) -> None:
    """Set the limits of one process; the total of all processes is measured by `sandbox`."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: written + 65536, resource.RLIMIT_NOFILE: files}
    if sys.platform == "linux":
        limits[resource.RLIMIT_AS] = 4 * memory  # a backstop: programs reserve far more addresses than they use
        limits[resource.RLIMIT_NPROC] = _count_tasks() + tasks  # another backstop, which does not limit root
    for name, most in limits.items():
        hard = resource.getrlimit(name)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (allowed, allowed))
    os.nice(NICENESS)


def _count_tasks() -> int:
    """Return how many threads this machine has: RLIMIT_NPROC counts those of this user, in all of its containers.

    To count just these would take a look at each process, which takes longer than everything else here.
    """
    with open("/proc/loadavg", "rb") as file:  # noqa: PTH123 - see the imports
        return int(file.read().split()[3].partition(b"/")[2])  # proc_loadavg(5)


def _confine(rules: dict[str, Any]) -> None:
    """Drop permanently every right that the command must not have."""
    name = os.uname().machine
    if sys.platform != "linux" or name not in ARCHITECTURES or sys.maxsize < 1 << 32:
        raise OSError(f"{sys.platform} on {name}: only 64-bit Linux on x86_64 and aarch64 can confine a command")
    libc = ctypes.CDLL(None, use_errno=True)
    version = _landlock_version(libc)
    _drop_capabilities(libc)
    _call(libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _restrict_files(libc, version, rules)
    _restrict_calls(libc, program(ARCHITECTURES[name], version))


def _call(function: Any, *arguments: Any) -> int:  # noqa: ANN401 - ctypes has no type for its functions
    """Call a C function and return its result; raise OSError if it fails."""
    result = function(*(ctypes.c_long(value) if isinstance(value, int) else value for value in arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)


def _landlock_version(libc: ctypes.CDLL) -> int:
    try:
        return _call(libc.syscall, CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)
    except OSError as error:
        raise OSError("this kernel has no Landlock, or does not use it") from error


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Drop all capabilities, so that root keeps only the rights of a file's owner."""
    try:
        for capability in range(64):
            _call(libc.prctl, PR_CAPBSET_DROP, capability, 0, 0, 0)
    except OSError:  # past the last capability, or without the right to drop any
        pass
    try:  # noqa: SIM105 - see the imports
        _call(libc.prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    except OSError:  # Linux before 4.3
        pass
    _call(libc.capset, struct.pack("=Ii", CAPABILITY_VERSION_3, 0), bytes(24))


# -- files


def _restrict_files(libc: ctypes.CDLL, version: int, rules: dict[str, Any]) -> None:
    """Allow reading the readable paths, everything in the folder except devices, and nothing else."""
    handled = (1 << ACCESS_BITS[min(version, len(ACCESS_BITS)) - 1]) - 1
    read = ACCESS_EXECUTE | ACCESS_READ_FILE | ACCESS_READ_DIR
    inside = handled & ~(ACCESS_MAKE_CHAR | ACCESS_MAKE_BLOCK | ACCESS_IOCTL_DEV)
    tcp, scopes = (version >= SINCE_TCP) * ACCESS_TCP, (version >= SINCE_SCOPES) * SCOPES
    attributes = struct.pack("=QQQ", handled, tcp, scopes)
    ruleset = _call(libc.syscall, CREATE_RULESET, attributes, len(attributes), 0)
    for path in rules["readable"]:
        _allow(libc, ruleset, path, read)
    for path in rules["writable_devices"]:
        _allow(libc, ruleset, path, ACCESS_READ_FILE | ACCESS_WRITE_FILE)
    if rules["journal"]:
        _allow(libc, ruleset, rules["journal"], ACCESS_WRITE_FILE)
    _allow(libc, ruleset, rules["folder"], inside)
    _call(libc.syscall, RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    """Allow `access` to a file, or to everything below a folder; skip a path that does not exist."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    if not os.path.isdir(path):  # noqa: PTH112 - see the imports
        access &= OF_A_FILE
    _call(libc.syscall, ADD_RULE, ruleset, RULE_PATH_BENEATH, struct.pack("=Qi", access, descriptor), 0)
    os.close(descriptor)


# -- system calls


def _restrict_calls(libc: ctypes.CDLL, instructions: list[Instruction]) -> None:
    packed = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in instructions))
    described = struct.pack("@HP", len(instructions), ctypes.addressof(packed))
    seccomp = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    _call(libc.syscall, seccomp, SECCOMP_SET_MODE_FILTER, 0, described)


def program(architecture: Architecture, version: int) -> list[Instruction]:
    """Return the seccomp filter, in classic BPF, that complements this version of Landlock (seccomp(2))."""
    tables = [(FORBIDDEN, errno.EPERM), (NETWORK, errno.EACCES), (PRETENDED, 0)]
    tables += [(ATTRIBUTES, errno.ENOTSUP), (BY_REFERENCE, errno.EINVAL), (ABSENT, errno.ENOSYS)]
    tables += [(SIGNALS, errno.EPERM)] if version < SINCE_SCOPES else []
    tables += [(TRUNCATION, errno.EACCES)] if version < SINCE_TRUNCATE else []
    answers = [(numbers, [_fail(code)]) for table, code in tables for numbers in table.values()]
    answers += [(numbers, _only(0, (0,), errno.EPERM)) for numbers in OF_ITSELF.values()]
    answers += [(numbers, _own_clocks()) for numbers in CLOCKS.values()]
    answers += [(CLONE3, [_fail(errno.ENOSYS)]), (IOCTL, _only(1, HARMLESS_REQUESTS, errno.ENOTTY))]
    answers += [(FCNTL, _never(1, OF_OTHERS)), (SOCKETPAIR, _stream_pair()), (CLONE, _clones()), (MMAP, _maps())]
    return [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, architecture.word),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER),
        (ABOVE, 0, 1, LAST),
        _fail(errno.ENOSYS),
        *(step for numbers, answer in answers for step in _where(numbers[architecture.column], answer)),
        (RETURN, 0, 0, ALLOW),
    ]


def _fail(code: int) -> Instruction:
    return RETURN, 0, 0, FAIL | code


def _argument(index: int) -> Instruction:
    """Return the instruction that loads an argument's low 32 bits: flags, requests and process ids are no longer."""
    return LOAD, 0, 0, ARGUMENTS + 8 * index


def _where(number: int | None, answer: list[Instruction]) -> list[Instruction]:
    """Return `answer` for one system call. Every answer returns, so the next test finds the call's number loaded."""
    return [] if number is None else [(EQUAL, 0, len(answer), number), *answer]


def _only(index: int, values: tuple[int, ...], code: int) -> list[Instruction]:
    """Return the answer that allows only these values of an argument."""
    tests = [(EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_argument(index), *tests, _fail(code), (RETURN, 0, 0, ALLOW)]


def _never(index: int, values: tuple[int, ...]) -> list[Instruction]:
    """Return the answer that allows every value of an argument except these."""
    tests = [(EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_argument(index), *tests, (RETURN, 0, 0, ALLOW), _fail(errno.EPERM)]


def _stream_pair() -> list[Instruction]:
    """Return the answer that allows pairs of connected streams: sockets of other kinds can send to any address."""
    return [
        _argument(0),
        (EQUAL, 0, 4, AF_UNIX),
        _argument(1),
        (AND, 0, 0, SOCKET_KIND),
        (EQUAL, 0, 1, SOCK_STREAM),
        (RETURN, 0, 0, ALLOW),
        _fail(errno.EACCES),
    ]


def _clones() -> list[Instruction]:
    """Return the answer that allows processes and threads without a new namespace; threads must share descriptors."""
    return [
        _argument(0),
        (ANY_BIT, 0, 1, NEW_NAMESPACES),
        _fail(errno.EPERM),
        (AND, 0, 0, CLONE_FILES | CLONE_THREAD),
        (EQUAL, 0, 1, CLONE_THREAD),
        _fail(errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    ]


def _own_clocks() -> list[Instruction]:
    """Return the answer that allows the machine's clocks and the caller's own (clock_gettime(2))."""
    return [
        _argument(0),
        (ABOVE, 0, 3, MAX_CLOCKS),
        (EQUAL, 2, 0, OWN_PROCESS),
        (EQUAL, 1, 0, OWN_THREAD),
        _fail(errno.EINVAL),
        (RETURN, 0, 0, ALLOW),
    ]


def _maps() -> list[Instruction]:
    """Return the answer that refuses shared memory without a file: it persists when no process has a page of it."""
    return [
        _argument(3),
        (AND, 0, 0, MAP_SHARED | MAP_ANONYMOUS),
        (EQUAL, 0, 1, MAP_SHARED | MAP_ANONYMOUS),
        _fail(errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    ]


if __name__ == "__main__":
    main()
