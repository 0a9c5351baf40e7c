"""`plan` and `why` where many environments refuse to grow a deployment, since their claims serve one pod."""

import copy
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, get, mapping
from tests.cli.conftest import Live, controlled, example, find_manifest
from tests.cli.process import refused_output_of, run, write

ENVIRONMENTS = 6  # more than the five that a condition names


@pytest.fixture(scope="module")
def grown() -> list[Manifest]:
    """A deployment that runs on six environments with ReadWriteOnce claims and now wants two replicas on each."""
    manifests = copy.deepcopy(example("gemma-one-gpu"))
    environment = find_manifest(manifests, "InferenceEnvironment")
    deployment = find_manifest(manifests, "ModelDeployment")
    mapping(environment, "spec")["storage"] = {"storageClassName": "disks", "accessMode": "ReadWriteOnce"}
    many = [copy.deepcopy(environment) for _ in range(ENVIRONMENTS)]
    for number, each in enumerate(many):
        mapping(each, "metadata")["name"] = f"e{number}"
    spec = mapping(deployment, "spec")
    spec.update({"environments": ENVIRONMENTS, "modelCache": {"type": "PVC"}, "scaling": {"fixed": {"replicas": 1}}})
    control = controlled([*(m for m in manifests if m is not environment), *many])
    control.apply([{**deployment, "spec": {**spec, "scaling": {"fixed": {"replicas": 2}}}}])
    control.settle()
    return copy.deepcopy(list(control.store.values()))


def from_files(objects: list[Manifest], folder: Path) -> list[str]:
    """Return the options that read the same objects from a file, where environments publish nothing."""
    written = copy.deepcopy([m for m in objects if str(m["apiVersion"]).startswith("modelplane.ai/")])
    for each in written:
        mapping(each, "metadata").pop("uid", None)
    return ["-f", write(folder, *written)]


def test_why_groups_the_environments_that_refuse_from_files(grown: list[Manifest], tmp_path: Path) -> None:
    done = run("why", *from_files(grown, tmp_path))
    assert (done.returncode, done.stderr.startswith("error")) == (1, False), done.stderr
    assert "6 environments: " in done.stdout
    assert "e0, e1, e2, e3 and 2 more" in done.stdout


def test_why_prints_what_the_controller_wrote(grown: list[Manifest], live: Live) -> None:
    deployment = find_manifest(grown, "ModelDeployment")
    unplaced = get(deployment, "status.unplaced")
    assert isinstance(unplaced, list)
    assert len(unplaced) == ENVIRONMENTS
    shown = refused_output_of("why", "gemma", "--all", *live(*grown, namespace="chat"))
    for row in unplaced:
        assert f"{get(row, 'environment')}: {get(row, 'reason')}" in shown
        assert str(get(row, "message")) in " ".join(shown.split())
