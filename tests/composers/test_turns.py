"""A change that restarts pods reaches one environment after the other, if the deployment says so."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, condition, get, listing, mapping, text
from tests.support.plane import change, manifests, only, plane, remote
from tools.control_plane import ControlPlane
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


def on_three(**rollout: JSON) -> ControlPlane:
    """Return a control plane on which a deployment serves on three environments, which change one by one."""
    control = plane("two-environments", world=Stalling(on={TOKYO}))
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


def test_environment_that_is_not_ready_stops_the_rest_and_earlier_spec_rolls_back() -> None:
    control = on_three()
    use_image(control, BAD)
    assert watch_images(control) == [OSLO, TOKYO]
    status, reason, message = rolled_out(control)
    assert (status, reason) == ("False", "Rolling")
    assert message.startswith("1 of 3 environments serve the requested spec and are Ready; ")
    assert message.endswith(f"; not changed yet: {WIEN}")
    use_image(control, OLD)
    assert watch_images(control) == [TOKYO, OSLO], "the one that does not serve comes first; Wien is not touched"
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
    use_image(control, NEW)
    control.advance()
    assert images(control) == {OSLO: NEW, TOKYO: NEW, WIEN: NEW}
