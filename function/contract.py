"""The input and the output of the whole function as plain frozen data: `Call -> Outcome`.

Nothing here knows protobuf: `wire` reads a `Call` from a request and writes an `Outcome` into a response, and the
command line does the same from files or a live cluster.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from function.kube.manifests import Manifest
from function.reasons import ConditionType, Status

# Crossplane reads no larger response: the default of its gRPC client (docs/facts.md, Crossplane).
RESPONSE_BYTES = 4 * 2**20


class RequiredResource(NamedTuple):
    """A required resource, parsed only if it is needed."""

    digest: bytes  # identifies the content
    load: Callable[[], Manifest]
    uid: str = ""  # only for a resource from an API server


Answer: TypeAlias = tuple[RequiredResource, ...]
Pause: TypeAlias = Callable[[], None]


def noop() -> None:
    """Does nothing, for a call that does not share the processor with other calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    xr: Manifest
    observed: Mapping[str, Manifest] = field(default_factory=dict)  # by composition-resource-name, of all steps
    desired_by_earlier_steps: frozenset[str] = frozenset()  # composition-resource-names
    answers: Mapping[str, Answer] = field(default_factory=dict)  # by requirement name; absent: not answered yet
    input: Manifest = field(default_factory=dict)
    context: Manifest = field(default_factory=dict)
    now: float = 0  # seconds since 1970; for the waits of ModelServices, orphans and lent replicas
    # Called before a required object is parsed and before an environment is checked; may raise to end the call.
    pause: Pause = field(default=noop, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """Resources that Crossplane should fetch: one by name, or all of the kind that have all labels."""

    api_version: str
    kind: str
    name: str | None = None
    namespace: str | None = None  # None: of all namespaces
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A desired composed resource."""

    manifest: Manifest
    ready: bool = False  # as observed


class Drop(NamedTuple):
    """An observed composed resource that leaves the desired state, so that Crossplane deletes it, and why.

    While the composite exists, this is the only way to delete a resource: an observed resource that is neither composed
    nor dropped is carried over. A resource that is both dropped and composed stays.
    """

    key: str  # composition-resource-name
    why: str


@dataclass(frozen=True, slots=True)
class Desired:
    """What one part of a composite desires."""

    composed: Mapping[str, Composed] = field(default_factory=dict)
    drops: tuple[Drop, ...] = ()

    def __or__(self, other: "Desired") -> "Desired":
        return combine((self, other))

    def with_prefix(self, prefix: str) -> "Desired":
        """Returns the same resources and drops under longer composition-resource-names."""
        composed = {prefix + key: item for key, item in self.composed.items()}
        return Desired(composed, tuple(Drop(prefix + key, why) for key, why in self.drops))


def combine(parts: Iterable[Desired]) -> Desired:
    """Returns what several parts desire; what a later part composes replaces what an earlier part composes."""
    composed: dict[str, Composed] = {}
    drops: list[Drop] = []
    for part in parts:
        composed |= part.composed
        drops += part.drops
    return Desired(composed, tuple(drops))


@dataclass(frozen=True, slots=True)
class Condition:
    type: ConditionType
    status: Status
    reason: str
    message: str = ""
    is_expected: bool = False  # it is False, and nothing needs attention: its event is no warning


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    requirements: Mapping[str, Requirement] = field(default_factory=dict)
    composed: Mapping[str, Composed] = field(default_factory=dict)
    drops: tuple[Drop, ...] = ()
    status: Manifest = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    events: tuple[Event, ...] = ()
    ready: bool | None = None  # False: the composite is not ready; None: Crossplane decides
    ttl_seconds: int = 60
    version: str = ""  # the status was computed from this resourceVersion and is written only over it; empty: any
    # The decision and its inputs, for the command line; None if nothing was decided.
    explanation: object = field(default=None, compare=False)
