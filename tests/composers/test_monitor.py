"""The PodMonitor of a placement, where its environment asks for one."""

from function.kube.manifests import Manifest, get, listing
from tests.support.plane import change, only, plane, remote, said
from tools.control_plane import ControlPlane

STORY = "gemma-one-gpu"
FIELD = "spec.monitoring"


def monitored(**kserve: object) -> ControlPlane:
    """Returns a control plane whose environment asks for PodMonitors."""
    control = plane(STORY)
    environment = only(control, "InferenceEnvironment")
    change(control, environment, FIELD, {"podMonitors": True})
    if kserve:
        change(control, environment, "spec.kserve", kserve)
    control.settle()
    return control


def monitor_of(control: ControlPlane) -> Manifest:
    """Returns the PodMonitor of the only placement; empty without one."""
    return next(iter(remote(control, only(control, "ModelPlacement"), "monitor").values()), {})


def test_adds_the_names_of_the_control_plane_to_the_series() -> None:
    control = monitored()
    placement = control.store[only(control, "ModelPlacement")]
    service = str(get(placement, "status.service.name"))
    labels = {
        "namespace": "chat",
        "deployment": "gemma",
        "placement": get(placement, "metadata.name"),
        "environment": get(placement, "spec.inferenceEnvironmentRef.name"),
        "profile": get(placement, "spec.profile"),
        "pool": get(placement, "spec.pool"),
        "gpus": "1",
    }
    assert monitor_of(control) == {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {
            "name": service,
            "namespace": "chat",
            "labels": {"app.kubernetes.io/managed-by": "modelplane", "modelplane.ai/deployment": "gemma"},
        },
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": service, "kserve.io/component": "workload"}},
            "podMetricsEndpoints": [
                {
                    "portNumber": 8000,
                    "path": "/metrics",
                    "interval": "15s",
                    "relabelings": [{"targetLabel": label, "replacement": name} for label, name in labels.items()],
                }
            ],
        },
    }


def test_engines_with_tls_are_asked_by_https() -> None:
    (found,) = listing(monitor_of(monitored(tls=True)), "spec.podMetricsEndpoints")
    assert (found["scheme"], found["tlsConfig"]) == ("https", {"insecureSkipVerify": True})


def test_changes_nothing_else_and_goes_when_it_is_not_wanted() -> None:
    control = plane(STORY)
    placement = only(control, "ModelPlacement")
    before = control.store.owned(placement)
    change(control, only(control, "InferenceEnvironment"), FIELD, {"podMonitors": True})
    control.settle()
    after = control.store.owned(placement)
    assert after.keys() - before.keys() == {"monitor"}
    assert {key: after[key]["spec"] for key in before} == {key: item["spec"] for key, item in before.items()}
    assert said(control, placement, "Ready")[0] == "True"
    change(control, only(control, "InferenceEnvironment"), FIELD, None)
    control.settle()
    assert monitor_of(control) == {}
