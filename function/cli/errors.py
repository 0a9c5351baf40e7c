"""How a command fails: one line on standard error that says what to do, and an exit code that stays the same."""

from enum import IntEnum

import click


class Code(IntEnum):
    """What a caller may rely on; 2 is also click's own for a wrong option."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    BUG = 70
    INTERRUPTED = 130


class CliError(click.ClickException):
    """A failure that the user can do something about; whatever meets one raises it, up to main.py."""

    def __init__(self, message: str, code: Code = Code.USAGE) -> None:
        super().__init__(message)
        self.code = code
