"""What the command line says of clusters that an environment creates."""

from pathlib import Path

import yaml

from tests.cli.process import EXAMPLES, output_of, run

EXAMPLE = EXAMPLES / "gke-cluster"


def _with_pool(folder: Path, **pool: object) -> Path:
    """Returns a copy of the example whose pool has other fields."""
    for path in EXAMPLE.glob("*.yaml"):
        documents = list(yaml.safe_load_all(path.read_text()))
        for manifest in documents:
            if manifest["kind"] == "InferenceEnvironment":
                manifest["spec"]["nodePools"][0].update(pool)
        (folder / path.name).write_text(yaml.safe_dump_all(documents))
    return folder


def test_plan_says_what_google_cloud_creates(tmp_path: Path) -> None:
    assert "note: GKE creates pool gke-iowa/l4: 1 node of g2-standard-12\n" in output_of("plan", "-f", str(EXAMPLE))
    price = {"perGpuHour": "0.70", "currency": "EUR"}
    folder = _with_pool(tmp_path, nodeCount=0, maxNodeCount=4, price=price)
    planned = " ".join(output_of("plan", "-f", str(folder)).split())
    assert "GKE creates pool gke-iowa/l4: 0 to 4 nodes of g2-standard-12; 0.70 EUR per hour for each node" in planned


def test_plan_is_silent_about_a_cluster_that_is_there(tmp_path: Path) -> None:
    folder = _with_pool(tmp_path)
    file = folder / "environment.yaml"
    manifest = yaml.safe_load(file.read_text())
    ready = [{"type": type_, "status": "True", "reason": "R"} for type_ in ("Ready", "ClusterReady")]
    file.write_text(yaml.safe_dump({**manifest, "status": {"conditions": ready}}))
    assert "GKE creates" not in output_of("plan", "-f", str(folder))


def test_render_writes_what_the_provider_gets() -> None:
    written = list(yaml.safe_load_all(output_of("render", "-f", str(EXAMPLE), "-q", "--level", "control-plane")))
    pools = {m["metadata"]["annotations"]["crossplane.io/external-name"] for m in written if m["kind"] == "NodePool"}
    assert pools == {"l4", "system"}
    assert [m["spec"]["managementPolicies"] for m in written if m["kind"] == "Cluster"] == [
        ["Observe", "Create", "Update", "LateInitialize"]
    ]


def test_validate_names_what_contradicts_the_machine_type(tmp_path: Path) -> None:
    done = run("validate", "-f", str(_with_pool(tmp_path, acceleratorCount=2)))
    assert done.returncode == 1
    assert "acceleratorCount: 2 is not allowed; must be 1, as a node of g2-standard-12 has" in done.stdout + done.stderr
