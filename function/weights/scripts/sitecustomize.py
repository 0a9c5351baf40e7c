"""Makes the initializer log why an error happened.

It logs an error's own text alone, such as "cannot locate the file"; the answer of the source, such as a status of 403,
is in the error's causes. Python runs this file when the initializer starts: download.py names its folder in PYTHONPATH.
"""

import logging
from typing import Any

_make_record = logging.getLogRecordFactory()


def make_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
    """Make a log record; one whose arguments hold an exception has its traceback, with every cause."""
    record = _make_record(*args, **kwargs)
    errors = [arg for arg in record.args or () if isinstance(arg, BaseException)]
    if errors and not record.exc_info:
        record.exc_info = (type(errors[0]), errors[0], errors[0].__traceback__)
    return record


logging.setLogRecordFactory(make_record)
