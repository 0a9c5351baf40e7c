"""Messages that fit: at most 1,024 bytes, and of a long list its first items and how many more there are.

What others say (a cluster, the provider, the hub) tells where it happened at its head and why at its tail, so what is
too long is cut in the middle.
"""

from collections.abc import Sequence

LIMIT = 1024
SHOWN = 5
CUT = "..."


def clip(text: str, limit: int = LIMIT) -> str:
    """Return the text in at most so many bytes of UTF-8, its middle left out where it is longer."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    room = max(0, limit - len(CUT))
    tail = room // 2
    head = encoded[: room - tail].decode(errors="ignore")
    return head + CUT + (encoded[-tail:].decode(errors="ignore") if tail else "")


def listed(items: Sequence[str], shown: int = SHOWN, separator: str = ", ") -> str:
    """Return the first items, each in its share of a message, and how many more there are."""
    share = LIMIT // (shown + 1)
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return separator.join(clip(item, share) for item in items[:shown]) + more
