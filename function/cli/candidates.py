"""Lists every environment, profile and pool that a deployment could have, judged by the rules that decide.

One row each: what was wanted, what was found, the verdict. Those that serve come first, then those that would fit,
then the others, nearest first. Remarks name what is slow, too small or doubtful about the places that are chosen.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from function.cli.inputs import InvalidPool
from function.composers.deployment import Considered
from function.domain.environment import Environment, Pool
from function.domain.model import Problem, Shape, Spread
from function.kube.quantity import gib
from function.scheduling.checks import Candidate
from function.scheduling.judge import Attempt, filter_candidates
from function.scheduling.ledger import Ledger
from function.scheduling.pool_capacity import Demand
from function.scheduling.preference import rank
from function.scheduling.request import SchedulingRequest
from function.scheduling.verdicts import Assignment, Field, Rank, Refusal
from function.status import loading as report
from function.status.models import beyond_memory
from function.status.pools import slow
from function.status.sentences import count, joined, replica, sentence, show, unmet
from function.weights.loading import loading
from function.weights.plan import StoragePlan, plan


class Verdict(StrEnum):
    """What becomes of a candidate that is not refused; a refused one has the reason."""

    PLACED = "placed"
    STAYS = "stays"
    FITS = "fits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One candidate in words. `refusals` are empty where nothing refuses it, and then it has a `rank` where one counts;
    `faults` are those of an invalid pool.
    """

    environment: str
    profile: str = ""
    pool: str = ""
    replica: str = ""
    verdict: str
    wanted: str = ""
    found: str = ""
    refusals: tuple[Refusal, ...] = ()
    faults: tuple[Problem, ...] = ()
    rank: Rank | None = None

    @property
    def serves(self) -> bool:
        """Whether the deployment runs there."""
        return self.verdict in (Verdict.PLACED, Verdict.STAYS)

    @property
    def message(self) -> str:
        """Everything that refuses it."""
        return joined([*map(sentence, self.refusals), *map(str, self.faults)])

    @property
    def closeness(self) -> tuple[int, ...]:
        """Sorts the nearest to the front; what fits by the order of choice, where that is not as declared."""
        preferred = (*self.rank.size, self.rank.left) if self.rank else ()
        if self.serves:
            return -2, *preferred
        return (-self.refusals[0].reason.rank + 100,) if self.refusals else (-1, *preferred)


def list_candidates(considered: Considered, existing: Collection[str] = ()) -> tuple[Row, ...]:
    """Return all candidates of a decision; `existing` names the placements that stood before it."""
    ledger = Ledger(considered.view.others, considered.view.own)
    rows: list[Row] = []
    for environment in sorted(considered.environments, key=lambda e: e.name):
        if environment.deleting:
            rows.append(Row(environment=environment.name, verdict="deleted", found="being deleted"))
        else:
            rows += _list_on(considered, environment, ledger, existing)
    return tuple(sorted(rows, key=lambda row: row.closeness))


def describe_invalid_pool(pool: InvalidPool) -> Row:
    """Return the row of a pool that no profile is tried on."""
    first, *others = pool.faults
    return Row(
        environment=pool.environment.name,
        pool=pool.name,
        verdict="invalid",
        wanted=first.path,
        found=first.message + _count_more(len(others)),
        faults=pool.faults,
    )


def _count_more(number: int) -> str:
    return f" (+{number} more)" if number else ""


def _list_on(
    considered: Considered, environment: Environment, ledger: Ledger, existing: Collection[str]
) -> Iterator[Row]:
    chosen = next((a for a in considered.decision.assignments if a.environment == environment.name), None)
    met = False
    for attempt in filter_candidates(considered.request, environment, ledger):
        row = _build_row(considered.request, attempt, ledger, environment.name)
        if chosen is not None and (row.profile, row.pool) == (chosen.profile, chosen.pool):
            row, met = replace(row, verdict=_judge_serving(chosen, existing)), True
        yield row
    if chosen is not None and not met:
        # It stays although its pool or profile cannot be read, or its labels are not admitted any more.
        yield Row(
            environment=environment.name,
            profile=chosen.profile,
            pool=chosen.pool,
            replica=_describe_replica(chosen.shape),
            verdict=_judge_serving(chosen, existing),
        )


def _judge_serving(chosen: Assignment, existing: Collection[str]) -> Verdict:
    stood = chosen.placement is not None and chosen.placement.name in existing
    return Verdict.STAYS if stood else Verdict.PLACED


def _build_row(request: SchedulingRequest, attempt: Attempt, ledger: Ledger, environment: str) -> Row:
    candidate, refusals = attempt.candidate, attempt.refusals
    if not refusals:
        assert candidate is not None  # only a pool can be without a refusal
        preferred = rank(candidate, ledger)
        return Row(
            environment=environment,
            profile=candidate.profile.name,
            pool=candidate.pool.name,
            replica=_describe_replica(candidate.shape),
            verdict=Verdict.FITS,
            wanted=count(request.deployment.replicas, "replica"),
            found=f"room for {_count_room(candidate, ledger)}" + (f", {unused(preferred)}" if preferred else ""),
            rank=preferred,
        )
    wanted, found = compare(refusals[0])
    return Row(
        environment=environment,
        profile=refusals[0].profile,
        pool=refusals[0].pool,
        replica=_describe_replica(candidate.shape if candidate else None),
        verdict=refusals[0].reason,
        wanted=wanted,
        found=found + _count_more(len(refusals) - 1),
        refusals=refusals,
    )


def _describe_replica(shape: Shape | None) -> str:
    return replica(shape.nodes, shape.gpus_per_node) if shape else ""


def _count_room(candidate: Candidate, ledger: Ledger) -> int:
    room = ledger.room(candidate.environment, candidate.pool)
    assert candidate.shape is not None  # nothing fits without one
    apart = candidate.profile.replicas_across_nodes is Spread.REQUIRED
    return room.holds(Demand(candidate.shape, room.nodes * room.gpus_per_node, apart))


def unused(rank: Rank) -> str:
    """Say how much GPU memory a replica would not need."""
    if rank.spare is None:
        return "memoryPerGpu not declared"
    return f"{gib(rank.spare)} unused" if rank.spare >= 0 else f"{gib(-rank.spare)} too little"


def compare(refusal: Refusal) -> tuple[str, str]:
    """Return what was wanted and what was found, short enough for a column."""
    return _COMPARED.get(refusal.field, _compare_declared)(refusal)


def _compare_declared(refusal: Refusal) -> tuple[str, str]:
    wanted = "" if refusal.wanted is None else f" {show(refusal.field, refusal.wanted)}"
    found = "not declared" if refusal.found is None else show(refusal.field, refusal.found)
    return f"{refusal.field}{wanted}", found


def _compare_labels(refusal: Refusal) -> tuple[str, str]:
    pairs = unmet(refusal)
    there = [f"no {r.key}" if label is None else f"{r.key}={label}" for r, label in pairs]
    return ", ".join(str(requirement) for requirement, _ in pairs), ", ".join(there)


def _compare_replicas(refusal: Refusal) -> tuple[str, str]:
    assert isinstance(refusal.wanted, int)
    use = refusal.use
    taken = f", {use.nodes_in_use} of {count(use.nodes, 'node')} in use" if use else ""
    return count(refusal.wanted, "replica"), f"room for {refusal.found}{taken}"


def _compare_storage(refusal: Refusal) -> tuple[str, str]:
    assert refusal.storage is not None
    return refusal.storage.columns


def _compare_with(wanted: str, found: str) -> Callable[[Refusal], tuple[str, str]]:
    def say(refusal: Refusal) -> tuple[str, str]:
        said = show(refusal.field, refusal.found) if refusal.found is not None else found
        return wanted.format(show(refusal.field, refusal.wanted)), said

    return say


_COMPARED: Mapping[Field, Callable[[Refusal], tuple[str, str]]] = {
    Field.DEPLOYMENT_SELECTOR: _compare_labels,
    Field.MODEL_SELECTOR: _compare_labels,
    Field.PROFILE_SELECTOR: _compare_labels,
    Field.REPLICAS: _compare_replicas,
    Field.LEDGER: _compare_replicas,
    Field.VRAM: _compare_with("spec.resources.vram", "not set"),
    Field.ENGINE_ARGS: _compare_with("arguments that agree", ""),
    Field.INTER_NODE: _compare_with("what its preset allows", ""),
    Field.TLS: _compare_with("an engine that serves HTTPS", ""),
    Field.ENVIRONMENT: _compare_with("a valid environment", "spec is invalid"),
    Field.NODE_POOLS: _compare_with("a valid GPU pool", "none"),
    Field.MULTI_NODE: _compare_with("multiNodeCapable for {} nodes", "not declared"),
    Field.STORAGE: _compare_storage,
    Field.READY: _compare_with("Ready", "not reported"),
}


def list_remarks(considered: Considered) -> Iterator[str]:
    """Say what is slow, too small or doubtful about the pools and the storage of a decision."""
    environments = {environment.name: environment for environment in considered.environments}
    for assignment in considered.decision.assignments:
        environment = environments.get(assignment.environment)
        pool = environment.pool(assignment.pool) if environment else None
        if environment and pool:
            said = (
                slow(pool) if assignment.shape.nodes > 1 else "",
                beyond_memory(considered.request.model, assignment.shape, pool.memory_per_gpu),
                *_list_weight_remarks(considered, assignment, environment, pool),
            )
            yield from (f"{environment.name}: {text}" for text in said if text)


def _list_weight_remarks(
    considered: Considered, assignment: Assignment, environment: Environment, pool: Pool
) -> Iterator[str]:
    request = considered.request
    planned = plan(considered.weights.on(environment, pool, assignment.shape, assignment.replicas))
    profile = next((p for p in request.model.profiles if p.name == assignment.profile), None)
    if not isinstance(planned, StoragePlan) or profile is None:
        return
    yield from (str(remark.problem) for remark in planned.remarks)
    found = loading(planned, environment.storage.read_bandwidth, request.model, profile)
    if found:
        yield report.sentence(found)


def explain_preference(rows: Iterable[Row]) -> Iterator[str]:
    """Say why the smallest that suffices is the one that is taken, for each place that is new."""
    known = [row for row in rows if row.rank]
    for row in known:
        if row.rank is None or row.verdict != Verdict.PLACED:
            continue
        said = f"{row.environment}: of what fits profile {row.profile}, pool {row.pool} is the smallest"
        others = (o for o in known if o.verdict == Verdict.FITS and o.profile == row.profile and o.rank)
        following = [f"next {o.environment}/{o.pool} ({unused(o.rank)})" for o in others if o.rank]
        yield ", ".join([f"{said} ({unused(row.rank)})", *following[:1]])
