"""How often a memory knew what it was asked, counted by the memory for those who watch the process."""

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counts of things looked up since the process began; nothing is ever decided by them."""

    hits: int = 0
    misses: int = 0
