"""Decides deployments with the composer that the controller runs, from the same inputs.

All deployments are decided once, in the order of their creation, whichever are shown: each sees the placements of those
before it, and on a control plane what the environments have published.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from function.api.settings import parse_settings
from function.cli.candidates import Row, describe_invalid_pool, explain_preference, list_candidates, list_remarks
from function.cli.composing import apply_placements, compose_up, publish_ledger, reconcile
from function.cli.inputs import KINDS, World, find_invalid_pools
from function.cli.store import Ref, Store
from function.cli.tables import BAD, GOOD, WAIT
from function.composers import placement
from function.composers.deployment import Considered, decide
from function.contract import Call, Composed, Condition, Outcome
from function.kube.manifests import JSON, Manifest, text
from function.reasons import ConditionType, Status

_COLOURS = {"+": GOOD, "-": BAD, "~": WAIT}


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a difference."""

    sign: str
    text: str

    @property
    def colour(self) -> str:
        """The colour of its sign."""
        return _COLOURS[self.sign]

    def __str__(self) -> str:
        return f"{self.sign} {self.text}"


def list_changes(before: Mapping[str, Manifest], after: Mapping[str, Composed]) -> tuple[Change, ...]:
    """Return how what is composed differs from what exists."""
    return tuple(_compare(before, {key: item.manifest for key, item in after.items()}))


def _compare(before: Mapping[str, Manifest], after: Mapping[str, Manifest]) -> Iterator[Change]:
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old is None and new is not None:
            yield Change("+", _describe_placement(new))
        elif new is None and old is not None:
            yield Change("-", _describe_placement(old))
        elif old is not None and new is not None:
            was, becomes = dict(_flatten(old.get("spec"), "spec")), dict(_flatten(new.get("spec"), "spec"))
            for path in sorted(was.keys() | becomes.keys()):
                if was.get(path) != becomes.get(path) and not path.startswith("spec.crossplane"):
                    yield Change(
                        "~",
                        f"{_describe_placement(new)} {path}: {was.get(path, 'unset')} -> {becomes.get(path, 'unset')}",
                    )


def _describe_placement(manifest: Manifest) -> str:
    where = text(manifest, "spec.inferenceEnvironmentRef.name")
    return (
        f"{Ref.of(manifest)} on {where} (profile {text(manifest, 'spec.profile')}, pool {text(manifest, 'spec.pool')})"
    )


def _flatten(value: JSON, path: str) -> Iterator[tuple[str, JSON]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flatten(item, f"{path}.{key}")
    else:
        yield path, value


# What each service asks for, by its name and environment.
Services: TypeAlias = Mapping[tuple[str, str], str]


def list_services(store: Store, outcome: Outcome) -> Services:
    """Return the services of the placements that a deployment composes."""
    found: dict[tuple[str, str], str] = {}
    for item in outcome.composed.values():
        call, _ = reconcile(store, item.manifest)
        asked = placement.service(call, parse_settings(call.input, call.context).value)
        if asked:
            name, digest = asked
            found[name, text(item.manifest, "spec.inferenceEnvironmentRef.name")] = digest
    return found


def list_restarts(before: Services, after: Services) -> list[str]:
    """Return the services that are in both and ask for something else, as `NAME on ENVIRONMENT`."""
    both = sorted(before.keys() & after.keys())
    return [f"{name} on {where}" for name, where in both if before[name, where] != after[name, where]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would become of one deployment, with what its services ask for.

    `considered` None: something that it needs is missing or invalid.
    """

    ref: Ref
    outcome: Outcome
    rows: tuple[Row, ...]
    changes: tuple[Change, ...]
    store: Store = field(repr=False)
    considered: Considered | None = None

    @property
    def decision(self) -> Condition:
        """Scheduled, or what stands in its way."""
        by_type = {condition.type: condition for condition in self.outcome.conditions}
        resolved = by_type[ConditionType.MODEL_RESOLVED]
        scheduled = by_type[ConditionType.SCHEDULED]
        return resolved if scheduled.status is Status.UNKNOWN and resolved.status is not Status.TRUE else scheduled

    @property
    def services(self) -> Services:
        """What the pods of each of its services must see."""
        return list_services(self.store, self.outcome)

    @property
    def remarks(self) -> list[str]:
        """What is worth knowing of the places that it would take."""
        return [*list_remarks(self.considered), *explain_preference(self.rows)] if self.considered else []

    @property
    def placements(self) -> list[Manifest]:
        """The placements that would exist."""
        return [item.manifest for _, item in sorted(self.outcome.composed.items())]


def plan_deployments(world: World, refs: Iterable[Ref]) -> list[Plan]:
    """Decide all deployments and return the plans of some; the store then holds the placements of all.

    A ModelCache from a file that has no status counts as it would report once its downloads are complete.
    """
    store, plans = world.store, dict[Ref, Plan]()
    for ref in sorted(world.edited):
        publish_ledger(store, ref)
    for ref in store.refs("ModelCache"):
        if ref in world.given and not store[ref].get("status"):
            compose_up(store, ref)
    wanted = list(refs)
    for ref in store.by_creation("ModelDeployment"):
        call, outcome = reconcile(store, store[ref])
        if ref in wanted:
            plans[ref] = _plan(store, ref, call, outcome)
        apply_placements(store, ref, outcome.composed)
    return [plans[ref] for ref in wanted]


def _plan(store: Store, ref: Ref, call: Call, outcome: Outcome) -> Plan:
    before = store.owned(ref)
    considered = decide(call, parse_settings(call.input, call.context).value)
    rows: tuple[Row, ...] = ()
    if isinstance(considered, Considered):
        names = {text(manifest, "metadata.name") for manifest in before.values()}
        invalid = find_invalid_pools(store, (e for e in considered.environments if not e.deleting))
        rows = (*list_candidates(considered, names), *map(describe_invalid_pool, invalid))
    return Plan(
        ref=ref,
        outcome=outcome,
        rows=rows,
        changes=list_changes(before, outcome.composed),
        store=store,
        considered=considered if isinstance(considered, Considered) else None,
    )


def compose_given(world: World) -> dict[Ref, Outcome]:
    """Decide all deployments, then compose everything that was given once with all of it up.

    Returns the outcomes of the composites whose manifests are meant: those given, and the placements that they compose.
    """
    plan_deployments(world, ())
    outcomes: dict[Ref, Outcome] = {}
    for ref in [ref for ref in world.store.refs(*KINDS) if ref in world.given and world.in_scope(ref)]:
        outcomes |= compose_deployment(world.store, ref) if ref.kind == "ModelDeployment" else {}
        if ref not in outcomes:
            outcomes[ref] = compose_up(world.store, ref)
    return outcomes


def compose_deployment(store: Store, ref: Ref) -> dict[Ref, Outcome]:
    """Compose the placements of a deployment that was decided, and the deployment once more with all of them up."""
    outcomes = {placement: compose_up(store, placement) for placement in map(Ref.of, store.owned(ref).values())}
    return outcomes | {ref: reconcile(store, store[ref])[1]}
