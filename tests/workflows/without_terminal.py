"""Runs act so that it gives no step a terminal, as GitHub gives none: a script for `harness`, not a module to import.

act 0.2.89 gives each step a terminal if the system has one, and pipes otherwise. Two acts that ran at once were seen to
write into one terminal, and one of them waited for ever. So the kernel answers act that a terminal has no number
(TIOCGPTN of ioctl_tty(2), refused by a filter of seccomp(2)). Where there is no such filter, act runs as it is.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

IOCTL = {"x86_64": 16, "aarch64": 29}
TIOCGPTN = 0x80045430
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 25  # ENOTTY
NUMBER, SECOND = 0, 24  # offsets in struct seccomp_data: the call's number, and its second argument


def refuse_terminals(ioctl: int) -> None:
    """Answer this process, and all that it starts, that a terminal has no number."""
    steps = (
        (LOAD, 0, 0, NUMBER), (EQUAL, 0, 3, ioctl), (LOAD, 0, 0, SECOND), (EQUAL, 0, 1, TIOCGPTN),
        (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW),
    )  # fmt: skip
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    told = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(program))
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    prctl(PR_SET_SECCOMP, FILTER, ctypes.c_char_p(told), 0, 0)


if __name__ == "__main__":
    if sys.platform == "linux" and os.uname().machine in IOCTL:
        refuse_terminals(IOCTL[os.uname().machine])
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - act, as harness names it
