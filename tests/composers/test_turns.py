"""A change that restarts pods reaches one environment after the other, if the deployment says so."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from function.cli.composing import reconcile
from function.cli.store import Ref
from function.composers import compose
from function.contract import Call, Outcome
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, condition, get, integer, listing, mapping, text
from tests.support.plane import change, composed_placements, manifests, only, plane, remote
from tools.control_plane import ControlPlane, render_in_process
from tools.world import World

OSLO, TOKYO, WIEN = "a100-oslo", "h100-tokyo", "h100-wien"
OLD, NEW, BAD = "vllm/vllm-openai:v0.15.0", "vllm/vllm-openai:v0.15.1", "vllm/vllm-openai:bad"
_MANIFEST = "spec.forProvider.manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalling(World):
    """Clusters on one of which a service of the bad image never becomes Ready."""

    on: set[str] = field(default_factory=set)

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return a resource as observed so many steps after its creation."""
        config = text(resource, "spec.providerConfigRef.name")
        is_bad = BAD in str(get(resource, _MANIFEST)) and any(config.startswith(name) for name in self.on)
        return World.advance(self, resource, min(step, 2) if is_bad else step)


def on_three(settings: Manifest | None = None, world: World | None = None, **rollout: JSON) -> ControlPlane:
    """Return a control plane on which a deployment serves on three environments, which change one by one."""
    control = plane("two-environments", world or Stalling(on={TOKYO}), settings)
    (tokyo,) = (m for m in manifests("two-environments") if mapping(m, "metadata").get("name") == TOKYO)
    wien = copy.deepcopy(tokyo)
    mapping(wien, "metadata")["name"] = WIEN
    control.apply([wien])
    deployment = only(control, "ModelDeployment")
    change(control, deployment, "spec.environments", 3)
    change(control, deployment, "spec.rollout", {"environments": "OneByOne", **rollout})
    control.settle()
    assert images(control) == {OSLO: OLD, TOKYO: OLD, WIEN: OLD}
    assert rolled_out(control)[:2] == ("True", "UpToDate")
    return control


def use_image(control: ControlPlane, image: str) -> None:
    """Change the image of every profile."""
    model = only(control, "ClusterModel")
    serving: list[JSON] = [
        {**profile, "engine": {**mapping(profile, "engine"), "image": image}}
        for profile in listing(control.store[model], "spec.serving")
    ]
    change(control, model, "spec.serving", serving)
    change(control, model, "metadata.generation", integer(control.store[model], "metadata.generation") + 1)


def placements(control: ControlPlane) -> Iterator[tuple[str, Ref]]:
    """Yield the environment of each placement."""
    for ref in control.all("ModelPlacement"):
        yield text(control.store[ref], "spec.inferenceEnvironmentRef.name"), ref


def images(control: ControlPlane) -> dict[str, str]:
    """Return the image of the service that each placement composes, by environment."""
    found = {}
    for environment, ref in sorted(placements(control)):
        (service,) = remote(control, ref, "service-").values()
        (container,) = listing(service, "spec.template.containers")
        found[environment] = text(container, "image")
    return found


def rolled_out(control: ControlPlane) -> tuple[str, str, str]:
    """Return the condition RolledOut of the deployment."""
    found = condition(control.store[only(control, "ModelDeployment")], "RolledOut")
    return text(found, "status"), text(found, "reason"), text(found, "message")


def watch_images(control: ControlPlane) -> list[str]:
    """Return the environments in the order in which their images change, until nothing does any more."""
    order, before = [], images(control)
    for _ in range(25):
        control.advance()
        now = images(control)
        order += [name for name in now if now[name] != before[name]]
        before = now
    return order


@pytest.mark.parametrize("order", [(), (WIEN, TOKYO)])
def test_environments_change_one_by_one(order: tuple[str, ...]) -> None:
    control = on_three(order=[*order])
    use_image(control, NEW)
    assert watch_images(control) == ([WIEN, TOKYO, OSLO] if order else [OSLO, TOKYO, WIEN])
    assert rolled_out(control) == ("True", "UpToDate", "3 of 3 environments serve the requested spec and are Ready")


def test_first_to_read_a_changed_model_is_not_the_first_to_change() -> None:
    """Crossplane reconciles all placements of a changed model at once, so any of them can be the first to report."""
    control = on_three()
    deployment = only(control, "ModelDeployment")
    use_image(control, NEW)
    reports = dict(placements(control))
    control.store[reports[WIEN]] = render_in_process(control.store, reports[WIEN], compose).composite
    _, outcome = reconcile(control.store, control.store[deployment])
    found = next(c for c in outcome.conditions if c.type == "RolledOut")
    assert (found.status, found.reason) == ("False", "Rolling")
    assert found.message == (
        "2 of 3 environments serve the requested spec and are Ready; waits for placements to read the changed model "
        f"or spec: {OSLO}, {TOKYO}; not changed yet: {WIEN}"
    )
    before = {ref.name: get(control.store[ref], "spec.rollout") for ref in reports.values()}
    assert {text(m, "metadata.name"): get(m, "spec.rollout") for m in composed_placements(outcome).values()} == before
    assert watch_images(control) == [OSLO, TOKYO, WIEN]


def test_placement_that_cannot_read_its_environment_keeps_nobody_waiting() -> None:
    control = on_three()
    (environment,) = (ref for ref in control.all("InferenceEnvironment") if ref.name == OSLO)
    taken = control.store.pop(environment)
    use_image(control, NEW)
    assert watch_images(control) == [TOKYO, WIEN]
    control.store[environment] = taken
    assert watch_images(control) == [OSLO]


def test_environment_that_is_not_ready_stops_the_rest_and_earlier_spec_rolls_back() -> None:
    control = on_three()
    use_image(control, BAD)
    assert watch_images(control) == [OSLO, TOKYO]
    status, reason, message = rolled_out(control)
    assert (status, reason) == ("False", "Rolling")
    assert message.startswith("1 of 3 environments serve the requested spec and are Ready; ")
    assert message.endswith(f"; not changed yet: {WIEN}")
    use_image(control, OLD)
    assert watch_images(control) == [TOKYO, OSLO], (
        "the environment that does not serve changes first, and Wien is unchanged"
    )
    assert rolled_out(control)[1] == "UpToDate"


def test_fix_reaches_the_failed_environment_first() -> None:
    control = on_three()
    use_image(control, BAD)
    watch_images(control)
    use_image(control, NEW)
    assert watch_images(control) == [TOKYO, OSLO, WIEN]


def test_nothing_changes_while_paused() -> None:
    control = on_three(paused=True)
    use_image(control, NEW)
    assert watch_images(control) == []
    assert rolled_out(control)[:2] == ("False", "Paused")
    change(control, only(control, "ModelDeployment"), "spec.rollout.paused", False)
    assert watch_images(control) == [OSLO, TOKYO, WIEN]


GATE: Manifest = {"apiVersion": "batch/v1", "kind": "Job", "name": "smoke", "condition": "Complete"}
ALLOWED: Manifest = {"gates": [{"apiVersion": "batch/v1", "kind": "Job"}]}


def reconcile_deployment(control: ControlPlane) -> tuple[Call, Outcome]:
    """Reconcile the deployment once more where gates of Jobs are allowed."""
    deployment = control.store[only(control, "ModelDeployment")]
    return reconcile(control.store, deployment, lambda call: compose(replace(call, input=ALLOWED)))


def put_job(control: ControlPlane, *conditions: Manifest, **more: JSON) -> None:
    """Write the Job that the gate names, as its controller would, with more metadata."""
    namespace = only(control, "ModelDeployment").namespace
    metadata: Manifest = {"name": "smoke", "namespace": namespace, **more}
    control.store.put({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "status": {"conditions": [*conditions]},
    })  # fmt: skip


def test_gate_holds_all_environments_but_the_first_until_it_is_true() -> None:
    control = on_three(ALLOWED, gate=GATE)
    use_image(control, NEW)
    assert watch_images(control) == [OSLO], "the gate needs an environment with the new image"
    counts = "1 of 3 environments serve the requested spec and are Ready"
    waiting = f"not changed yet: {TOKYO}, {WIEN}"
    assert rolled_out(control) == (
        "False", "WaitingForGate", f"{counts}; waiting for Job smoke, which does not exist; {waiting}",
    )  # fmt: skip

    put_job(control)
    assert watch_images(control) == []
    assert "waiting for Job smoke, which has no condition Complete; " in rolled_out(control)[2]

    put_job(control, {"type": "Complete", "status": "False", "reason": "Failed", "message": "2 of 3 answers are wrong"})
    assert watch_images(control) == []
    assert (
        "; waiting for Job smoke, whose Complete is False (Failed: 2 of 3 answers are wrong); "
        in rolled_out(control)[2]
    )

    put_job(control, {"type": "Complete", "status": "True"})
    assert watch_images(control) == [TOKYO, WIEN], "the condition is True at each step"
    assert rolled_out(control)[1] == "UpToDate"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "which is being deleted"),
        ({"generation": 2}, "whose Complete is not about its generation 2 yet"),
    ],
)
def test_gate_that_is_deleted_or_changed_is_not_open(metadata: Manifest, message: str) -> None:
    control = on_three(ALLOWED, gate=GATE)
    use_image(control, NEW)
    watch_images(control)
    put_job(control, {"type": "Complete", "status": "True", "observedGeneration": 1}, **metadata)
    assert watch_images(control) == []
    assert f"; waiting for Job smoke, {message}; " in rolled_out(control)[2]


def test_rolls_back_although_the_gate_is_closed() -> None:
    control = on_three(ALLOWED, gate=GATE)
    use_image(control, NEW)
    put_job(control, {"type": "Complete", "status": "False"})
    assert watch_images(control) == [OSLO]
    use_image(control, OLD)
    assert watch_images(control) == [OSLO]
    assert rolled_out(control)[1] == "UpToDate"


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [(None, "none"), ({"gates": [{"apiVersion": "batch/v1", "kind": "CronJob"}]}, "batch/v1 CronJob")],
)
def test_kind_that_the_platform_does_not_list_is_never_required(settings: Manifest | None, allowed: str) -> None:
    control = on_three(settings, gate=GATE)
    put_job(control, {"type": "Complete", "status": "True"})
    use_image(control, NEW)
    assert watch_images(control) == [OSLO]
    assert rolled_out(control)[1] == "WaitingForGate"
    message = f"gates of batch/v1 Job are not allowed; the platform settings allow {allowed}"
    assert message in rolled_out(control)[2]


def test_gate_is_required_only_while_a_change_waits_for_it() -> None:
    control = on_three(ALLOWED, gate=GATE)

    def requires_gate() -> bool:
        return "gate" in reconcile_deployment(control)[1].requirements

    assert not requires_gate()
    use_image(control, NEW)
    watch_images(control)
    assert requires_gate()
    put_job(control, {"type": "Complete", "status": "True"})
    watch_images(control)
    assert not requires_gate()


def test_waits_for_crossplane_to_fetch_the_gate() -> None:
    control = on_three(ALLOWED, gate=GATE)
    use_image(control, NEW)
    watch_images(control)
    call, _ = reconcile_deployment(control)
    answers = {name: answer for name, answer in call.answers.items() if name != "gate"}
    outcome = compose(replace(call, answers=answers, input=ALLOWED))
    found = next(c for c in outcome.conditions if c.type == "RolledOut")
    assert (found.status, found.reason) == ("False", "WaitingForGate")
    assert "; waiting for Crossplane to fetch Job smoke; " in found.message


def test_message_of_the_gate_is_bounded() -> None:
    control = on_three(ALLOWED, gate=GATE)
    use_image(control, NEW)
    put_job(control, {"type": "Complete", "status": "False", "message": "x" * 5000})
    watch_images(control)
    assert len(rolled_out(control)[2].encode()) < 600


def test_replicas_follow_at_once() -> None:
    control = on_three(paused=True)
    change(control, only(control, "ModelDeployment"), "spec.scaling.fixed.replicas", 1)
    control.settle()
    counts = [
        get(s, "spec.replicas") for _, ref in placements(control) for s in remote(control, ref, "service-").values()
    ]
    assert counts == [1, 1, 1]


def test_all_change_at_once_without_a_rollout() -> None:
    control = on_three()
    change(control, only(control, "ModelDeployment"), "spec.rollout", None)
    control.settle()
    assert rolled_out(control)[:2] == ("Unknown", "AllAtOnce")
    assert reconcile_deployment(control)[1].ttl_seconds == BUILT_IN.ttl_settled, (
        "a rollout without turns has nothing to wait for"
    )
    use_image(control, NEW)
    control.advance()
    assert images(control) == {OSLO: NEW, TOKYO: NEW, WIEN: NEW}
