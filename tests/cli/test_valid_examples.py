"""`validate` finds nothing wrong with the examples, alone or together, and says if it checked nothing."""

import copy
from pathlib import Path

import pytest

from function.cli.store import Store
from function.cli.validation import Item, check_items
from function.kube.manifests import listing, mapping
from tests.cli.conftest import example, find_manifest
from tests.cli.process import EXAMPLES, output_of, run, write


@pytest.mark.parametrize("story", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
def test_every_example_is_valid(story: str) -> None:
    found = [Item(manifest, story) for manifest in example(story)]
    assert [fault for fault in check_items(found, Store(), "default") if fault.level == "error"] == []


def test_all_examples_are_valid_together() -> None:
    assert output_of("validate", str(EXAMPLES), "--quiet") == ""


def test_says_that_nothing_was_checked(tmp_path: Path) -> None:
    done = run("validate", write(tmp_path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}))
    assert (done.returncode, done.stdout) == (0, "0 objects valid\n")
    assert done.stderr == "warning: no object of modelplane.ai in what was given: 1 other object passed over\n"


def test_proposes_several_nodes_where_no_node_has_enough_gpus(tmp_path: Path) -> None:
    """The nodes of the example have 4 GPUs."""
    manifests = copy.deepcopy(example("gemma-one-gpu"))
    (profile,) = listing(find_manifest(manifests, "ClusterModel"), "spec.serving")
    topology = mapping(profile, "replicaTopology")
    topology["gpusPerNode"] = 12
    field = "spec.serving[one-gpu].replicaTopology.gpusPerNode"
    want = f"{field}: no pool has nodes with 12 GPUs; nodes: 3 and gpusPerNode: 4 have 12 GPUs"
    assert want in output_of("validate", write(tmp_path, *manifests))
    topology["gpusPerNode"] = 4
    assert field not in output_of("validate", write(tmp_path, *manifests))
