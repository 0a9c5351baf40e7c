"""Messages that fit: at most 1,024 bytes, and of a long list its first items and how many more there are.

What others say (a cluster, the provider, the hub) tells where it happened at its head and why at its tail, so what is
too long is cut in the middle.
"""

from collections.abc import Sequence

LIMIT = 1024
MAX_ITEMS = 5
ELLIPSIS = "..."


def truncate_middle(text: str, limit: int = LIMIT) -> str:
    """Return the text in at most so many bytes of UTF-8, its middle left out where it is longer."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    room = max(0, limit - len(ELLIPSIS))
    tail = room // 2
    head = encoded[: room - tail].decode(errors="ignore")
    return head + ELLIPSIS + (encoded[-tail:].decode(errors="ignore") if tail else "")


def fit_budget(items: Sequence[str], room: int) -> list[str]:
    """Return the items in at most so many bytes together; what short ones do not need of their share, long ones get."""
    fitted = list(items)
    sizes = [len(item.encode()) for item in items]
    for done, index in enumerate(sorted(range(len(items)), key=sizes.__getitem__)):
        fitted[index] = truncate_middle(items[index], max(0, room // (len(items) - done)))
        room -= len(fitted[index].encode())
    return fitted


def join_with_more(items: Sequence[str], shown: int = MAX_ITEMS, separator: str = ", ") -> str:
    """Return the first items, together in most of a message, and how many more there are."""
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return separator.join(fit_budget(items[:shown], LIMIT * shown // (shown + 1))) + more


def format_count(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural where it is not one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
