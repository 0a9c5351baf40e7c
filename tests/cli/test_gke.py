"""`source: GKE` names a cluster that exists already: `validate` says so, and where its kubeconfig must be."""

from pathlib import Path

from function.kube.manifests import Manifest
from tests.cli.process import run, write


def _validate(folder: Path, gke: Manifest) -> str:
    environment: Manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceEnvironment",
        "metadata": {"name": "us"},
        "spec": {"cluster": {"source": "GKE", "gke": {"project": "p", "region": "r", **gke}}},
    }
    done = run("validate", write(folder, environment))
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_warns_that_the_cluster_must_exist_and_names_its_secret(tmp_path: Path) -> None:
    warned = _validate(tmp_path, {})
    assert (
        "InferenceEnvironment us: spec.cluster.gke: no cluster is created: the kubeconfig of an existing cluster "
        "must be in Secret modelplane-system/us-kubeconfig; name it in secretRef\n"
    ) in warned


def test_warns_that_there_are_no_pools(tmp_path: Path) -> None:
    assert "spec.nodePools: no pool has GPUs; nothing can be placed here\n" in _validate(tmp_path, {})


def test_warns_no_more_once_the_secret_is_named(tmp_path: Path) -> None:
    assert "spec.cluster.gke" not in _validate(tmp_path, {"secretRef": {"name": "us-kubeconfig"}})
