"""Makes the initializer log why an error happened, and go on where the claim's storage has no flock().

It logs an error's own text alone, such as "cannot locate the file"; the answer of the source, such as a status of 403,
is in the error's causes. Python runs this file when the initializer starts: download.py names its folder in PYTHONPATH.

The hub's client locks each file that it writes. Where flock() fails (Lustre without it, CIFS, some NFS), its versions
fail, or fall back to lock files: these outlive a killed pod, and then the next one waits for them without a word. One
Job writes a directory by design, so no lock protects anything.
"""

import errno
import fcntl
import logging
import os
import sys
from typing import Any

UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
_flock = fcntl.flock
_make_record = logging.getLogRecordFactory()
_reported: set[int] = set()


def flock(file: Any, operation: int) -> None:
    """Lock a file, or say once that this storage cannot, and take it for locked."""
    try:
        _flock(file, operation)
    except OSError as error:
        number = error.errno or 0
        if number not in UNSUPPORTED:
            raise
        if number not in _reported:
            _reported.add(number)
            sys.stderr.write(f"the claim's storage has no flock() ({os.strerror(number)}): going on without locks\n")


def make_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
    """Make a log record; one whose arguments hold an exception has its traceback, with every cause."""
    record = _make_record(*args, **kwargs)
    errors = [arg for arg in record.args or () if isinstance(arg, BaseException)]
    if errors and not record.exc_info:
        record.exc_info = (type(errors[0]), errors[0], errors[0].__traceback__)
    return record


fcntl.flock = flock
logging.setLogRecordFactory(make_record)
