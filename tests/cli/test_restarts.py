"""`diff` and `plan` name the services that restart: an edit of a pool moves nothing, and its pods must see it."""

import copy
import json
from pathlib import Path

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import Live, example
from tests.cli.process import KIMI, run, said, write

SEEN = "its pods must see something else"


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


@pytest.mark.parametrize(("field", "value"), EDITS, ids=[field for field, _ in EDITS])
def test_an_edit_of_a_pool_names_the_services_that_restart(field: str, value: JSON, tmp_path: Path) -> None:
    others = [m for m in example("kimi-k2-two-nodes") if m["kind"] != "InferenceEnvironment"]
    after = write(tmp_path, *others, edited(field, value))
    done = run("diff", KIMI, after)
    assert done.returncode == 1
    first, second, *rest = done.stdout.splitlines()
    assert first == "~ ModelDeployment assistants/kimi-k2"
    assert second.startswith("    restarts kimi-k2-")
    assert second.endswith(f" on h200-east: {SEEN}")
    assert rest == ["", "1 service to restart"], "no decision changes"
    (change,) = json.loads(run("diff", KIMI, after, "-o", "json").stdout)
    assert (len(change["restarts"]), change["before"] == change["after"]) == (1, True)


def test_what_no_pod_sees_restarts_nothing(tmp_path: Path) -> None:
    manifests = copy.deepcopy(example("kimi-k2-two-nodes"))
    for manifest in manifests:
        if manifest["kind"] == "InferenceEnvironment":
            mapping(manifest, "spec.storage")["readBandwidth"] = 2
            (pool,) = listing(manifest, "spec.nodePools")
            pool["maxNodeCount"] = 9
    assert said("diff", KIMI, write(tmp_path, *manifests)) == "nothing changes\n"


def test_against_the_control_plane(live: Live, tmp_path: Path) -> None:
    file = write(tmp_path, edited(*EDITS[0]))
    options = live()
    shown = said("plan", "-f", file, "--live", "--diff", *options)
    (line,) = [line for line in shown.splitlines() if line.startswith("~")]
    assert line.startswith("~ LLMInferenceService kimi-k2-")
    assert line.endswith(f" on h200-east restarts: {SEEN}")
    service = line.split()[2]
    done = run("diff", file, "--live", *options)
    assert f"restarts {service} on h200-east: {SEEN}" in done.stdout
    tried = said("plan", "--what-if", file, *options)
    assert f"restarts {service} on h200-east: {SEEN}" in tried
