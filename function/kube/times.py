"""Times as Kubernetes writes them: RFC 3339, in UTC, to the second."""

from datetime import UTC, datetime

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def parse_time(value: str) -> int | None:
    """Returns a time in seconds since 1970; None if it is not written so."""
    try:
        return int(datetime.strptime(value, _FORMAT).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


def format_time(seconds: int) -> str:
    """Returns seconds since 1970 as a time."""
    return datetime.fromtimestamp(seconds, UTC).strftime(_FORMAT)
