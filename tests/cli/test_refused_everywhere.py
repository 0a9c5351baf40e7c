"""`validate` warns of a deployment that every known environment with its GPUs refuses, as `plan` does."""

import copy
import json
from pathlib import Path

import pytest

from function.cli.store import Store
from function.cli.validation import Item, check_items
from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import example, find_manifest
from tests.cli.process import output_of, run, write
from tests.cli.test_validate import EXISTING, LABELLED, POOL, deployment, manifest, pools, sized

ACCOUNT: Manifest = {"download": {"serviceAccountName": "reader"}}
LARGE: Manifest = {**LABELLED, "capabilities": {"memoryPerGpu": "80Gi"}}
EMPTY_DIR = "spec.modelCache: is EmptyDir: every pod start downloads 30Gi again"
ACCOUNT_REFUSED = (
    "spec.modelRef: InferenceEnvironment east: spec.storage.download.serviceAccountName: reader is not supported with "
    "EmptyDir: the engine's pod downloads, and engines do not run as this service account; set modelCache.type: PVC"
)
MODEL = sized(resources={"disk": "30Gi"})


def find_warnings(*given: Manifest) -> list[str]:
    return [f"{fault.level}: {fault.problem}" for fault in check_items([Item(m) for m in given], Store(), "default")]


def west(*each: Manifest, **spec: JSON) -> Manifest:
    return {**pools(*each, **spec), "metadata": {"name": "west"}}


def test_warns_of_a_service_account_that_engines_do_not_use() -> None:
    refused = [f"warning: {EMPTY_DIR}", f"warning: {ACCOUNT_REFUSED}"]
    assert find_warnings(MODEL, pools(LARGE, storage=ACCOUNT), deployment()) == refused


@pytest.mark.parametrize(
    ("other", "is_refused"),
    [
        (west(LARGE), False),
        (west(LARGE, storage=ACCOUNT), True),
        (west({**LABELLED, "capabilities": {"memoryPerGpu": "16Gi"}}), True),
        (west(), True),
    ],
    ids=["accepts it", "refuses it too", "has too small GPUs", "has no pools"],
)
def test_another_environment_may_accept_it(*, other: Manifest, is_refused: bool) -> None:
    has_pools = bool(mapping(other, "spec").get("nodePools"))
    wanted = [] if has_pools else ["warning: spec.nodePools: no pool has GPUs; nothing can be placed here"]
    wanted += [f"warning: {EMPTY_DIR}", *([f"warning: {ACCOUNT_REFUSED}"] if is_refused else [])]
    assert find_warnings(MODEL, pools(LARGE, storage=ACCOUNT), other, deployment()) == wanted


def test_does_not_warn_of_what_is_an_error() -> None:
    """It is the deployment that must be corrected."""
    unfilled = (
        "error: spec.modelCache.preload: false needs a claim; with EmptyDir, each pod downloads the weights; "
        "set modelCache.type: PVC"
    )
    refused = deployment(modelCache={"type": "EmptyDir", "preload": False})
    assert find_warnings(MODEL, pools(LARGE), refused) == [unfilled, f"warning: {EMPTY_DIR}"]


def test_warns_of_a_variable_that_the_preset_of_the_network_sets(tmp_path: Path) -> None:
    """What `validate` prints as a warning `plan` refuses."""
    manifests = copy.deepcopy(example("kimi-k2-two-nodes"))
    (profile,) = listing(find_manifest(manifests, "ClusterModel"), "spec.serving")
    mapping(profile, "engine")["env"] = [{"name": "NCCL_SOCKET_IFNAME", "value": "eth0"}]
    file = write(tmp_path, *manifests)
    fault = (
        "on pool h200 spec.serving[h200-two-nodes].engine.env[0]: NCCL_SOCKET_IFNAME must be left out, "
        "preset network-operator-shared of pool h200 sets it"
    )
    done = run("validate", file)
    line = 1 + Path(file).read_text().partition("  modelRef:")[0].count("\n")
    warning = (
        f"warning: {file}:{line}: ModelDeployment assistants/kimi-k2: spec.modelRef: InferenceEnvironment h200-east"
    )
    assert (done.returncode, done.stdout) == (0, f"{warning}: {fault}\n\n3 objects valid, 1 warning\n")
    planned = run("plan", "-f", file, "-o", "json")
    (plan,) = json.loads(planned.stdout)
    counts = "0/1 environments can run kimi-k2-instruct: 1 has no valid profile."
    want = f"{counts}\nh200-east: profile h200-two-nodes: {fault}"
    assert (planned.returncode, plan["reason"], plan["message"]) == (1, "InvalidProfile", want)


@pytest.mark.parametrize(
    ("pools", "warning"),
    [
        (None, "no pool has GPUs; nothing can be placed here"),
        ([{**POOL, "acceleratorCount": 0, "maxNodeCount": 1}], "no pool has GPUs; nothing can be placed here"),
        ([{**POOL, "acceleratorCount": 8}], "pool h100 has 0 nodes; set nodeCount or maxNodeCount"),
    ],
    ids=["none", "no-gpus", "no-nodes"],
)
def test_warns_of_an_environment_without_gpus(pools: JSON, warning: str, tmp_path: Path) -> None:
    made = manifest("InferenceEnvironment", "east", {**EXISTING, **({"nodePools": pools} if pools else {})})
    assert f"InferenceEnvironment east: spec.nodePools: {warning}" in output_of("validate", write(tmp_path, made))
