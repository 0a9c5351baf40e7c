"""A pool with a fault is left out of every decision, and no command leaves it out in silence."""

import copy
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import example, find_manifest
from tests.cli.process import cells, error_lines, run, write

FAULT = "spec.nodePools[1].acceleratorCount: 72 is not allowed; must be at most 64"
# On standard error of every command whose answer has no column for it.
WARNING = f"warning: pool gb200 of InferenceEnvironment h200-east is left out: {FAULT}"
FORMS = ("table", "json")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The example of Kimi K2, whose environment has a second, invalid pool."""
    manifests = example("kimi-k2-two-nodes")
    environment = find_manifest(manifests, "InferenceEnvironment")
    pools = listing(environment, "spec.nodePools")
    bad: Manifest = {**copy.deepcopy(pools[0]), "name": "gb200", "acceleratorCount": 72}
    both: list[JSON] = [*pools, bad]
    mapping(environment, "spec")["nodePools"] = both
    return ["-f", write(tmp_path, *manifests)]


def test_plan_has_a_row_for_an_invalid_pool(files: list[str]) -> None:
    done = run("plan", *files)
    assert cells(done.stdout)[-1] == ["h200-east", "-", "gb200", "-", *FAULT.split(": "), "invalid"]
    assert (done.returncode, cells(done.stdout)[0][-1]) == (0, "placed"), "the others count"
    (plan,) = json.loads(run("plan", *files, "-o", "json").stdout)
    assert plan["candidates"][-1]["message"] == FAULT
    assert cells(run("plan", *files, "-o", "wide").stdout)[-1][-1] == FAULT


def test_picture_has_a_line_for_an_invalid_pool(files: list[str]) -> None:
    picture = ET.fromstring(run("plan", *files, "-o", "svg").stdout)
    texts = [t.text or "" for t in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert f"pool gb200: invalid, {FAULT}" in texts


def test_capacity_has_a_row_for_an_invalid_pool(files: list[str]) -> None:
    rows = cells(run("capacity", *files).stdout)
    assert [row[2] for row in rows] == ["h200", "invalid: gb200"]
    found = json.loads(run("capacity", *files, "-o", "json").stdout)
    assert [(pool["pool"], pool["faults"]) for pool in found] == [("h200", []), ("gb200", [FAULT])]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", [("why", "kimi-k2"), ("size",), ("capacity",)], ids=" ".join)
def test_other_commands_warn_of_an_invalid_pool(files: list[str], command: tuple[str, ...], form: str) -> None:
    done = run(*command, *files, "-o", form)
    assert (done.returncode, error_lines(done)) == (0, [WARNING])


def test_lists_every_invalid_pool_of_an_environment(tmp_path: Path) -> None:
    manifests = example("kimi-k2-two-nodes")
    environment = find_manifest(manifests, "InferenceEnvironment")
    (pool,) = listing(environment, "spec.nodePools")
    nodes = {**pool, "maxNodeCount": -1, "acceleratorCount": 72}
    mapping(environment, "spec")["nodePools"] = ["h200", nodes]
    file = write(tmp_path, *manifests)
    faults = [
        ('spec.nodePools[0]: "h200" is not allowed; must be a block of fields',),
        (FAULT, "spec.nodePools[1].maxNodeCount: -1 is not allowed; must be at least 0"),
    ]
    found = json.loads(run("capacity", "-f", file, "-o", "json").stdout)
    assert [tuple(pool["faults"]) for pool in found] == faults
    lines = error_lines(run("why", "kimi-k2", "-f", file))
    assert lines == [
        f"warning: pool spec.nodePools[0] of InferenceEnvironment h200-east is left out: {faults[0][0]}",
        f"warning: pool h200 of InferenceEnvironment h200-east is left out: {'; '.join(faults[1])}",
    ]
    (plan,) = json.loads(run("plan", "-f", file, "-o", "json").stdout)
    assert [c["message"] for c in plan["candidates"] if c["verdict"] == "invalid"] == ["; ".join(f) for f in faults]
