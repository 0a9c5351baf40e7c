"""Scenario 41: what an endpoint picker saves, and what it costs to lose one or both, with the real picker and Envoy.

Requests go from the control plane's Gateway to Envoy, which is the gateway of the GPU cluster and follows the HTTPRoute
that the function composes (tools/stack/envoy.py). Envoy asks the picker of Gateway API Inference Extension, which runs
with KServe's command and whose pods are ready as KServe's probes say (tools/stack/pickers.py). Engines are simulated;
each keeps the beginnings of eight prompts (tools/stack/engines.py). What is measured is printed, and is in
docs/routing.md.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from function.kube.manifests import Manifest, condition, integer, listing, text
from tests.e2e.fleet import model_service, reset_gateway, set_gateway
from tests.e2e.objects import VLLM, deployment, environment, model, pool
from tests.e2e.picked import PREFIX_BLOCKS, Hits, Load, Prompts, ask, send_load, watch
from tests.e2e.world import World
from tools.stack import engines, envoy_controller, gateways, pickers, traffic
from tools.stack.inventory import GATEWAY
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM, NAME, PICKING = "picked", "chat", "picking"
ENGINES, PREFIXES, REQUESTS = 4, 16, 400
KEPT = engines.CACHED_BLOCKS // PREFIX_BLOCKS  # beginnings that one engine keeps
APPLY_SECONDS = 1.0  # until Envoy has what a route says
Record = Callable[[str, object], None]


def _model(routing: str) -> Manifest:
    topology: Manifest = {"nodes": 1, "gpusPerNode": 1}
    profile: Manifest = {"routing": routing, "replicaTopology": topology, "engine": {"name": "vLLM", "image": VLLM}}
    return model(NAME, profile=profile, resources={"disk": "60Gi"})


@pytest.fixture(scope="module")
def url(world: World, empty: None) -> Iterator[str]:  # noqa: ARG001  # it comes first
    """The URL of a ModelService in front of four engines, without pickers yet."""
    home, processes = world.stack.home, world.stack.processes
    processes.stop(traffic.NAME)
    for address in (gateways.ADDRESSES["hub"], envoy_controller.ADDRESS):
        subprocess.run(("ip", "address", "replace", f"{address}/32", "dev", "lo"), check=True)
    status: Manifest = {"status": {"addresses": [{"type": "IPAddress", "value": envoy_controller.ADDRESS}]}}
    world.stack.remote.patch("Gateway", GATEWAY, status, "kserve", part="status")
    gateways.install_gateway_api(home)
    started = [
        engines.program(home),
        pickers.program(home),
        gateways.program(home, "hub"),
        *envoy_controller.list_programs(home),
    ]
    for program in started:
        processes.start(program)
    set_gateway(world)
    world.team(TEAM)
    world.apply(environment(PICKING, pool("gpus"), kserve={"scheduler": True}), _model("Default"))
    world.apply(
        deployment(TEAM, NAME, NAME, on=PICKING, replicas=ENGINES, modelCache={"type": "PVC"}),
        model_service(TEAM, NAME, {NAME: 1}),
    )
    world.ready(TEAM, NAME)
    found = until("the URL", lambda: text(world.stack.hub.get("ModelService", NAME, TEAM) or {}, "status.url"))
    until("an answer", lambda: ask(found, "warm").status == 200)
    yield found
    world.clear()
    reset_gateway(world)
    for program in reversed(started):
        processes.stop(program.name)
    processes.start(traffic.program(home))


def test_hits_without_a_picker(url: str, record_property: Record) -> None:
    """Each engine sees every beginning and keeps half of them: at most half of the tokens are cached."""
    hits = _measure(url, seed=1)
    record_property("without a picker", str(hits))
    assert hits.share < KEPT / PREFIXES + 0.1
    assert len(hits.by_engine) == ENGINES


def test_hits_with_a_picker(world: World, url: str, record_property: Record) -> None:
    """All but the first request with a beginning find it, as long as no engine gets more of them than it keeps."""
    world.apply(_model("PrefixAware"))
    until("requests to go to the pool", lambda: _is_picking(world))
    until("an answer", lambda: ask(url, "warm").status == 200)
    hits = _measure(url, seed=2)
    record_property("with a picker", str(hits))
    assert hits.share > 0.8, f"{1 - PREFIXES / REQUESTS:.0%} where no engine gets more than {KEPT} beginnings"
    assert len(hits.by_engine) == ENGINES


def test_losing_the_picker_that_is_not_elected_costs_nothing(world: World, url: str, record_property: Record) -> None:
    with send_load(url, Prompts(PREFIXES, seed=4)) as load, watch(partial(_read_route, world)) as (routes,):
        time.sleep(5)
        _kill(world, "other")
        time.sleep(10)
    record_property("the other picker lost", f"{len(load.answers)} requests, {len(load.streams)} streams")
    assert {each.status for each in (*load.answers, *load.streams)} == {200}
    assert [found for _, found in routes.changes] == ["pool"]


@pytest.mark.parametrize("mode", envoy_controller.Mode)
@pytest.mark.parametrize("lost", ["leader", "both"])
def test_lost_pickers(world: World, url: str, mode: envoy_controller.Mode, lost: str, record_property: Record) -> None:
    """Requests fail until the route names the Kubernetes Service again, and none fails from then on."""
    envoy_controller.set_mode(world.stack.home, mode)
    until("requests to go to the pool", lambda: _is_picking(world))
    time.sleep(APPLY_SECONDS)
    readers = (partial(_read_route, world), partial(_count_ready_pickers, world))
    with send_load(url, Prompts(PREFIXES, seed=3)) as load, watch(*readers) as (routes, ready):
        time.sleep(5)
        killed = time.monotonic()
        _kill(world, lost)
        turned = until("the route to turn back", partial(routes.find, "service", killed), seconds=60)
        elected = until("a picker to be ready", partial(ready.find, "1", turned), seconds=120)
        again = until("the route to name the pool", partial(routes.find, "pool", turned), seconds=120)
        time.sleep(10)
        end = time.monotonic()
    record_property("lost", _describe(load, killed, turned, elected, again, end))
    assert load.count_failed(0, killed - 1)[0] == 0
    assert load.count_failed(turned + APPLY_SECONDS, end)[0] == 0


def _describe(load: Load, killed: float, turned: float, elected: float, again: float, end: float) -> str:
    until_turned = load.count_failed(killed - 1, turned + APPLY_SECONDS)
    after = load.count_failed(turned + APPLY_SECONDS, end)
    failed = [each.began - killed for each in load.answers if each.status != 200]
    how = sorted({each.status for each in load.answers} - {200})
    cut = sum(each.status != 200 for each in load.streams)
    return (
        f"route turned back after {turned - killed:.1f} s, a picker ready after {elected - killed:.1f} s, "
        f"pool named again after {again - killed:.1f} s; failed until turned back: {until_turned[0]} of "
        f"{until_turned[1]} (from {min(failed, default=0):.1f} to {max(failed, default=0):.1f} s, {how}), "
        f"afterwards: {after[0]} of {after[1]}; streams cut: {cut} of {len(load.streams)}"
    )


def _measure(url: str, seed: int) -> Hits:
    prompts = Prompts(PREFIXES, seed)
    drawn = [prompts.draw() for _ in range(REQUESTS)]
    with ThreadPoolExecutor(4) as threads:
        return Hits.of(threads.map(partial(ask, url), drawn))


def _read_route(world: World) -> str:
    """Returns where the route of the ModelService on the GPU cluster sends inference requests: `pool` or `service`."""
    refs = [
        ref
        for route in world.stack.remote.find("HTTPRoute", TEAM)
        if _is_of_service(route)
        for rule in listing(route, "spec.rules")
        for ref in listing(rule, "backendRefs")
    ]
    if not refs:
        raise LookupError("no route")
    return "pool" if any(text(ref, "kind") == "InferencePool" for ref in refs) else "service"


def _is_of_service(route: Manifest) -> bool:
    """Tells whether a route is that of the ModelService; the other one is KServe's."""
    paths = [text(m, "path.value") for rule in listing(route, "spec.rules") for m in listing(rule, "matches")]
    return all(path.startswith(f"/services/{TEAM}/{NAME}") for path in paths)


def _count_ready_pickers(world: World) -> str:
    pods = world.stack.remote.find("Pod", TEAM, pickers.LABELS)
    return str(sum(text(condition(pod, "Ready"), "status") == "True" for pod in pods))


def _is_picking(world: World) -> bool:
    return (_read_route(world), _count_ready_pickers(world)) == ("pool", "1")


def _kill(world: World, lost: str) -> None:
    """Kills the picker that leads, the other one, or both."""
    pods = world.stack.remote.find("Pod", TEAM, pickers.LABELS)
    leaders = {text(pod, "metadata.name") for pod in pods if text(condition(pod, "Ready"), "status") == "True"}
    running = pickers.read_pickers(world.stack.home)
    assert (len(leaders), len(running)) == (1, 2)
    for name in {"both": running.keys(), "leader": leaders, "other": running.keys() - leaders}[lost]:
        os.kill(integer(running, f"{name}.pid"), signal.SIGKILL)
