"""Messages of at most 1,024 bytes, without tokens.

A long list is shortened to its first items and the number of the others. Errors of a cluster, a provider or the hub
have their origin at the beginning and their cause at the end, so a long text is truncated in the middle.
"""

import re
from collections.abc import Sequence

LIMIT = 1024
MAX_ITEMS = 5
ELLIPSIS = "..."
# By the prefixes of Hugging Face, AWS, GitHub, GitLab, Slack, NVIDIA, Google and OpenAI, and JSON Web Tokens. A name of
# Kubernetes has no capital letter.
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(hf_|AKIA|ASIA|gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|nvapi-|AIza|ya29\.|eyJ|sk-(?=[a-z0-9_-]{0,99}[A-Z]))"
    r"[A-Za-z0-9_.-]{12,}"
)
# The alphabet of base64, with letters of both cases and a digit: no name, digest or path looks like it.
_RANDOM = re.compile(
    r"(?<![A-Za-z0-9+])(?=[A-Za-z+]{0,99}[0-9])(?=[a-z0-9+]{0,99}[A-Z])(?=[A-Z0-9+]{0,99}[a-z])[A-Za-z0-9+]{40,}={0,2}"
)


def to_one_line(text: str) -> str:
    """Returns a text of a user or a cluster on one line, without control characters."""
    if text.isprintable():
        return text
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def mask_tokens(text: str) -> str:
    """Returns a text in which nothing that looks like a token is repeated: of a known prefix, the prefix stays."""
    return _RANDOM.sub("***", _TOKEN.sub(r"\1***", text))


def truncate_middle(text: str, limit: int = LIMIT) -> str:
    """Returns the text in at most `limit` bytes of UTF-8, without its middle if it is longer."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    room = max(0, limit - len(ELLIPSIS))
    tail = room // 2
    head = encoded[: room - tail].decode(errors="ignore")
    return head + ELLIPSIS + (encoded[-tail:].decode(errors="ignore") if tail else "")


def fit_budget(items: Sequence[str], room: int) -> list[str]:
    """Returns the items in at most `room` bytes together; long items use what short items leave of their share."""
    fitted = list(items)
    sizes = [len(item.encode()) for item in items]
    for done, index in enumerate(sorted(range(len(items)), key=sizes.__getitem__)):
        fitted[index] = truncate_middle(items[index], max(0, room // (len(items) - done)))
        room -= len(fitted[index].encode())
    return fitted


def join_with_more(items: Sequence[str], shown: int = MAX_ITEMS, separator: str = ", ") -> str:
    """Returns the first items, truncated to fit a message, and the number of the others."""
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return separator.join(fit_budget(items[:shown], LIMIT * shown // (shown + 1))) + more


def format_count(number: int, noun: str) -> str:
    """Returns a number with its noun, such as `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
