"""What the command line says of replicas that are divided over environments, and of replicas by load."""

import copy
import json
import zoneinfo
from pathlib import Path

import pytest

from function.cli.load_warnings import find_load_slips
from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import example, find_manifest
from tests.cli.process import output_of, refused_output_of, run, write

MODEL = "llama-405b-sglang"


def scaled(story: str, scaling: JSON, **spec: JSON) -> list[Manifest]:
    """Returns an example whose deployment has these settings for its replicas."""
    manifests = copy.deepcopy(example(story))
    mapping(find_manifest(manifests, "ModelDeployment"), "spec").update({"scaling": scaling, **spec})
    return manifests


def divided(replicas: int) -> list[Manifest]:
    manifests = scaled("two-environments", {"replicaScheduling": "Divided", "fixed": {"replicas": replicas}})
    mapping(find_manifest(manifests, "ModelDeployment"), "spec").pop("environments")
    return manifests


def test_plan_places_divided_replicas(tmp_path: Path) -> None:
    """a100-oslo has 8 nodes of 4 GPUs, and a replica takes 4 there; h100-tokyo has room for 16 replicas of 2 GPUs."""
    shown = output_of("plan", "-f", write(tmp_path, *divided(20)))
    assert "Placed on a100-oslo" in shown
    assert "8 replicas of 1 node x 4 GPUs" in shown
    assert "12 replicas of 1 node x 2 GPUs" in shown


def test_plan_shows_the_replicas_of_each_environment(tmp_path: Path) -> None:
    """Not the 20 of all environments together; costs likewise."""
    shown = json.loads(output_of("plan", "-f", write(tmp_path, *divided(20)), "-o", "json"))
    placed = [candidate for candidate in shown[0]["candidates"] if candidate["verdict"] == "placed"]
    assert [(candidate["environment"], candidate["wanted"]) for candidate in placed] == [
        ("a100-oslo", "8 replicas"),
        ("h100-tokyo", "12 replicas"),
    ]


@pytest.mark.parametrize(
    ("maximum", "scheduling", "note"),
    [
        (6, "Divided", "at maxReplicas 6: 4 on l40s-porto/l40s, 2 on l40s-riga/l40s"),
        (9, "Divided", "at maxReplicas 9: 4 on l40s-porto/l40s, 4 on l40s-riga/l40s; no room now for 1 of 9"),
        (3, "Duplicated", "at maxReplicas 3: 3 on l40s-porto/l40s"),
        (6, "Duplicated", "at maxReplicas 6: 4 on l40s-porto/l40s; no room now for 2 of 6"),
    ],
)
def test_plan_previews_growth(maximum: int, scheduling: str, note: str, tmp_path: Path) -> None:
    """Each cluster has one node of 4 GPUs."""
    load: Manifest = {"maxReplicas": maximum, "target": {"waitingRequests": 5}}
    scaling: Manifest = {"signal": "Load", "replicaScheduling": scheduling, "load": load}
    assert f"note: {note}\n" in output_of("plan", "-f", write(tmp_path, *scaled("load", scaling)))
    grown: Manifest = {**scaling, "fixed": {"replicas": maximum}}
    assert "note: at maxReplicas" not in run("plan", "-f", write(tmp_path, *scaled("load", grown))).stdout


def test_why_says_which_replicas_have_no_room(tmp_path: Path) -> None:
    shown = refused_output_of("why", "llama", "-f", write(tmp_path, *divided(40)))
    assert shown.startswith("ModelDeployment search/llama: partially placed\n")
    assert "24/40 replicas of llama-3.3-70b-anywhere fit" in shown
    assert "asked for 40 replicas, 24 granted" in shown


def test_validate_does_not_ask_one_environment_for_all_replicas(tmp_path: Path) -> None:
    assert "too small" not in output_of("validate", write(tmp_path, *divided(20)))


@pytest.mark.parametrize(
    ("target", "is_warned"), [({"waitingRequests": 5}, True), ({"query": {"promQL": "up", "value": "1"}}, False)]
)
def test_warns_of_an_engine_that_reports_no_load(target: JSON, tmp_path: Path, *, is_warned: bool) -> None:
    manifests = scaled(MODEL, {"signal": "Load", "load": {"maxReplicas": 2, "target": target}})
    why = "spec.scaling.load.target: SGLang reports no load without --enable-metrics: add it to engine.args of profile"
    assert (why in output_of("validate", write(tmp_path, *manifests))) is is_warned
    for profile in listing(find_manifest(manifests, "ClusterModel"), "spec.serving"):
        engine = mapping(profile, "engine")
        arguments = engine.get("args")
        engine["args"] = [*(arguments if isinstance(arguments, list) else ()), "--enable-metrics"]
    assert why not in output_of("validate", write(tmp_path, *manifests))


LOAD: Manifest = {"maxReplicas": 2, "target": {"waitingRequests": 5}}
SCHEDULE: Manifest = {"start": "0 7 * * *", "end": "0 9 * * *", "replicas": 2}


@pytest.mark.parametrize(
    ("signal", "is_warned"), [({}, True), ({"signal": "Load"}, False), ({"signal": "Fixed"}, False)]
)
def test_warns_of_load_without_its_signal(signal: Manifest, tmp_path: Path, *, is_warned: bool) -> None:
    """With signal Fixed, an author keeps the settings on purpose (docs/scale.md)."""
    manifests = scaled("gemma-one-gpu", {**signal, "load": LOAD})
    why = "spec.scaling.load: has no effect without signal: Load, so the number of replicas is fixed"
    assert (why in output_of("validate", write(tmp_path, *manifests))) is is_warned


@pytest.mark.parametrize(
    ("query", "is_warned"),
    [
        ("sum(up) or vector(0)", True),
        ("sum(up) OR on() vector( 0 )", True),
        ("sum(up or down)", False),
        ("sum(vector(0))", False),
    ],
)
def test_warns_of_a_query_that_never_is_unknown(query: str, tmp_path: Path, *, is_warned: bool) -> None:
    target: Manifest = {"query": {"promQL": query, "value": "1"}}
    manifests = scaled("gemma-one-gpu", {"signal": "Load", "load": {"maxReplicas": 2, "target": target}})
    why = "spec.scaling.load.target.query.promQL: or vector(0) hides that the load is unknown"
    assert (why in output_of("validate", write(tmp_path, *manifests))) is is_warned


@pytest.mark.parametrize(("zone", "is_warned"), [("Europe/Vienna", False), ("Europe/Wien", True), ("Europe", True)])
def test_warns_of_a_time_zone_that_does_not_exist(zone: str, tmp_path: Path, *, is_warned: bool) -> None:
    schedule: list[JSON] = [SCHEDULE, {**SCHEDULE, "timezone": zone}]
    manifests = scaled("gemma-one-gpu", {"signal": "Load", "load": {**LOAD, "schedule": schedule}})
    why = f"spec.scaling.load.schedule[1].timezone: {zone} is no time zone that is known here"
    shown = output_of("validate", write(tmp_path, *manifests))
    assert (why in shown) is is_warned
    assert ("time zone" in shown) is is_warned


def test_takes_every_time_zone_where_none_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image without tzdata."""

    def find_zone(name: str) -> None:
        raise zoneinfo.ZoneInfoNotFoundError(name)

    monkeypatch.setattr("zoneinfo.ZoneInfo", find_zone)
    load: Manifest = {"schedule": [{"timezone": "Europe/Wien"}]}
    assert list(find_load_slips({"spec": {"scaling": {"signal": "Load", "load": load}}})) == []
