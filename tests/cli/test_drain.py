"""`drain`, `cordon` and `uncordon`: what would follow, what is written, and how it ends."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import yaml

from function.cli import live
from function.kube.manifests import JSON, Manifest, get, listing, mapping
from tests.cli.api import ApiServer
from tests.cli.conftest import example, find_manifest
from tests.cli.process import cells, output_of, run, write
from tests.support.plane import change, only, plane

OSLO, TOKYO, LLAMA = "a100-oslo", "h100-tokyo", "search/llama"
DRAIN: Manifest = {"key": "modelplane.ai/drain", "effect": "NoExecute"}
CORDON: Manifest = {"key": "modelplane.ai/cordon", "effect": "NoSchedule"}
REPAIR: Manifest = {"key": "repair", "effect": "NoSchedule"}
Serve: TypeAlias = Callable[..., list[str]]


@pytest.fixture
def serve(server: ApiServer, tmp_path: Path) -> Serve:
    """Serve two environments, of which a deployment runs on the first or on both, and return how to reach them."""

    def options(*taints: Manifest, environments: int = 1, tolerations: JSON = None) -> list[str]:
        control = plane("two-environments")
        deployment, entries = only(control, "ModelDeployment"), list[JSON](taints)
        change(control, deployment, "spec.environments", environments)
        change(control, deployment, "spec.tolerations", tolerations)
        control.settle()
        (oslo,) = (ref for ref in control.all("InferenceEnvironment") if ref.name == OSLO)
        change(control, oslo, "spec.taints", entries or None)
        server.put(copy.deepcopy([*control.store.values()]))
        return ["--kubeconfig", server.kubeconfig(tmp_path)]

    return options


def taints(server: ApiServer) -> list[Manifest]:
    """Return the taints of the first environment."""
    return listing(server.get("InferenceEnvironment", "", OSLO), "spec.taints")


def written(server: ApiServer) -> list[str]:
    """Return the requests that write."""
    return [request for request in server.requests if not request.startswith("GET")]


def test_dry_run_says_who_moves_where_and_writes_nothing(server: ApiServer, serve: Serve) -> None:
    output = output_of("drain", OSLO, "--dry-run", *serve())
    assert cells(output)[0] == ["moves", LLAMA, f"{TOKYO}/h100", "-"]
    assert output.endswith(f"InferenceEnvironment {OSLO} would be drained: 1 to move\n")
    assert written(server) == []


def test_shows_what_the_moves_cost(server: ApiServer, serve: Serve) -> None:
    options = serve()
    # Llama runs on 8 GPUs of Oslo (two replicas of 4), and would on 4 of Tokyo (two replicas of 2).
    for name, price in ((OSLO, "1.50"), (TOKYO, "2.50")):
        environment = server.get("InferenceEnvironment", "", name)
        for pool in listing(environment, "spec.nodePools"):
            pool["price"] = {"perGpuHour": price, "currency": "USD"}
    shown = output_of("drain", OSLO, "--dry-run", *options)
    assert cells(shown)[0] == ["moves", LLAMA, f"{TOKYO}/h100", "12.00 USD per hour -> 10.00 USD per hour", "-"]
    assert "\n\ncost of what moves: 12.00 USD per hour -> 10.00 USD per hour\n\n" in shown
    data = json.loads(output_of("drain", OSLO, "--dry-run", *options, "-o", "json"))
    before, after = ({"amountPerHour": amount, "currency": "USD"} for amount in ("12.00", "10.00"))
    assert data["costs"] == {"before": [before], "after": [after]}
    assert (data["environment"], data["drains"]) == (OSLO, False)
    (move,) = data["moves"]
    assert move == {
        "verdict": "moves", "placement": LLAMA, "to": f"{TOKYO}/h100", "reason": "", "before": before, "after": after,
    }  # fmt: skip


def test_costs_of_pools_without_a_price_are_not_known(server: ApiServer, serve: Serve) -> None:
    options = serve()
    for pool in listing(server.get("InferenceEnvironment", "", TOKYO), "spec.nodePools"):
        pool["price"] = {"perGpuHour": "2.50", "currency": "USD"}
    shown = output_of("drain", OSLO, "--dry-run", *options)
    assert cells(shown)[0][3] == "no price -> 10.00 USD per hour"
    assert "cost of what moves: no price -> 10.00 USD per hour" in shown


def test_data_is_alone_on_standard_output(server: ApiServer, serve: Serve) -> None:
    options = serve(environments=2)
    refused = run("drain", OSLO, *options, "-o", "json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["drains"] is False
    forced = run("drain", OSLO, "--force", *options, "-o", "yaml")
    assert yaml.safe_load(forced.stdout)["drains"] is True
    assert forced.stderr == f"InferenceEnvironment {OSLO} is being drained: 1 cannot move\n"
    assert taints(server) == [DRAIN]


def test_drains_with_a_reason(server: ApiServer, serve: Serve) -> None:
    output = output_of("drain", f"ie/{OSLO}", "--reason", "new switch", *serve())
    assert output.endswith(f"InferenceEnvironment {OSLO} is being drained: 1 to move\n")
    assert taints(server) == [{**DRAIN, "reason": "new switch"}]


def test_writes_nothing_if_something_cannot_move_unless_forced(server: ApiServer, serve: Serve) -> None:
    options = serve(environments=2)
    refused = run("drain", OSLO, *options)
    assert refused.returncode == 1
    assert cells(refused.stdout)[0] == ["cannot move", LLAMA, "-", "there is no other environment"]
    assert f"InferenceEnvironment {OSLO} is not drained: 1 placement cannot move" in refused.stderr
    assert written(server) == []
    assert "1 cannot move" in output_of("drain", OSLO, "--force", *options)
    assert taints(server) == [DRAIN]


def test_says_why_other_environments_refuse(server: ApiServer, serve: Serve) -> None:
    options = serve()
    tokyo = server.get("InferenceEnvironment", "", TOKYO)
    assert tokyo is not None
    get(tokyo, "spec")["taints"] = [REPAIR]  # type: ignore[call-overload, index]  # a map
    (row, *_) = cells(run("drain", OSLO, *options).stdout)
    assert row[:3] == ["cannot move", LLAMA, "-"]
    assert row[3].startswith(f"{TOKYO}: profile fp8-two-gpus: the environment has taint repair:NoSchedule")


@pytest.mark.parametrize(
    ("replicas", "environments", "want"),
    [
        (12, 2, ["moves", LLAMA, f"{TOKYO}/h100", "-"]),  # its 4 replicas in Tokyo become 12
        (20, 2, ["cannot move", LLAMA, "-", f"{TOKYO}: has 16 replicas; profile fp8-two-gpus: pool h100 is too small"]),
        (8, 1, ["moves", LLAMA, f"{TOKYO}/h100", "-"]),
    ],
)
def test_divided_replicas_move_only_all_together(
    server: ApiServer, tmp_path: Path, replicas: int, environments: int, want: list[str]
) -> None:
    control = plane("two-environments")
    deployment = only(control, "ModelDeployment")
    change(control, deployment, "spec.environments", environments)
    change(control, deployment, "spec.scaling", {"replicaScheduling": "Divided", "fixed": {"replicas": replicas}})
    control.settle()
    server.put(copy.deepcopy([*control.store.values()]))
    (row, *_) = cells(run("drain", OSLO, "--dry-run", "--kubeconfig", server.kubeconfig(tmp_path)).stdout)
    assert row[:3] == want[:3]
    assert row[3].startswith(want[3])


def test_divided_replicas_that_fit_only_in_part_do_not_move(server: ApiServer, tmp_path: Path) -> None:
    """8 replicas run in Oslo, and Tokyo is new and has room for two: Oslo would never be empty."""
    control = plane("two-environments")
    deployment = only(control, "ModelDeployment")
    (tokyo,) = (ref for ref in control.all("InferenceEnvironment") if ref.name == TOKYO)
    change(control, tokyo, "spec.taints", [REPAIR])
    change(control, deployment, "spec.environments", None)
    change(control, deployment, "spec.scaling", {"replicaScheduling": "Divided", "fixed": {"replicas": 8}})
    control.settle()
    change(control, tokyo, "spec.taints", None)
    pools = [{**pool, "maxNodeCount": 1} for pool in listing(control.composites[tokyo], "spec.nodePools")]
    change(control, tokyo, "spec.nodePools", pools)
    control.settle()
    server.put(copy.deepcopy([*control.store.values()]))
    (row, *_) = cells(run("drain", OSLO, "--dry-run", "--kubeconfig", server.kubeconfig(tmp_path)).stdout)
    assert row[:3] == ["cannot move", LLAMA, "-"]


def test_says_that_the_model_is_missing(server: ApiServer, serve: Serve) -> None:
    options = serve()
    del server.objects["clustermodels", "", "llama-3.3-70b-anywhere"]
    (row, *_) = cells(run("drain", OSLO, *options).stdout)
    assert row[0] == "cannot move"
    assert row[3].startswith("ModelNotFound: ")


def test_what_tolerates_the_taint_or_has_no_deployment_stays(server: ApiServer, serve: Serve) -> None:
    options = serve(tolerations=[{"operator": "Exists"}])
    (row, *_) = cells(output_of("drain", OSLO, "--dry-run", *options))
    assert row == ["stays", LLAMA, "-", "tolerates the taint"]
    for key in [key for key in server.objects if key[0] == "modeldeployments"]:
        del server.objects[key]
    (row, *_) = cells(output_of("drain", OSLO, "--dry-run", *options))
    assert row == ["stays", LLAMA, "-", "no deployment moves it"]


def test_drains_an_environment_without_placements(serve: Serve) -> None:
    assert output_of("drain", TOKYO, "--dry-run", *serve()) == (
        f"InferenceEnvironment {TOKYO} would be drained: nothing runs there\n"
    )


def test_waits_and_tells_who_is_left(server: ApiServer, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    conditions = [("False", "Draining", "1 placement left"), ("True", "Drained", "Nothing is left to move")]

    def reconcile(*_: object) -> None:
        found = server.get("InferenceEnvironment", "", OSLO)
        if found is not None and conditions:
            status, reason, message = conditions.pop(0)
            said: Manifest = {"type": "Drained", "status": status, "reason": reason, "message": message}
            found["status"] = {"conditions": [said]}

    server.controller = reconcile
    monkeypatch.setattr("time.sleep", reconcile)
    output = output_of("drain", OSLO, "--wait", *serve())
    assert output.splitlines()[-3:] == [
        "1 placement left",
        "Nothing is left to move",
        f"InferenceEnvironment {OSLO} drained",
    ]


def test_gives_up_after_the_timeout(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL_SECONDS", 0.1)
    done = run("drain", OSLO, "--wait", "--timeout", "1", *serve())
    assert done.returncode == 1
    assert f"InferenceEnvironment {OSLO} is not drained after 1 seconds" in done.stderr


def test_cordons_once_and_uncordons(server: ApiServer, serve: Serve) -> None:
    options = serve()
    assert output_of("cordon", OSLO, "--dry-run", *options) == f"InferenceEnvironment {OSLO} cordoned (dry run)\n"
    assert written(server) == []
    assert output_of("cordon", OSLO, *options) == f"InferenceEnvironment {OSLO} cordoned\n"
    assert taints(server) == [CORDON]
    assert output_of("cordon", OSLO, *options) == f"InferenceEnvironment {OSLO} already cordoned\n"
    assert output_of("uncordon", OSLO, "--dry-run", *options) == f"InferenceEnvironment {OSLO} uncordoned (dry run)\n"
    assert taints(server) == [CORDON]
    assert output_of("uncordon", OSLO, *options) == f"InferenceEnvironment {OSLO} uncordoned\n"
    assert taints(server) == []
    assert output_of("uncordon", OSLO, *options) == f"InferenceEnvironment {OSLO} already uncordoned\n"


def test_uncordon_warns_of_other_taints(serve: Serve) -> None:
    done = run("uncordon", OSLO, *serve(REPAIR))
    assert (done.returncode, done.stderr) == (0, f"warning: InferenceEnvironment {OSLO} keeps other taints: repair\n")


def test_unknown_environment_is_not_found(serve: Serve) -> None:
    done = run("cordon", "a100-osl", *serve())
    assert done.returncode == 4
    assert "there is no InferenceEnvironment a100-osl" in done.stderr
    assert OSLO in done.stderr


def test_dry_run_decides_from_files_what_moves(tmp_path: Path) -> None:
    """On one environment of two, replicas on nodes of 4 GPUs move to where a replica takes 2."""
    manifests = copy.deepcopy(example("two-environments"))
    mapping(find_manifest(manifests, "ModelDeployment"), "spec")["environments"] = 1
    files = ("-f", write(tmp_path, *manifests))
    output = output_of("drain", OSLO, "--dry-run", *files)
    assert cells(output)[0] == ["moves", LLAMA, f"{TOKYO}/h100", "-"]
    assert output.endswith(f"InferenceEnvironment {OSLO} would be drained: 1 to move\n")
    assert output_of("drain", TOKYO, "--dry-run", *files) == (
        f"InferenceEnvironment {TOKYO} would be drained: nothing runs there\n"
    )


def test_names_what_keeps_placements_of_files(tmp_path: Path) -> None:
    files = ("-f", write(tmp_path, *example("two-environments")))
    done = run("drain", OSLO, "--dry-run", *files)
    assert (done.returncode, cells(done.stdout)[0][:2]) == (1, ["cannot move", LLAMA])


def test_files_are_only_read(tmp_path: Path) -> None:
    done = run("drain", OSLO, "-f", write(tmp_path, *example("two-environments")))
    assert (done.returncode, done.stdout, done.stderr) == (
        2, "", "error: drain writes to the control plane, and files stay as they are. Add --dry-run, or leave out -f\n",
    )  # fmt: skip
