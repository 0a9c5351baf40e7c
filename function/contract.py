"""What goes in and what comes out of the whole function, as plain frozen data: `Call -> Outcome`.

Nothing here knows protobuf: the adapter fills a `Call` from a request and writes an `Outcome` into a response, and
the CLI does the same from files or a live cluster.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

from function.kube.manifests import Manifest
from function.reasons import ConditionType, Status


class Answer(Enum):
    """A requirement that Crossplane has not answered yet; told apart from one answered with nothing."""

    PENDING = "pending"


class RequiredResource(NamedTuple):
    """A required resource: `digest` identifies its content, `load` turns it into a manifest when needed; `uid` is told
    only of what comes from an API server.
    """

    digest: bytes
    load: Callable[[], Manifest]
    uid: str = ""


# What Crossplane reads of a response: the default of its gRPC client (docs/facts.md, Crossplane).
RESPONSE_BYTES = 4 * 2**20

Answered: TypeAlias = tuple[RequiredResource, ...]
Pause: TypeAlias = Callable[[], None]


def never() -> None:
    """Go on at once: nobody waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One invocation. `observed` maps composition-resource-names to observed manifests, of all steps of the pipeline;
    `foreign` are the names of those that earlier steps desire. `pause` is called between one environment and the next,
    and may end the call; it changes nothing else.
    """

    xr: Manifest
    observed: Mapping[str, Manifest] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    answers: Mapping[str, Answered] = field(default_factory=dict)
    input: Manifest = field(default_factory=dict)
    context: Manifest = field(default_factory=dict)
    pause: Pause = field(default=never, compare=False)

    def answer(self, name: str) -> Answered | Answer:
        """Return what was found for a requirement, in any order, or that it was not answered yet."""
        return self.answers.get(name, Answer.PENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What to fetch: by name, or every object of the kind that has all labels; of all namespaces where that is None."""

    api_version: str
    kind: str
    name: str | None = None
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A composed resource that shall exist, and whether it is observed to be ready."""

    manifest: Manifest
    ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of the composite."""

    type: ConditionType
    status: Status
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event on the composite."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The whole answer. `ready` False forces the composite to be unready; None leaves it to Crossplane. `version`: the
    status may only be written over this resourceVersion of the composite, since it follows from what stood there.
    """

    requirements: Mapping[str, Requirement] = field(default_factory=dict)
    composed: Mapping[str, Composed] = field(default_factory=dict)
    status: Manifest = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    events: tuple[Event, ...] = ()
    ready: bool | None = None
    ttl_seconds: int = 60
    version: str = ""
