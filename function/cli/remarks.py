"""What is worth knowing of the places that a deployment takes: nothing that stands in its way, and all that is slow."""

from collections.abc import Iterable, Iterator

from function.cli.candidates import Row, Verdict, unused
from function.composers.deployment import Considered
from function.domain.environment import Environment, Pool
from function.report import loading as report
from function.report.models import beyond_memory
from function.report.pools import slow
from function.report.storage_faults import problem
from function.scheduling.verdicts import Assignment
from function.storage.loading import loading
from function.storage.plan import StoragePlan, plan


def remarks(considered: Considered) -> Iterator[str]:
    """Say what is slow, too small or doubtful about the pools and the storage of a decision."""
    environments = {environment.name: environment for environment in considered.environments}
    for assignment in considered.decision.assignments:
        environment = environments.get(assignment.environment)
        pool = environment.pool(assignment.pool) if environment else None
        if environment and pool:
            said = (
                slow(pool) if assignment.shape.nodes > 1 else "",
                beyond_memory(considered.request.model, assignment.shape, pool.memory_per_gpu),
                *_weights(considered, assignment, environment, pool),
            )
            yield from (f"{environment.name}: {text}" for text in said if text)


def _weights(considered: Considered, assignment: Assignment, environment: Environment, pool: Pool) -> Iterator[str]:
    request = considered.request
    planned = plan(considered.weights.on(environment, pool, assignment.shape, assignment.replicas))
    profile = next((p for p in request.model.profiles if p.name == assignment.profile), None)
    if not isinstance(planned, StoragePlan) or profile is None:
        return
    yield from map(str, map(problem, planned.remarks))
    found = loading(planned, environment.storage.read_bandwidth, request.model, profile)
    if found:
        yield report.sentence(found)


def preferred(rows: Iterable[Row]) -> Iterator[str]:
    """Say why the smallest that suffices is the one that is taken, for each place that is new."""
    known = [row for row in rows if row.rank]
    for row in known:
        if row.rank is None or row.verdict != Verdict.PLACED:
            continue
        said = f"{row.environment}: of what fits profile {row.profile}, pool {row.pool} is the smallest"
        others = (o for o in known if o.verdict == Verdict.FITS and o.profile == row.profile and o.rank)
        following = [f"next {o.environment}/{o.pool} ({unused(o.rank)})" for o in others if o.rank]
        yield ", ".join([f"{said} ({unused(row.rank)})", *following[:1]])
