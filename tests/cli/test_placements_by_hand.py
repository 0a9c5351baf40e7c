"""`validate` reports placements that a user wrote and that the controller would never start."""

from pathlib import Path

import pytest

from function.cli.store import Store
from function.cli.validation import Item, check_items
from function.kube.manifests import JSON, Manifest
from tests.cli.process import output_of, run
from tests.cli.test_validate import EXISTING, GOOD, PLACED, POOL, manifest

EIGHT: Manifest = {**POOL, "acceleratorCount": 8, "nodeCount": 1, "maxNodeCount": 1}
EAST = manifest("InferenceEnvironment", "east", {**EXISTING, "nodePools": [EIGHT]})
MISSING = (
    "warning: metadata.labels: must include modelplane.ai/environment: east; without them the environment cannot see "
    "this placement and nothing is started"
)
HOLDS = "required, more than the empty pool h100 of east holds"


def find_faults(labels: Manifest, **spec: JSON) -> list[str]:
    """Return the faults of a placement on a pool with one node of eight GPUs."""
    placement = manifest("ModelPlacement", "here", {**PLACED, "pool": "h100", **spec}, "team")
    metadata: Manifest = {"name": "here", "namespace": "team", "labels": labels}
    items = [Item(each) for each in (GOOD, EAST, {**placement, "metadata": metadata})]
    return [f"{fault.level}: {fault.problem}" for fault in check_items(items, Store(), "")]


LABELS: Manifest = {"modelplane.ai/environment": "east"}


def test_placement_that_can_start_has_no_fault() -> None:
    assert find_faults(LABELS) == []


def test_profile_that_the_model_does_not_have_is_an_error() -> None:
    want = "error: spec.profile: ClusterModel model has no valid profile onee; did you mean one?"
    assert find_faults(LABELS, profile="onee") == [want]


@pytest.mark.parametrize("labels", [{}, {"modelplane.ai/environment": "west"}])
def test_warns_of_a_missing_label(labels: Manifest) -> None:
    assert find_faults(labels) == [MISSING]


@pytest.mark.parametrize(
    ("gpus", "replicas", "size"), [(16, 1, "1 replica of 1 node x 16 GPUs"), (8, 5, "5 replicas of 1 node x 8 GPUs")]
)
def test_warns_of_more_than_the_pool_holds(gpus: int, replicas: int, size: str) -> None:
    topology: Manifest = {"nodes": 1, "gpusPerNode": gpus}
    want = [f"warning: spec.pool: {size} {HOLDS}"]
    assert find_faults(LABELS, topology=topology, replicas=replicas) == want


def test_placement_may_wait_for_the_download_of_a_cache(tmp_path: Path) -> None:
    """`plan` and `render` assume that a ModelCache in files has the weights."""
    rendered = str(tmp_path / "rendered")
    output_of("render", "-f", "examples/model-cache", "--output-dir", rendered)
    done = run("validate", rendered, "examples/model-cache")
    assert (done.returncode, done.stdout, done.stderr) == (0, "23 objects valid\n", "")
