"""A pool with a fault in a file stops every command; one on a control plane is left out of every decision, never in
silence: a later version of the function may refuse what the API server has accepted.
"""

import copy
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import Live, find_manifest
from tests.cli.process import cells, error_lines, run, write

FAULT = "spec.nodePools[1].acceleratorCount: 72 is not allowed; must be at most 64"
# On standard error of every command, beside the row of those that have rows for pools.
WARNING = f"warning: InferenceEnvironment h200-east: {FAULT}"
FORMS = ("table", "json")


@pytest.fixture
def environment(kimi: list[Manifest]) -> Manifest:
    """The environment on which Kimi K2 runs, with a second, invalid pool."""
    environment = copy.deepcopy(find_manifest(kimi, "InferenceEnvironment"))
    pools = listing(environment, "spec.nodePools")
    bad: Manifest = {**copy.deepcopy(pools[0]), "name": "gb200", "acceleratorCount": 72}
    bad["labels"] = {"example.org/pool": "gb200"}
    both: list[JSON] = [*pools, bad]
    mapping(environment, "spec")["nodePools"] = both
    return environment


@pytest.fixture
def options(live: Live, environment: Manifest) -> list[str]:
    """A control plane that holds this environment."""
    return live(environment)


def test_plan_has_a_row_for_an_invalid_pool(options: list[str]) -> None:
    done = run("plan", *options)
    assert cells(done.stdout)[-1] == ["invalid", "h200-east", "gb200", "-", "-", *FAULT.split(": ")]
    assert (done.returncode, cells(done.stdout)[0][0]) == (0, "stays"), "the others count"
    (plan,) = json.loads(run("plan", *options, "-o", "json").stdout)
    assert plan["candidates"][-1]["message"] == FAULT
    assert cells(run("plan", *options, "-o", "wide").stdout)[-1][-1] == FAULT


def test_picture_has_a_line_for_an_invalid_pool(options: list[str]) -> None:
    picture = ET.fromstring(run("plan", *options, "-o", "svg").stdout)
    texts = [t.text or "" for t in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert f"pool gb200: invalid, {FAULT}" in texts
    assert f"pool gb200: invalid, {FAULT}" in run("capacity", *options, "-o", "svg").stdout


def test_capacity_has_a_row_for_an_invalid_pool(options: list[str]) -> None:
    rows = cells(run("capacity", *options).stdout)
    assert [row[1] for row in rows] == ["h200", "invalid: gb200"]
    found = json.loads(run("capacity", *options, "-o", "json").stdout)
    assert [(pool["pool"], pool["faults"]) for pool in found] == [("h200", []), ("gb200", [FAULT])]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", ["plan", "size", "capacity"])
def test_every_command_warns_of_an_invalid_pool(options: list[str], command: str, form: str) -> None:
    done = run(command, *options, *(["--live"] if command == "size" else []), "-o", form)
    assert (done.returncode, error_lines(done)) == (0, [WARNING])


@pytest.mark.parametrize("command", ["plan", "why", "render", "tree", "size", "capacity", "validate"])
def test_every_command_stops_at_an_invalid_pool_of_a_file(environment: Manifest, command: str, tmp_path: Path) -> None:
    file = write(tmp_path, environment)
    done = run(command, "-f", file)
    # The second of two pools: its fields are found by the number in the path.
    line = Path(file).read_text().partition("acceleratorCount: 72")[0].count("\n") + 1
    assert (done.returncode, (done.stderr or done.stdout).splitlines()[0]) == (
        1,
        f"error: {file}:{line}: InferenceEnvironment h200-east: {FAULT}",
    )


def test_lists_every_invalid_pool_of_an_environment(live: Live, environment: Manifest) -> None:
    pool, _ = listing(environment, "spec.nodePools")
    nodes = {**pool, "maxNodeCount": -1, "acceleratorCount": 72}
    mapping(environment, "spec")["nodePools"] = ["h200", nodes]
    options = live(environment)
    faults = [
        ('spec.nodePools[0]: "h200" is not allowed; must be a block of fields, such as {"name": "h200"}',),
        (FAULT, "spec.nodePools[1].maxNodeCount: -1 is not allowed; must be at least 0"),
    ]
    done = run("capacity", *options, "-o", "json")
    assert [tuple(pool["faults"]) for pool in json.loads(done.stdout)] == faults
    assert error_lines(done) == [
        f"warning: InferenceEnvironment h200-east: {fault}" for faults_of_one in faults for fault in faults_of_one
    ]
    (plan,) = json.loads(run("plan", *options, "-o", "json").stdout)
    assert [c["message"] for c in plan["candidates"] if c["verdict"] == "invalid"] == ["; ".join(f) for f in faults]
