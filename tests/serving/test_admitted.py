"""A service has no more replicas than its environment has admitted, and loses none that it has."""

import copy
from dataclasses import dataclass

import pytest

from function.kube.manifests import JSON, get, text
from tests.support.remote_scene import (
    SEVERAL_NODES,
    Edit,
    Scene,
    model,
    observed,
    placement,
    put,
    remote,
    scene,
)

GROUP: dict[str, JSON] = {"pool": "h200", "nodes": 2, "gpusPerNode": 8}
LARGER = placement("topology", {"nodes": 3, "gpusPerNode": 8, "parallelism": {"tensor": 8, "pipeline": 3}})
REVISION, UNPLANNABLE = model("huggingFace.revision", "v2"), placement("modelCache", {"type": "EmptyDir"})


def admitted(replicas: int) -> Edit:
    """Let the environment publish that it has admitted the placement for so many replicas of its first shape."""

    def edit(found: Scene) -> None:
        put(found.answers["environment"], "metadata.uid", "of-the-environment")
        row: JSON = {**GROUP, "replicas": replicas, "uid": text(found.xr, "metadata.uid")}
        put(found.answers["environment"], "status.admitted", [row] if replicas else [])

    return edit


def runs(replicas: int) -> Edit:
    """Let the service have so many replicas; with none of them there is no service."""

    def edit(found: Scene) -> None:
        observed("service-", "spec.forProvider.manifest.spec.replicas", replicas)(found)
        put(found.xr, "status.service", {**GROUP, "replicas": replicas, "name": "a", "namespace": "b"})
        if not replicas:
            for key in [key for key in found.observed if key.startswith("service-")]:
                del found.observed[key]
            put(found.xr, "status.service", None)

    return edit


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    asks: int
    admits: int
    runs: int
    want: int
    edits: tuple[Edit, ...] = ()


CASES = (
    Case("all", "it is admitted for what it asks for", 3, 3, 1, 3),
    Case("some", "as many as it is admitted for, and no more", 3, 2, 1, 2),
    Case("first", "a service that is new begins with what is admitted", 3, 2, 0, 2),
    Case("spared", "what runs is not scaled down by what the environment says", 3, 1, 2, 2),
    Case("fewer", "fewer replicas need nobody's leave", 1, 3, 2, 1),
    Case("none", "what was never admitted is not started", 3, 0, 0, 0),
    Case("withdrawn", "what runs unadmitted stays as it is", 3, 0, 2, 2),
    Case("withdrawn-fewer", "and may have fewer", 1, 0, 2, 1),
    Case("bytes", "replicas do not wait for other bytes", 3, 2, 1, 2, (REVISION,)),
    Case("no-plan", "nor for what cannot be planned", 3, 2, 1, 2, (UNPLANNABLE,)),
    Case("shape", "another group is not admitted: the earlier one stays, and is what it takes", 3, 2, 2, 2, (LARGER,)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_replicas_follow_admission(case: Case) -> None:
    edits = (runs(case.runs), *case.edits, admitted(case.admits), placement("replicas", case.asks))
    outcome = scene(SEVERAL_NODES).edited(*edits).outcome()
    services = remote(outcome, "service-").values()
    assert [get(each, "spec.replicas") for each in services] == [case.want] * bool(case.want), case.reason
    takes = {key: get(outcome.status, f"service.{key}") for key in (*GROUP, "replicas")}
    assert takes == ({**GROUP, "replicas": case.want} if case.want else dict.fromkeys(takes)), case.reason


@pytest.mark.parametrize(("admits", "version"), [(3, "7"), (2, None), (1, "7")])
def test_changes_replicas_only_over_seen_version(admits: int, version: str | None) -> None:
    """Two readings of a list that is late would take turns."""
    seen = observed("service-", "metadata.resourceVersion", "7")
    found = scene(SEVERAL_NODES).edited(runs(2), seen, admitted(admits), placement("replicas", 3)).outcome()
    (service,) = (item.manifest for key, item in found.composed.items() if key.startswith("service-"))
    assert get(service, "metadata.resourceVersion") == version


@pytest.mark.parametrize("there", [0, 2], ids=["no-service", "service"])
def test_keeps_pull_secrets_while_service_waits(there: int) -> None:
    def pulled(found: Scene) -> None:
        found.observed["pull-a"] = copy.deepcopy(next(m for k, m in found.observed.items() if k.startswith("claim-")))
        put(found.observed["pull-a"], "spec.forProvider.manifest", {"kind": "Secret", "metadata": {"name": "a"}})

    waiting = scene(SEVERAL_NODES).edited(runs(there), pulled, admitted(0))
    assert waiting.composed("pull-") == {"pull-a": {"kind": "Secret", "metadata": {"name": "a"}}}
