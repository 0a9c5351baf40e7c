"""Scenario 30: an image reaches three environments one by one. A gate, a pause, an environment whose new pod does not
start while the old one serves, and the way back, each as `status` and `why` show it.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from function.kube.manifests import JSON, Manifest, condition, listing, text
from tests.e2e.objects import deployment, environment, model, pool
from tests.e2e.test_14_command_line import _plugin
from tests.e2e.world import World, main_container, running
from tools.stack.layout import SOURCE
from tools.stack.waiting import steady, until

pytestmark = pytest.mark.e2e
TEAM, NAME, GATED = "one-by-one", "chat", "modeldeployments-gated"
OLD, NEW, NEWER = (f"vllm/vllm-openai:v0.{minor}.0" for minor in (15, 16, 17))
# Each environment has two GPUs on a node of its own, and the second one can be cordoned without a word to us.
NODES = {"roll-a": "h100-2-3", "roll-b": "h100-2-4", "roll-c": "h100-2-5"}
GATE: Manifest = {"apiVersion": "batch/v1", "kind": "Job", "name": "smoke", "condition": "Complete"}
NOT_STARTED = "on roll-b: 1 of 1 pods have the current spec (2 exist, 1 available); not changed yet: roll-c"
ROLLOUT: Manifest = {"environments": "OneByOne"}


def _model(image: str) -> Manifest:
    shape: Manifest = {"nodes": 1, "gpusPerNode": 1}
    return model("rolled", profile={"replicaTopology": shape, "engine": {"name": "vLLM", "image": image}})


def _deployment(**rollout: JSON) -> Manifest:
    selector: Manifest = {"matchExpressions": [{"key": "e2e", "operator": "In", "values": [*NODES]}]}
    return deployment(
        TEAM,
        NAME,
        "rolled",
        environments=3,
        environmentSelector=selector,
        rollout={**ROLLOUT, **rollout},
        crossplane={"compositionRef": {"name": GATED}},  # its input allows Jobs as gates
    )


def _images(world: World) -> dict[str, str]:
    """Return the images of the pods that run, by environment."""
    found = {}
    for placement in world.placements(TEAM, NAME):
        pods = [pod for pod in world.pods(world.service(placement)) if running(pod)]
        name = text(placement, "spec.inferenceEnvironmentRef.name")
        found[name] = ",".join(sorted({text(main_container(pod), "image") for pod in pods}))
    return found


def _run(world: World, *images: str) -> bool:
    found = _images(world)
    if found != dict(zip(NODES, images, strict=True)):
        raise LookupError(str(found))
    return True


Tell = Callable[[str], None]


@pytest.fixture
def tell(world: World, record_property: Callable[[str, object], None]) -> Tell:
    """Return what notes status and `why` as users see them."""

    def note(state: str) -> None:
        found = world.deployment(TEAM, NAME)
        said = condition(found, "RolledOut")
        rows = [
            f"{text(row, 'environment')} serves {text(row, 'servedDigest')} of {text(row, 'requestedDigest')}"
            for row in listing(found, "status.placements")
        ]
        why = _plugin(world, "why", NAME, "-n", TEAM, user="hub").stdout
        record_property(
            state,
            f"RolledOut={text(said, 'status')}/{text(said, 'reason')}: {text(said, 'message')}\n"
            f"{'; '.join(rows)}\n{why}",
        )

    return note


@pytest.fixture(scope="module", autouse=True)
def serving(world: World, empty: None) -> Iterator[None]:  # noqa: ARG001  # it comes first
    """Serve the old image on three environments, with the right to read Jobs and a Composition that allows them."""
    world.team(TEAM)
    world.stack.kubectl("apply", "-f", str(SOURCE / "install" / "gate-rbac.yaml"))
    step: Manifest = {
        "step": "modelplane",
        "functionRef": {"name": "function-modelplane"},
        "input": {
            "apiVersion": "modelplane.fn.crossplane.io/v1beta1",
            "kind": "Defaults",
            "gates": [{"apiVersion": "batch/v1", "kind": "Job"}],
        },
    }
    kind: Manifest = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelDeployment"}
    composition: Manifest = {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": GATED},
        "spec": {"compositeTypeRef": kind, "mode": "Pipeline", "pipeline": [step]},
    }
    environments = [
        environment(
            name,
            pool("two", acceleratorCount=2, maxNodeCount=1, labels={"kubernetes.io/hostname": node}),
            hardware={"observe": "Never"},
        )
        for name, node in NODES.items()
    ]
    world.apply(composition, *environments, _model(OLD), _deployment())
    world.ready(TEAM, NAME)
    until("the old image", partial(_run, world, OLD, OLD, OLD))
    _rolled(world, "True/UpToDate")  # one that is still on its way to the old image would change first
    yield
    _cordon(world, value=False)
    world.remove(TEAM, NAME)
    world.stack.hub.delete("Composition", GATED)


def _cordon(world: World, *, value: bool) -> None:
    world.stack.remote.patch("Node", NODES["roll-b"], {"spec": {"unschedulable": value}})


def _told(world: World, part: str) -> bool:
    said = text(condition(world.deployment(TEAM, NAME), "RolledOut"), "message")
    if part not in said:
        raise LookupError(said)
    return True


def _rolled(world: World, want: str) -> None:
    world.wait("ModelDeployment", NAME, "RolledOut", want, TEAM)


def test_failed_environment_stops_the_rest_and_a_fix_resumes(world: World, tell: Tell) -> None:
    _cordon(world, value=True)
    world.apply(_model(NEW))
    until("the first environment", partial(_run, world, NEW, OLD, OLD))
    until("the second environment to have a pod that does not start", partial(_told, world, NOT_STARTED))
    steady("the old pods", partial(_run, world, NEW, OLD, OLD), seconds=15)
    ready = [text(condition(world.service(p), "Ready"), "status") for p in world.placements(TEAM, NAME)]
    assert ready == ["True"] * 3, "KServe sees no failure"
    _rolled(world, "False/Rolling")
    tell("failed")
    _cordon(world, value=False)
    until("the rest to follow", partial(_run, world, NEW, NEW, NEW))
    _rolled(world, "True/UpToDate")
    tell("resumed")


def test_gate_holds_further_environments_and_the_earlier_spec_returns(world: World, tell: Tell) -> None:
    world.apply(_deployment(gate=GATE))
    world.apply(_model(NEWER))
    until("the first environment", partial(_run, world, NEWER, NEW, NEW))
    _rolled(world, "False/WaitingForGate")
    tell("gate is absent")

    world.apply(_model(NEW))
    until("the way back", partial(_run, world, NEW, NEW, NEW))
    _rolled(world, "True/UpToDate")
    tell("rolled back")

    world.apply(_model(NEWER))
    _rolled(world, "False/WaitingForGate")
    template: Manifest = {"restartPolicy": "Never", "containers": [{"name": "smoke", "image": "curl"}]}
    metadata: Manifest = {"name": "smoke", "namespace": TEAM}
    job: Manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    world.apply({**job, "spec": {"template": {"spec": template}}})
    at = "2026-01-01T00:00:00Z"
    done: list[JSON] = [
        {"type": type_, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": at}
        for type_ in ("SuccessCriteriaMet", "Complete")
    ]
    status: Manifest = {"startTime": at, "completionTime": at, "succeeded": 1, "conditions": done}
    world.stack.hub.patch("Job", "smoke", {"status": status}, TEAM, part="status")
    until("the rest to follow", partial(_run, world, NEWER, NEWER, NEWER))
    _rolled(world, "True/UpToDate")
    tell("gate is open")


def test_pause_holds_every_environment(world: World, tell: Tell) -> None:
    world.apply(_deployment(paused=True))
    world.apply(_model(OLD))
    _rolled(world, "False/Paused")
    steady("every environment", lambda: set(_images(world).values()) == {NEWER}, seconds=6)
    tell("paused")
    world.apply(_deployment())
    until("all to change", partial(_run, world, OLD, OLD, OLD))
    world.ready(TEAM, NAME)
