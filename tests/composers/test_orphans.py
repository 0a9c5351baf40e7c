"""Placements that Crossplane composed and does not observe, because it read a list from before its last write.

On real clusters, two deployments in a race lost their placements in this way: both kept running, undeleted.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from function.composers import compose
from function.contract import Call, Outcome
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.kube.names import COMPOSITION_KEY, VERSION
from tests.support.plane import composed_placements, fetched, from_file, only, plane

ME, OTHER = "uid-of-the-deployment", "uid-of-another"
_READY: list[JSON] = [{"type": "Ready", "status": "True"}]


def at_rest() -> tuple[Manifest, Manifest, list[Manifest]]:
    """Returns a deployment with its placement and required resources; the environment has room for one."""
    control = plane("kimi-k2-two-nodes")
    model, environment, deployment, placement = (
        copy.deepcopy(control.composites[only(control, kind)])
        for kind in ("ClusterModel", "InferenceEnvironment", "ModelDeployment", "ModelPlacement")
    )
    for pool in listing(environment, "spec.nodePools"):
        pool["maxNodeCount"] = 2
    mapping(deployment, "metadata")["uid"] = ME
    return deployment, placement, [model, from_file(environment)]


def owned(placement: Manifest, *, by: str, served: bool, created: str, **more: JSON) -> Manifest:
    """Returns a placement as the API server stores it."""
    copied = copy.deepcopy(placement)
    metadata = mapping(copied, "metadata")
    owner: Manifest = {"apiVersion": VERSION, "kind": "ModelDeployment", "name": "x", "uid": by, "controller": True}
    metadata.update({"ownerReferences": [owner], "creationTimestamp": created, "resourceVersion": "7", **more})
    metadata["annotations"] = {**mapping(metadata, "annotations"), COMPOSITION_KEY: "placement-h200-east"}
    copied["status"] = {"served": True, "conditions": _READY} if served else {}
    return copied


def composed(
    deployment: Manifest, there: list[Manifest], *placements: Manifest, observed: Mapping[str, Manifest] | None = None
) -> Outcome:
    """Returns the composed placement while no other resource is observed."""
    return compose(fetched(Call(xr=deployment, observed=observed or {}), [*there, *placements]))


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    by: str = ME
    has_served: bool = False
    deleting: bool = False
    first: bool = True
    stays: bool = True
    scheduled: str = "Placed"


CASES = (
    Case("never-served", "the orphan belongs to the deployment and has room, so it is adopted"),
    Case("served", "an orphan that has served is always adopted", has_served=True),
    Case(
        "must-yield",
        "a rejected orphan is adopted first, because Crossplane deletes only observed resources",
        first=False,
        scheduled="InsufficientCapacity",
    ),
    Case(
        "deleting",
        "a placement that is being deleted is not adopted",
        deleting=True,
        stays=False,
        scheduled="InsufficientCapacity",
    ),
    Case(
        "of-another",
        "a placement with another owner is not adopted, and its GPUs are charged",
        by=OTHER,
        stays=False,
        scheduled="InsufficientCapacity",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_adopts_orphan_placement(case: Case) -> None:
    deployment, placement, there = at_rest()
    more: dict[str, JSON] = {"deletionTimestamp": "2026-01-01T00:00:09Z"} if case.deleting else {}
    orphan = owned(placement, by=case.by, served=case.has_served, created="2026-01-01T00:00:05Z", **more)
    rival = owned(placement, by=OTHER, served=False, created="2026-01-01T00:00:01Z", name="rival", uid="rival")
    mapping(rival, "spec")["deploymentRef"] = {"name": "another"}
    outcome = composed(deployment, there, orphan, *([] if case.first else [rival]))
    found = outcome.composed.get("placement-h200-east")
    assert (found is not None) == case.stays, case.reason
    if found is not None:
        assert text(found.manifest, "metadata.name") == text(placement, "metadata.name"), case.reason
        assert text(found.manifest, "metadata.resourceVersion") == "7", "as it was seen"
        assert "uid" not in mapping(found.manifest, "metadata"), (
            "an item without a uid does not count as composed in Crossplane's list"
        )
        assert get(found.manifest, "spec.topology") == get(placement, "spec.topology"), case.reason
    (scheduled,) = (c.reason for c in outcome.conditions if c.type == "Scheduled")
    assert scheduled == case.scheduled, case.reason


@pytest.mark.parametrize(
    ("environments", "is_tainted", "has_label"),
    [(3, False, True), (1, True, True), (1, False, False)],
    ids=["too-few", "must-move", "label-gone"],
)
def test_orphan_needs_no_further_round_of_requirements(
    monkeypatch: pytest.MonkeyPatch, environments: int, is_tainted: bool, has_label: bool
) -> None:
    """Crossplane calls six times at most, and what is listed may change once in between.

    Histories, seeds 95888, 200503 and 302929.
    """
    control = plane("kimi-k2-two-nodes")
    deployment, placement, *there = (
        copy.deepcopy(control.composites[only(control, kind)])
        for kind in ("ModelDeployment", "ModelPlacement", "ClusterModel", "InferenceEnvironment")
    )
    mapping(deployment, "metadata")["uid"] = ME
    mapping(deployment, "spec").update(
        {"environments": environments, "environmentSelector": {"matchLabels": {"region": "east"}}}
    )
    environment = there[1]
    mapping(environment, "metadata.labels")["region"] = "east"
    if is_tainted:
        mapping(environment, "spec")["taints"] = [{"key": "repair", "effect": "NoExecute"}]
    kept: dict[str, JSON] = {"labels": mapping(placement, "metadata.labels") if has_label else {}}
    orphan = owned(placement, by=ME, served=not has_label, created="2026-01-01T00:00:05Z", **kept)
    deployment["status"] = {"placements": [{"environment": "h200-east", "name": text(placement, "metadata.name")}]}
    calls: list[Call] = []

    def compose_counted(call: Call) -> Outcome:
        calls.append(call)
        return compose(call)

    monkeypatch.setattr("tests.support.plane.compose", compose_counted)
    outcome = composed(deployment, there, orphan)
    assert "placement-h200-east" in outcome.composed
    # The model and its placements; their environments and the selected ones; all environments; and one that asks for
    # no more.
    assert len(calls) == 4


@pytest.mark.parametrize("there", [[], ["ClusterModel"]], ids=["model-gone", "model-there"])
@pytest.mark.parametrize("labels", [True, False], ids=["labelled", "label-gone"])
def test_adopts_orphan_without_label_or_model(there: list[str], *, labels: bool) -> None:
    """Histories, seed 1409: a tenant removed both, and its deployment no longer found the serving placement."""
    deployment, placement, fetchable = at_rest()
    deployment["status"] = {"placements": [{"environment": "h200-east", "name": text(placement, "metadata.name")}]}
    kept: dict[str, JSON] = {"labels": mapping(placement, "metadata.labels") if labels else {}}
    orphan = owned(placement, by=ME, served=True, created="2026-01-01T00:00:05Z", **kept)
    others = [item for item in fetchable if item["kind"] in {"InferenceEnvironment", *there}]
    outcome = composed(deployment, others, orphan)
    found = outcome.composed["placement-h200-east"].manifest
    assert text(found, "metadata.name") == text(placement, "metadata.name")
    assert text(found, "metadata.resourceVersion") == "7", "as it was seen"
    observed = composed(deployment, others, orphan, observed={"placement-h200-east": orphan})
    asked = {wanted.name for wanted in observed.requirements.values() if wanted.kind == "ModelPlacement"}
    assert asked == {None}, "an observed placement is not required by its name"


def test_bounds_placements_required_by_name() -> None:
    """Otherwise, a user with write access to the status could make Crossplane fetch any number of them."""
    deployment, _, there = at_rest()
    deployment["status"] = {"placements": [{"name": f"p-{number}"} for number in range(5000)]}
    asked = composed(deployment, there).requirements.values()
    assert sum(wanted.kind == "ModelPlacement" and wanted.name is not None for wanted in asked) == 100


FOREIGN = "another-namespace"


def test_ignores_forged_owner_in_other_namespace() -> None:
    """Users can forge the uid of an owner, but Crossplane composes only in the namespace of the composite."""
    deployment, placement, there = at_rest()
    forged = owned(placement, by=ME, served=True, created="2026-01-01T00:00:01Z", namespace=FOREIGN)
    outcome = composed(deployment, there, forged)
    assert {text(item.manifest, "metadata.namespace") for item in outcome.composed.values()} <= {
        text(deployment, "metadata.namespace")
    }


def test_orphan_does_not_take_name_of_observed_placement() -> None:
    deployment, placement, there = at_rest()
    seen = owned(placement, by=ME, served=True, created="2026-01-01T00:00:05Z", uid="b")
    lost = owned(placement, by=ME, served=False, created="2026-01-01T00:00:01Z", uid="a", name="lost")
    outcome = composed(deployment, there, seen, lost, observed={"placement-h200-east": seen})
    names = {key: text(item.manifest, "metadata.name") for key, item in outcome.composed.items()}
    assert names["placement-h200-east"] == text(placement, "metadata.name")
    assert "lost" in names.values()


@pytest.mark.parametrize("turn", [1, -1])
def test_orphan_with_lowest_uid_keeps_the_name(turn: int) -> None:
    deployment, placement, there = at_rest()
    both = [
        owned(placement, by=ME, served=False, created="2026-01-01T00:00:05Z", uid=uid, name=f"lost-{uid}")
        for uid in ("a", "b")
    ]
    outcome = composed(deployment, there, *both[::turn])
    names = {key: text(manifest, "metadata.name") for key, manifest in composed_placements(outcome).items()}
    assert names == {"placement-h200-east": "lost-a", "placement-lost-b": "lost-b"}
