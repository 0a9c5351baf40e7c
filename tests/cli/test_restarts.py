"""`plan` names the services that an edit of a pool restarts although it decides nothing differently."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import Live, example
from tests.cli.process import said, write

SEEN = "pod template changes"


def edited(field: str, value: JSON) -> Manifest:
    """Return the example's environment with another field of its pool."""
    (found,) = (copy.deepcopy(m) for m in example("kimi-k2-two-nodes") if m["kind"] == "InferenceEnvironment")
    (pool,) = listing(found, "spec.nodePools")
    pool[field] = value
    return found


EDITS: tuple[tuple[str, JSON], ...] = (
    ("labels", {"modelplane.ai/pool": "another"}),
    ("taints", [{"key": "team", "value": "x", "effect": "NoSchedule"}]),
    ("pod", {"env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}),
    ("interNode", {"preset": "coreweave-infiniband"}),
)


def diff(file: str, options: list[str]) -> list[str]:
    """Return the changes that a plan shows for a file over the control plane."""
    (plan,) = json.loads(said("plan", "-f", file, "--live", "--diff", "-o", "json", *options))
    changes: list[str] = plan["changes"]
    return changes


@pytest.mark.parametrize(("field", "value"), EDITS, ids=[field for field, _ in EDITS])
def test_an_edit_of_a_pool_names_the_services_that_restart(field: str, value: JSON, live: Live, tmp_path: Path) -> None:
    (line,) = diff(write(tmp_path, edited(field, value)), live())
    assert line.startswith("~ LLMInferenceService kimi-k2-")
    assert line.endswith(f" on h200-east restarts: {SEEN}")


def test_what_no_pod_sees_restarts_nothing(live: Live, tmp_path: Path) -> None:
    manifests = copy.deepcopy(example("kimi-k2-two-nodes"))
    for manifest in manifests:
        if manifest["kind"] == "InferenceEnvironment":
            mapping(manifest, "spec.storage")["readBandwidth"] = 2
            (pool,) = listing(manifest, "spec.nodePools")
            pool["maxNodeCount"] = 9
    assert diff(write(tmp_path, *manifests), live()) == []


def test_a_value_that_is_set_names_the_services_that_restart(live: Live) -> None:
    shown = said("plan", "--set", "h200-east/h200.labels={modelplane.ai/pool: another}", *live())
    assert f" on h200-east: {SEEN}" in shown
    assert shown.endswith("1 service to restart\n"), "no decision changes"
