"""The fake nodes of the stack have room for every example at once, as scenario 3 runs them."""

import json
from collections import Counter

from function.kube.manifests import JSON, Manifest, listing, mapping, text
from tests.cli.conftest import example
from tests.cli.process import EXAMPLES, output_of
from tools.stack import inventory

Labels = frozenset[tuple[str, JSON]]


def test_every_example_has_gpus_of_its_own() -> None:
    wanted: Counter[Labels] = Counter()
    for story in sorted({path.parent.name for path in EXAMPLES.glob("*/*.yaml")}):
        wanted += _gpus_by_labels(story)
    short = {labels: gpus for labels, gpus in wanted.items() if gpus > _gpus_of_nodes(labels)}
    assert not short


def _gpus_by_labels(story: str) -> Counter[Labels]:
    """Returns the GPUs that an example takes, by the labels of their pools."""
    pools = {
        (text(manifest, "metadata.name"), text(pool, "name")): frozenset(mapping(pool, "labels").items())
        for manifest in example(story)
        if manifest["kind"] == "InferenceEnvironment"
        for pool in (*listing(manifest, "spec.nodePools"), *listing(manifest, "spec.cluster.gke.nodePools"))
    }
    found: Counter[Labels] = Counter()
    for plan in json.loads(output_of("plan", "-A", "-f", f"examples/{story}", "-o", "json")):
        for each in plan["placements"]:
            shape = each["topology"]
            gpus = shape["nodes"] * shape["gpusPerNode"] * each["replicas"]
            found[pools[each["environment"], each["pool"]]] += gpus
    return found


def _gpus_of_nodes(labels: Labels) -> int:
    return sum(_gpus(node) for node in inventory.nodes() if labels <= set(mapping(node, "metadata.labels").items()))


def _gpus(node: Manifest) -> int:
    found = mapping(node, "status.allocatable").get("nvidia.com/gpu", "0")
    return int(str(found))
