"""Another `remoteNamespacePrefix`: what it moved is made anew beside the old, which goes when nobody reads it."""

from dataclasses import replace

import pytest

from function.cli.store import Ref
from function.composers import requirements
from function.kube.manifests import Manifest, condition, get, listing, text
from tests.composers.plane import only, plane, remote, said
from tests.support.remote_scene import ONE_NODE, SEVERAL_NODES, Scene, at_rest, defaults
from tools.control_plane import ControlPlane
from tools.engine import Engine

ROUNDS = 14
PREFIXES = ("a-", "b-", "")
STORIES = (SEVERAL_NODES, ONE_NODE, "shared-claim", "bring-your-own-claim", "private-model", "model-cache")
INPUT: Manifest = {"apiVersion": "modelplane.fn.crossplane.io/v1beta1", "kind": "Defaults"}


def prefixed(prefix: str) -> Manifest:
    """Return the function's input with a prefix."""
    return {**INPUT, "remoteNamespacePrefix": prefix}


def say(control: ControlPlane, prefix: str) -> None:
    """Let the platform name another prefix from now on."""
    assert isinstance(control.renderer, Engine)
    control.renderer = replace(control.renderer, input=prefixed(prefix))


def places(found: dict[str, Manifest]) -> dict[str, tuple[str, str]]:
    """Return kind and namespace of each remote manifest, by composed resource."""
    return {key: (text(m, "kind"), text(m, "metadata.namespace")) for key, m in found.items() if key != "namespace"}


def hydrated(control: ControlPlane, placement: Ref) -> bool:
    """Tell whether wherever both a service and a Job were composed the Job was seen Complete."""
    latest = control.rounds[-1]
    now = remote(control, placement, "")
    serving = {text(m, "metadata.namespace") for key, m in now.items() if key.startswith("service-")}
    loading = {
        text(m, "metadata.namespace")
        for key, m in now.items()
        if key.startswith("job-")
        and not condition(get(latest.observed[placement].get(key), "status.atProvider.manifest"), "Complete")
    }
    return not serving & loading


@pytest.mark.parametrize("story", STORIES)
def test_no_object_is_ever_pointed_at_another_namespace(story: str) -> None:
    control = plane(story, settings=prefixed(""))
    placement = control.all("ModelPlacement")[0]
    seen = places(remote(control, placement, ""))
    for prefix in PREFIXES if story == SEVERAL_NODES else PREFIXES[:1]:
        say(control, prefix)
        for _ in range(ROUNDS):
            control.advance()
            now = places(remote(control, placement, ""))
            assert all(seen[key] == where for key, where in now.items() if key in seen), "it would leave its own behind"
            assert any(key.startswith("service-") for key in now), "something serves all the time"
            assert hydrated(control, placement), "a service is written where its weights are"
            seen = now
        namespaces = {namespace for _, namespace in places(remote(control, placement, "")).values()}
        assert namespaces - {""} == {f"{prefix}{placement.namespace}"}, "and all has moved in the end"
        assert said(control, placement, "ServiceReady") == ("True", "Serving")


def test_the_old_service_serves_until_the_new_may_be_made() -> None:
    rest = at_rest(SEVERAL_NODES)
    moving = rest.edited(defaults("remoteNamespacePrefix", "a-"))
    assert moving.composed("service-") == rest.composed("service-"), "its weights are not there yet"
    for prefix in ("claim-", "job-"):
        before, now = rest.composed(prefix), moving.composed(prefix)
        assert {key: now[key] for key in before} == before, "they are read"
        assert len(now) == 2
    assert moving.said("ServiceReady").reason == "Serving"


def test_the_old_service_serves_until_its_model_cache_has_moved() -> None:
    """A ModelCache says what it keeps, and until it has looked again that is what it kept in the other namespace."""
    rest = at_rest("model-cache")
    moving = rest.edited(defaults("remoteNamespacePrefix", "a-"))
    assert moving.composed("service-") == rest.composed("service-"), "no pod can mount a claim of another namespace"
    assert moving.said("ServiceReady").reason == "Serving"
    for kept in listing(moving.answers[requirements.CACHE], "status.environments"):
        kept |= {"claimName": "there", "namespace": "a-translation"}
    (service,) = moving.composed("service-").values()
    assert text(service, "metadata.namespace") == "a-translation"
    assert text(service, "spec.model.uri").startswith("pvc://there/")


def test_with_a_prefix_a_model_cache_is_placed_on_as_without() -> None:
    control = plane("model-cache", settings=prefixed("a-"))
    assert {said(control, placement, "ServiceReady") for placement in control.all("ModelPlacement")} == {
        ("True", "Serving")
    }


def test_what_a_prefix_of_earlier_releases_named_keeps_its_name() -> None:
    control = plane(SEVERAL_NODES, settings=prefixed("a-"))
    placement = only(control, "ModelPlacement")
    plain = plane(SEVERAL_NODES)
    assert remote(control, placement, "service-").keys() == remote(plain, placement, "service-").keys()


def test_back_and_forth_ends_where_it_began() -> None:
    rest: Scene = at_rest("shared-claim")
    moved = rest.edited(defaults("remoteNamespacePrefix", "a-")).settled()
    back = moved.edited(defaults("remoteNamespacePrefix", ""))
    for prefix in ("claim-", "service-"):
        assert back.composed(prefix).keys() >= rest.composed(prefix).keys()
