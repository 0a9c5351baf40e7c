"""A stand-in for storage whose flock() fails: a seccomp filter fails the call in a process and its children."""

import ctypes
import platform
import struct

NUMBERS = {"x86_64": 73, "aarch64": 32}  # of the system call flock
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06
_ERRNO, _ALLOW = 0x00050000, 0x7FFF0000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def fail_flock(number: int) -> None:
    """Makes every later flock() of this process fail with an error number."""
    steps = (
        (_LOAD, 0, 0, 0),  # the number of the system call
        (_EQUALS, 0, 1, NUMBERS[platform.machine()]),
        (_RETURN, 0, 0, _ERRNO | number),
        (_RETURN, 0, 0, _ALLOW),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = _Program(len(steps), ctypes.cast(code, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_NO_NEW_PRIVS, 1, 0, 0, 0), (_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")
