"""What a namespace may have taken back: its guarantee, less what comes before, whoever wrote that."""

from types import SimpleNamespace
from typing import Any, cast

from bench.histories.lending import LendingAuditor
from bench.simulator.objects import Version
from function.cli.store import Ref
from function.kube.manifests import Manifest, integer

NODES, GPUS = 2, 8  # of each replica
LENDER: Manifest = {"metadata": {"ownerReferences": [{"uid": "lends", "controller": True}]}}


def _version(kind: str, namespace: str, name: str, manifest: Manifest) -> Version:
    metadata = cast("Manifest", manifest.get("metadata", {}))
    return Version(Ref(kind, namespace, name), {**manifest, "metadata": {**metadata, "uid": name}}, 1)


def _find(guaranteed: int, *placements: Version) -> list[str]:
    """Returns what is wrong while a deployment of namespace `team` waits, for which lent replicas would make room."""
    resolved: Manifest = {"type": "ModelResolved", "status": "True"}
    lent: Manifest = {**LENDER, "spec": {"guaranteedReplicas": 0, "replicas": 1}}
    objects = {
        "ModelDeployment": [_version("ModelDeployment", "team", "waits", {"status": {"conditions": [resolved]}})],
        "ModelPlacement": [_version("ModelPlacement", "others", "lender", lent), *placements],
        "InferenceEnvironment": [_version("InferenceEnvironment", "", "env", {})],
    }
    auditor: Any = SimpleNamespace(
        plane=SimpleNamespace(all=objects.__getitem__),
        limits=SimpleNamespace(guaranteed_gpus=guaranteed, invalid=False),
        shape=lambda version: (NODES, GPUS, integer(version.manifest, "spec.replicas", 1)),
        find_room=lambda *_, **__: True,
    )
    said: list[str] = []
    LendingAuditor(auditor, said.append).at_rest()
    return said


def test_a_deployment_waits_in_vain_while_its_guarantee_reaches_for_what_others_lend() -> None:
    assert len(_find(NODES * GPUS)) == 1
    assert _find(NODES * GPUS - 1) == []


def test_what_a_user_writes_uses_up_the_guarantee_and_exceeds_none() -> None:
    """History 530696: the placement came before the deployment, and nothing is written on it."""
    by_hand = _version("ModelPlacement", "team", "by-hand", {"spec": {"replicas": 2}})
    assert _find(2 * NODES * GPUS, by_hand) == []
    assert _find(NODES * GPUS, by_hand) == []
    assert len(_find(3 * NODES * GPUS, by_hand)) == 1
