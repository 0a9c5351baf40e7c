"""What happens to a fleet, one function for each story; each yields rows of what that cost."""

import gc
import math
from collections.abc import Iterator, Sequence

from bench.simulator import fleet
from bench.simulator.measured import Meter
from bench.simulator.objects import Version
from bench.simulator.plane import Plane
from bench.simulator.report import Row
from bench.simulator.settings import Settings
from function.cli.store import Ref
from function.domain.allocation import Limits
from function.kube.manifests import Manifest, get, integer, listing, mapping, text

# A quota of each namespace that refuses nothing here.
QUOTA = Limits(placements=10_000, gpus=1_000_000)
# Placements that each environment holds, unless all of the deployments need more.
FEWEST = 8
_SPARE = 1.25


def held(deployments: int, environments: int) -> int:
    """Return how many placements an environment holds, so that a quarter of the fleet stays free."""
    return max(FEWEST, math.ceil(_SPARE * (deployments + 1) / environments))


def at_rest(settings: Settings, deployments: int, environments: int, *, quota: bool = False) -> Plane:
    """Return a fleet that was brought up one deployment after the other."""
    gc.collect()  # once for each fleet: collecting while it is measured would be counted
    plane = Plane(settings)
    if quota:
        plane.core.function.limit(QUOTA)
    plane.create(fleet.model())
    nodes = fleet.NODES * held(deployments, environments)
    with plane.quiet():
        for number in range(environments):
            plane.create(fleet.environment(number, nodes))
    with plane.quiet():
        for number in range(deployments):
            plane.create(_deployment(number, quota=quota))
            plane.rest()
    return plane


def _deployment(number: int, *, quota: bool) -> Manifest:
    """Return a deployment; with a quota all of them are of one namespace."""
    return fleet.deployment(number * fleet.TEAMS if quota else number)


def one_more(settings: Settings, deployments: int, environments: int, *, quota: bool = False) -> Iterator[Row]:
    """Yield what one more deployment costs, and then a change of one placement's status.

    With a quota all deployments are of one namespace, which may take more than they do.
    """
    plane = at_rest(settings, deployments, environments, quota=quota)
    with plane.measured() as meter:
        plane.create(_deployment(deployments, quota=quota))
        seconds = plane.rest()
    yield _row("one more", (deployments, environments), meter, seconds, plane)
    with plane.measured() as meter:
        _falter(plane, plane.all("ModelPlacement")[0])
        seconds = plane.rest()
    yield _row("one status", (deployments, environments), meter, seconds, plane)


def scale(settings: Settings, deployments: int, environments: int) -> Iterator[Row]:
    """Yield what it costs that an autoscaler asks for the fourth replica of a divided deployment, and for three again.

    In the first fleet, the environment of the three has room. In the second, it is full, and the fourth goes elsewhere.
    """
    plane = at_rest(settings, deployments, environments)
    yield from _scale(plane, "", (deployments, environments))
    gc.collect()
    plane = Plane(settings)
    plane.create(fleet.model())
    with plane.quiet():
        for number in range(environments):
            plane.create(fleet.environment(number, 3 * fleet.NODES))
    yield from _scale(plane, " elsewhere", (0, environments))


def _scale(plane: Plane, where: str, size: tuple[int, int]) -> Iterator[Row]:
    plane.core.function.configure({"autoscaling": {"prometheus": {"url": "http://prometheus.monitoring:9090"}}})
    scaling: Manifest = {
        "signal": "Load",
        "replicaScheduling": "Divided",
        "load": {"maxReplicas": 8, "target": {"waitingRequests": 5}},
        "fixed": {"replicas": 3},
    }
    scaled = plane.create(fleet.deployment(size[0], environments=size[1], scaling=scaling))
    plane.rest()
    for replicas in (4, 3):

        def write(manifest: Manifest, replicas: int = replicas) -> None:
            mapping(manifest, "spec.scaling.fixed")["replicas"] = replicas

        with plane.measured() as meter:
            plane.edit(scaled, write)
            seconds = plane.rest()
        placements = [
            v for v in plane.all("ModelPlacement") if text(v.manifest, "spec.deploymentRef.name") == scaled.name
        ]
        spread = "+".join(str(get(v.manifest, "spec.replicas")) for v in placements)
        yield _row(f"{7 - replicas} to {replicas}{where}", size, meter, seconds, plane, f"replicas {spread}")


def reclaim(settings: Settings, environments: int) -> Iterator[Row]:
    """Yield what it costs that a deployment takes back lent replicas, and that it leaves again.

    Each environment is full with the four replicas of one lender, of which one is guaranteed.
    """
    gc.collect()
    plane = Plane(settings)
    plane.create(fleet.model())
    lending: Manifest = {"fixed": {"replicas": 4, "guaranteed": 1}}
    with plane.quiet():
        for number in range(environments):
            plane.create(fleet.environment(number, 4 * fleet.NODES))
    with plane.quiet():
        for number in range(environments):
            plane.create(fleet.deployment(number, scaling=lending))
            plane.rest()
    owner = fleet.deployment(environments, scaling={"fixed": {"replicas": 2}})
    for story in ("two taken back", "given back again"):
        with plane.measured() as meter:
            if story == "two taken back":
                plane.create(owner)
            else:
                plane.delete(Ref.of(owner))
            seconds = plane.rest()
        granted = sum(
            integer(row, "replicas")
            for environment in plane.all("InferenceEnvironment")
            for row in listing(environment.manifest, "status.admitted")
        )
        yield _row(story, (environments, environments), meter, seconds, plane, f"{granted} replicas granted")


def resident(settings: Settings, deployments: int) -> Iterator[Row]:
    """Yield what it costs that one comes to an environment on which all live, and that it leaves again.

    Who comes changes the ledger as it is admitted, and as it serves; who leaves changes it once.
    """
    plane = at_rest(settings, deployments, 1)
    newcomer = Ref.of(fleet.deployment(deployments))
    for story in ("one comes", "one leaves"):
        with plane.measured() as meter:
            if story == "one comes":
                plane.create(fleet.deployment(deployments))
            else:
                plane.delete(newcomer)
            seconds = plane.rest()
        calls = sum(
            number
            for xr, number in meter.called.items()
            if xr.kind in {"ModelDeployment", "ModelPlacement"} and not xr.name.startswith(newcomer.name)
        )
        each = f"{calls / deployments:.1f} calls for each resident"
        yield _row(story, (deployments, 1), meter, seconds, plane, each)


def herd(settings: Settings, deployments: int, slots: int) -> Iterator[Row]:
    """Yield what it costs when so many deployments at once want one of so many environments with one slot each."""
    plane = _slots(settings, slots)
    with plane.measured() as meter:
        for number in range(deployments):
            plane.create(fleet.deployment(number))
        seconds = plane.rest()
    yield _row(
        "herd", (deployments, slots), meter, seconds, plane, f"{meter.made['ModelPlacement']} placements written"
    )


def waiters(settings: Settings, deployments: int) -> Iterator[Row]:
    """Yield what it costs when one slot becomes free for which so many deployments wait."""
    plane = _slots(settings, 1)
    first = plane.create(fleet.deployment(0))
    plane.rest()
    for number in range(1, deployments + 1):
        plane.create(fleet.deployment(number))
    plane.rest()
    made: list[Version] = []
    plane.server.watchers.append(lambda event: made.append(event.now) if event.now and not event.before else None)
    with plane.measured() as meter:
        plane.delete(first)
        seconds = plane.rest()
    kept = {version.ref for version in plane.all("ModelPlacement")}
    yield _row("waiters", (deployments, 1), meter, seconds, plane, *_competed(made, kept))


def _competed(made: Sequence[Version], kept: set[Ref]) -> Iterator[str]:
    """Yield how many placements a slot drew, and what those composed that did not keep it."""
    placements = [version.ref for version in made if version.ref.kind == "ModelPlacement"]
    yield f"{len(placements)} placements written, {max((placements.count(p) for p in placements), default=0)} by one"
    yield f"{len(kept)} left"
    vain = [
        version
        for version in made
        if version.ref.kind == "Object"
        and text(version.manifest, "spec.forProvider.manifest.kind") != "Namespace"
        and Ref("ModelPlacement", version.ref.namespace, text(version.controller, "name")) not in kept
    ]
    yield f"{len(vain)} Objects in vain"


def _slots(settings: Settings, environments: int) -> Plane:
    gc.collect()
    plane = Plane(settings)
    plane.create(fleet.model())
    with plane.quiet():
        for number in range(environments):
            plane.create(fleet.environment(number, fleet.NODES))
    return plane


def _falter(plane: Plane, placement: Version) -> None:
    """Let the service of a placement not be ready."""
    owned = [v for v in plane.all("Object") if text(v.controller, "uid") == placement.uid]
    path = "spec.forProvider.manifest.kind"
    (service,) = [v.ref for v in owned if text(v.manifest, path) == "LLMInferenceService"]

    def falter(manifest: Manifest) -> None:
        for condition in listing(mapping(manifest, "status.atProvider.manifest.status"), "conditions"):
            if text(condition, "type") != "PresetsCombined":
                condition |= {"status": "False", "reason": "Progressing"}

    plane.edit(service, falter)


def _row(  # the columns
    story: str, size: tuple[int, int], meter: Meter, seconds: float, plane: Plane, *notes: str
) -> Row:
    ready = sum(text(c, "status") == "True" for v in plane.all("ModelDeployment") for c in _said(v, "Ready"))
    total = len(plane.all("ModelDeployment"))
    return Row(
        story=story,
        deployments=size[0],
        environments=size[1],
        meter=meter,
        seconds=seconds,
        notes=(f"{ready}/{total} Ready", *notes),
    )


def _said(version: Version, type_: str) -> list[Manifest]:
    return [c for c in listing(version.manifest, "status.conditions") if text(c, "type") == type_]
