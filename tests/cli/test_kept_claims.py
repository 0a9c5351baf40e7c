"""`cache`: retained claims whose deployment is gone are listed, and `clear` says how to delete them."""

import copy
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, mapping
from tests.cli.api import ApiServer
from tests.cli.process import cells, error_lines, output_of, run

CLAIM, KEY = "weights-0123456789abcdef-1a2b3c4d", "0123456789abcdef"
ADVICE = (
    f"To delete it, run 'kubectl delete pvc {CLAIM} -n team' on the cluster of us-east, "
    f"and delete its Jobs with -l modelplane.ai/cache-key={KEY}"
)


def kept(*, observed: bool = True) -> Manifest:
    """Returns the Object with which an environment observes a kept claim."""
    claim: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": "team"},
    }
    remote = copy.deepcopy(claim)
    labels: Manifest = {"modelplane.ai/model": "Qwen_Qwen3-8B", "modelplane.ai/cache-key": KEY}
    mapping(remote, "metadata").update({"labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"})
    remote["status"] = {"phase": "Bound", "capacity": {"storage": "20Gi"}}
    gone: Manifest = {"type": "Synced", "status": "False", "message": "external resource does not exist"}
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "metadata": {
            "name": f"us-east-kept-{CLAIM}",
            "namespace": "modelplane-system",
            "labels": {"modelplane.ai/owner": "us-east", "modelplane.ai/kept-for": "team"},
        },
        "spec": {"forProvider": {"manifest": claim}, "managementPolicies": ["Observe"]},
        "status": {"atProvider": {"manifest": remote}} if observed else {"conditions": [gone]},
    }


def using() -> Manifest:
    """Returns a placement whose weights are on the claim."""
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelPlacement",
        "metadata": {"name": "qwen-1", "namespace": "team"},
        "spec": {
            "modelRef": {"name": "qwen3-8b"},
            "deploymentRef": {"name": "qwen"},
            "inferenceEnvironmentRef": {"name": "us-east"},
        },
        "status": {"storage": {"type": "RetainedPVC", "claimName": CLAIM, "path": f"models/{KEY}"}},
    }


@pytest.fixture
def options(server: ApiServer, tmp_path: Path) -> list[str]:
    """A control plane on which no deployment is left."""
    server.put([kept()])
    return ["--kubeconfig", server.kubeconfig(tmp_path, "team")]


def test_lists_a_claim_without_a_deployment(options: list[str]) -> None:
    (row,) = cells(output_of("cache", "list", *options))
    assert row[:6] == ["team", f"claim {CLAIM}", "Qwen_Qwen3-8B", "us-east", "Kept", "20Gi"]
    assert f"No deployment uses it. {ADVICE}" in output_of("cache", "list", "-o", "wide", *options)


def test_selects_claims_by_their_labels(options: list[str]) -> None:
    assert CLAIM in output_of("cache", "list", "-l", f"modelplane.ai/cache-key={KEY}", *options)
    assert CLAIM not in output_of("cache", "list", "-l", "modelplane.ai/model=other", *options)


def test_lists_only_the_claims_of_the_namespace(options: list[str]) -> None:
    assert CLAIM not in output_of("cache", "list", "-n", "other", *options)
    assert CLAIM in output_of("cache", "list", "-A", *options)


def test_lists_a_claim_in_use_once(server: ApiServer, options: list[str]) -> None:
    server.put([using()])
    (row,) = cells(output_of("cache", "list", *options))
    assert row[6] == "qwen"
    assert "Kept" not in output_of("cache", "list", "-l", "modelplane.ai/model=Qwen_Qwen3-8B", *options)


def test_lists_no_claim_that_is_gone(server: ApiServer, options: list[str]) -> None:
    server.put([kept(observed=False)])
    assert CLAIM not in output_of("cache", "list", *options)


def test_lists_none_to_those_who_may_not_read_objects(server: ApiServer, options: list[str]) -> None:
    server.forbidden = frozenset({"objects"})
    done = run("cache", "list", *options)
    assert (done.returncode, CLAIM in done.stdout, done.stderr) == (0, False, "")


def test_clear_says_how_to_delete_a_kept_claim(options: list[str]) -> None:
    done = run("cache", "clear", CLAIM, *options)
    assert done.returncode == 1
    (line,) = error_lines(done)
    assert line.endswith(f"claim {CLAIM} on us-east keeps weights for no deployment and is no ModelCache's. {ADVICE}")


def test_clear_all_names_kept_claims(options: list[str]) -> None:
    done = run("cache", "clear", "--all", *options)
    assert (done.returncode, f"and stays. {ADVICE}" in done.stdout) == (0, True)
