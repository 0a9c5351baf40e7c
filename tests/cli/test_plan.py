"""`plan`: the candidates, the decision, and what would change."""

import copy
import json
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from function.kube.manifests import Manifest, mapping
from tests.cli.conftest import Live, example, find_manifest
from tests.cli.process import ELSEWHERE, KIMI, ROOT, cells, output_of, run, start, write

SENTENCE = "multi-node model requires shared storage on the inference environment."


def kimi(kind: str) -> Manifest:
    found = find_manifest(example("kimi-k2-two-nodes"), kind)
    return copy.deepcopy(found)


def test_prints_a_row_for_each_candidate_and_the_decision() -> None:
    shown = output_of("plan", "-f", KIMI, *ELSEWHERE)
    rows = {row[1]: row[:1] + row[2:] for row in cells(shown)}
    assert rows["h200-east"] == ["placed", "h200", "h200-two-nodes", "2 nodes x 8 GPUs", "1 replica", "room for 2"]
    label = "modelplane.ai/tier"
    for name in ("a100-oslo", "gke-us-central1", "h100-tokyo"):
        assert rows[name] == ["NoEnvironmentMatches", "-", "-", "-", f"{label}=production", f"no {label}"]
    assert "Placed on h200-east (profile h200-two-nodes, pool h200, 1 replica of 2 nodes x 8 GPUs)" in shown


def test_plugin_names_itself_as_users_type_it() -> None:
    done = start("plan", "--nonsense", program="kubectl-modelplane")
    assert done.stderr.endswith("See 'kubectl modelplane plan --help'\n")


def test_refusal_exits_1(tmp_path: Path) -> None:
    environment = kimi("InferenceEnvironment")
    del mapping(environment, "spec")["storage"]
    file = write(tmp_path, kimi("ClusterModel"), environment, kimi("ModelDeployment"))
    done = run("plan", "-f", file)
    assert done.returncode == 1
    assert SENTENCE in done.stdout
    assert "ModelDeployment assistants/kimi-k2: SharedStorageMissing" in done.stdout


def test_wide_lists_every_fault_of_a_candidate() -> None:
    labelled = output_of("plan", "-f", KIMI, "-f", "examples/deepseek-data-parallel/environment.yaml", "-o", "wide")
    assert labelled.splitlines()[0].split()[-1] == "WHY"


def test_strict_treats_a_missing_status_as_not_ready() -> None:
    done = run("plan", "-f", KIMI, "--strict")
    assert done.returncode == 1
    assert cells(done.stdout)[0][0] == "EnvironmentNotReady"


def test_uses_a_status_from_a_file(tmp_path: Path) -> None:
    environment = kimi("InferenceEnvironment")
    environment["status"] = {"conditions": [{"type": "Ready", "status": "False", "reason": "Creating"}]}
    done = run("plan", "-f", write(tmp_path, kimi("ClusterModel"), environment, kimi("ModelDeployment")))
    assert cells(done.stdout)[0][0] == "EnvironmentNotReady"


def test_deployments_see_placements_of_earlier_ones(tmp_path: Path) -> None:
    # Four nodes hold two replicas of two nodes each, so the third deployment waits.
    deployments = []
    for name in ("a", "b", "c"):
        deployment = kimi("ModelDeployment")
        mapping(deployment, "metadata")["name"] = name
        deployments.append(deployment)
    file = write(tmp_path, kimi("ClusterModel"), kimi("InferenceEnvironment"), *deployments)
    done = run("plan", "-f", file, "-o", "json")
    found = {plan["name"]: plan["reason"] for plan in json.loads(done.stdout)}
    assert found == {"a": "Placed", "b": "Placed", "c": "InsufficientCapacity"}
    assert done.returncode == 1


def test_json_has_the_content_of_the_table() -> None:
    (data,) = json.loads(output_of("plan", "-f", KIMI, *ELSEWHERE, "-o", "json"))
    (placement,) = data["placements"]
    assert (placement["environment"], placement["topology"]["nodes"], placement["replicas"]) == ("h200-east", 2, 1)
    assert data["candidates"][0]["verdict"] == "placed"
    assert [c["environment"] for c in data["candidates"]][1:] == ["a100-oslo", "gke-us-central1", "h100-tokyo"]


def test_name_output_can_be_piped() -> None:
    (line,) = output_of("plan", "-f", KIMI, "-o", "name").splitlines()
    assert line.startswith("modelplacement.modelplane.ai/kimi-k2-")


def test_composed_service_is_no_placement(tmp_path: Path) -> None:
    manifests = copy.deepcopy(example("gemma-one-gpu"))
    mapping(find_manifest(manifests, "ModelDeployment"), "spec")["service"] = {}
    file = write(tmp_path, *manifests)
    names = output_of("plan", "-f", file, "-o", "name").split()
    assert [name.partition("/")[0] for name in names] == ["modelplacement.modelplane.ai"]
    (planned,) = json.loads(output_of("plan", "-f", file, "-o", "json"))
    assert [placement["name"] for placement in planned["placements"]] == [name.partition("/")[2] for name in names]
    assert "+ ModelService chat/gemma\n" in output_of("plan", "-f", file, "--diff")


def test_keeps_running_placements(live: Live) -> None:
    shown = output_of("plan", "--diff", *live())
    assert cells(shown)[0][0] == "stays"
    assert "nothing changes" in shown


def test_applies_files_over_live_objects(live: Live, tmp_path: Path) -> None:
    deployment = kimi("ModelDeployment")
    mapping(deployment, "spec")["scaling"] = {"fixed": {"replicas": 2}}
    shown = output_of("plan", "-f", write(tmp_path, deployment), "--live", "--diff", *live())
    (line,) = [line for line in shown.splitlines() if line.startswith("~")]
    assert line.endswith("spec.replicas: 1 -> 2")


def test_places_live_deployment_on_environment_from_file(live: Live, tmp_path: Path) -> None:
    deployment, other = kimi("ModelDeployment"), kimi("InferenceEnvironment")
    mapping(deployment, "spec")["environments"] = 2
    mapping(other, "metadata")["name"] = "h200-west"
    options = (*live(deployment), "--diff")
    refused = run("plan", *options)
    assert (refused.returncode, "PartiallyPlaced" in refused.stdout) == (1, True)
    placed = output_of("plan", "kimi-k2", "-f", write(tmp_path, other), "--live", *options)
    (line,) = [line for line in placed.splitlines() if line.startswith("+ ModelPlacement")]
    assert "on h200-west (profile h200-two-nodes, pool h200)" in line


def test_treats_cache_from_file_as_complete() -> None:
    (data,) = json.loads(output_of("plan", "-f", "examples/model-cache", "-o", "json"))
    assert data["reason"] == "Placed"


@pytest.fixture(scope="module")
def picture() -> ET.Element:
    shown = output_of("plan", "-f", KIMI, *ELSEWHERE, "-o", "svg")
    return ET.fromstring(shown)


def test_picture_shows_the_owner_of_every_gpu(picture: ET.Element) -> None:
    squares = [r for r in picture.iter("{http://www.w3.org/2000/svg}rect") if r.get("width") == "9"]
    colours = Counter(square.get("fill") for square in squares)
    # 4 nodes of 8, 8 of 4, 4 of 8 and 8 of 4 GPUs are 128, of which 2 x 8 are taken; three squares are the legend.
    assert sum(colours.values()) == 128 + 3
    assert colours["#1f9d55"] == 16 + 1


def test_picture_has_a_title_and_all_of_its_text_for_those_who_do_not_see_it(picture: ET.Element) -> None:
    title, description, *_ = picture
    assert (title.tag.rpartition("}")[2], description.tag.rpartition("}")[2]) == ("title", "desc")
    assert (picture.get("role"), title.text) == ("img", "ModelDeployment assistants/kimi-k2: Placed")
    said = " ".join((description.text or "").split())
    assert "Placed on h200-east" in said
    assert "16 of 32 GPUs free" in said
    assert said.count("NoEnvironmentMatches") == 3


def test_picture_explains_refusals(picture: ET.Element) -> None:
    texts = [t.text or "" for t in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert sum("NoEnvironmentMatches" in text for text in texts) == 3
    assert any(text.startswith("h200-two-nodes: placed") for text in texts)


def test_picture_wraps_long_reasons() -> None:
    plan = ("plan", "kimi-k26", "-f", "examples/kimi-k26-vram", *ELSEWHERE[:2])
    (data,) = json.loads(output_of(*plan, "-o", "json"))
    root = ET.fromstring(output_of(*plan, "-o", "svg"))
    lines = [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}text")]
    reasons = [row["message"] for row in data["candidates"] if row["message"]]
    assert max(map(len, reasons)) > 120 >= max(map(len, lines)), "one is longer than a line"
    assert [reason for reason in reasons if reason not in " ".join(lines)] == []


def test_picture_has_a_dark_colour_for_every_colour() -> None:
    drawn = output_of("plan", "-f", KIMI, *ELSEWHERE, "-o", "svg")
    style, _, rest = drawn.partition("</style>")
    used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', rest))
    assert used <= set(re.findall(r'\[fill="(#[0-9a-f]{6})"\]', style))
    assert "@media (prefers-color-scheme: dark)" in style


def test_picture_draws_each_environment_once_and_is_bounded(tmp_path: Path) -> None:
    many, deployments = [], []
    for number in range(100):
        each, deployment = kimi("InferenceEnvironment"), kimi("ModelDeployment")
        mapping(each, "metadata")["name"] = f"e{number:02}"
        mapping(deployment, "metadata")["name"] = f"d{number:02}"
        if number >= 10:
            mapping(each, "metadata")["labels"] = {}
        many.append(each)
        deployments.append(deployment)
    file = write(tmp_path, kimi("ClusterModel"), *many, *deployments)
    root = ET.fromstring(run("plan", "-f", file, "-o", "svg").stdout)
    texts = [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}text")]
    # Ten environments of four nodes hold twenty replicas of two nodes; the refused ones are drawn first.
    assert sum(text.endswith(": Placed") for text in texts) == 0
    assert sum(text.endswith(": InsufficientCapacity") for text in texts) == 20
    assert "and 80 deployments more" in texts
    assert "100 environments with 3200 GPUs: 320 in use, 2880 free" in texts
    assert [text for text in texts if text[:1] == "e"] == [f"e{number:02}" for number in range(40)]
    assert "and 60 pools more" in texts
    # 2 lines for each of 20 deployments, 4 for each of 40 pools, and the totals.
    assert int(root.get("height", "")) < 20 * 2 * 18 + 40 * 120 + 200


def test_picture_gives_each_deployment_a_colour(tmp_path: Path) -> None:
    second = kimi("ModelDeployment")
    mapping(second, "metadata")["name"] = "second"
    third: Manifest = {**second, "metadata": {**mapping(second, "metadata"), "name": "third"}}
    file = write(tmp_path, kimi("ClusterModel"), kimi("InferenceEnvironment"), kimi("ModelDeployment"), second, third)
    root = ET.fromstring(run("plan", "-f", file, "-o", "svg").stdout)
    rects = [r for r in root.iter("{http://www.w3.org/2000/svg}rect") if r.get("width") == "9"]
    # 16 GPUs and a square in the list for each that is placed; grey and white are in the legend alone.
    assert sorted(Counter(rect.get("fill") for rect in rects).values()) == [1, 1, 17, 17]


def test_readme_picture_matches_its_command() -> None:
    readme = (ROOT / "README.md").read_text()
    command = readme.partition("\nmodelplane plan kimi-k26")[2].partition(" > docs/plan.svg")[0]
    shown = output_of("plan", "kimi-k26", *command.replace("\\\n", " ").split())
    assert shown == (ROOT / "docs" / "plan.svg").read_text()
