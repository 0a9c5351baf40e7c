"""Many environments that refuse one deployment, grouped by what is missing there: nearest first, then the largest.

Within a group those come first that miss the least. A fleet fits one screen so; every row is what --all is for.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from function.cli.candidates import compared
from function.reasons import Outlook, Refused
from function.report.bounded import listed
from function.report.sentences import count
from function.scheduling.verdicts import Miss, Refusal

GROUPS, VALUES, NAMES = 8, 3, 4


@dataclass(slots=True)
class Group:
    """Environments that miss the same, each with what was found there and by how much it falls short."""

    reason: Refused
    outlook: Outlook
    step: int
    wanted: tuple[str, ...]
    found: list[tuple[float, str, str]] = field(default_factory=list)

    @property
    def title(self) -> str:
        """How many environments, why, and whether waiting can help."""
        outlook = "not now" if self.outlook is Outlook.NOT_NOW else "never as things are"
        return f"{count(len(self.found), 'environment')}: {self.reason} ({outlook})"

    @property
    def lines(self) -> Iterator[str]:
        """What is wanted, then the nearest values with who has them."""
        yield f"wanted: {'; '.join(self.wanted)}"
        values = [(said, list(rows)) for said, rows in groupby(sorted(self.found), key=lambda row: row[1])]
        for said, rows in values[:VALUES]:
            yield f"found: {said}: {listed([name for _, _, name in rows], NAMES)}"
        if len(values) > VALUES:
            rest = sum(len(rows) for _, rows in values[VALUES:])
            yield f"and less on {count(rest, 'environment')} more"


def groups(misses: Iterable[Miss]) -> list[Group]:
    """Return the groups, nearest first."""
    found: dict[tuple[Refused, tuple[str, ...]], Group] = {}
    for miss in misses:
        pairs = [compared(refusal) for refusal in miss.refusals]
        wanted = tuple(pair[0] for pair in pairs)
        group = found.setdefault((miss.reason, wanted), Group(miss.reason, miss.outlook, miss.step, wanted))
        group.found.append((_short(miss.refusals), "; ".join(pair[1] for pair in pairs), miss.environment))
    return sorted(found.values(), key=lambda group: (-group.step, -len(group.found), group.wanted))


def _short(refusals: Sequence[Refusal]) -> float:
    """Return by how much is too little, where that can be counted; what is not declared misses all of it."""
    first = refusals[0]
    if not isinstance(first.wanted, int):
        return 0
    return first.wanted - (first.found if isinstance(first.found, int) else 0)
