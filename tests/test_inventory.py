"""The fake nodes of the stack have room for every example at once, as scenario 3 runs them."""

import json
from collections import defaultdict
from dataclasses import dataclass

from function.kube.manifests import JSON, listing, mapping, text
from tests.cli.conftest import example
from tests.cli.process import output_of
from tests.support.plane import APPLIED
from tools.stack import inventory

Labels = frozenset[tuple[str, JSON]]


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """The nodes with some labels."""

    number: int
    gpus: int  # of all of them

    def have_room(self, pods: list[int]) -> bool:
        """Tells whether pods with these GPUs run, wherever kube-scheduler puts them: by default it spreads them."""
        return sum(pods) <= self.gpus and (len(pods) <= self.number or len(set(pods)) == 1)


def test_every_example_has_gpus_of_its_own() -> None:
    pods: defaultdict[Labels, list[int]] = defaultdict(list)
    for story in APPLIED:
        for labels, gpus in _pods_of(story):
            pods[labels].append(gpus)
    assert not {labels: gpus for labels, gpus in pods.items() if not _nodes_with(labels).have_room(gpus)}


def _pods_of(story: str) -> list[tuple[Labels, int]]:
    """Returns the labels of its pool and the GPUs of every pod that an example runs."""
    pools = {
        (text(manifest, "metadata.name"), text(pool, "name")): frozenset(mapping(pool, "labels").items())
        for manifest in example(story)
        if manifest["kind"] == "InferenceEnvironment"
        for pool in (*listing(manifest, "spec.nodePools"), *listing(manifest, "spec.cluster.gke.nodePools"))
    }
    return [
        (pools[each["environment"], each["pool"]], each["topology"]["gpusPerNode"])
        for plan in json.loads(output_of("plan", "-A", "-f", f"examples/{story}", "-o", "json"))
        for each in plan["placements"]
        for _ in range(each["topology"]["nodes"] * each["replicas"])
    ]


def _nodes_with(labels: Labels) -> Nodes:
    found = [node for node in inventory.nodes() if labels <= set(mapping(node, "metadata.labels").items())]
    sizes = [str(mapping(node, "status.allocatable").get("nvidia.com/gpu", "0")) for node in found]
    return Nodes(number=len(found), gpus=sum(map(int, sizes)))
