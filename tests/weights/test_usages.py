"""The Usage that keeps a ModelCache from being deleted under a placement that reads from it."""

from dataclasses import replace

from function.contract import Composed, Desired
from function.domain.placement import Placement
from function.kube.manifests import Manifest, text
from function.kube.names import build_name
from function.weights.consumers import USAGE_KEY, build_usage, decide_usage
from tests.support.builders import placement

MINE = replace(placement(namespace="team"), name="chat-east")


def name_usage(of: Placement, cache: str) -> str:
    return text(build_usage(of, cache)[USAGE_KEY].manifest, "metadata.name")


def test_builds_usage() -> None:
    assert build_usage(MINE, "weights") == {
        "cache-usage": Composed(
            manifest={
                "apiVersion": "protection.crossplane.io/v1beta1",
                "kind": "Usage",
                "metadata": {
                    "name": build_name("chat-east", "chat-east", "weights"),
                    "namespace": "team",
                    "labels": {"app.kubernetes.io/managed-by": "modelplane"},
                },
                "spec": {
                    "of": {
                        "apiVersion": "modelplane.ai/v1alpha1",
                        "kind": "ModelCache",
                        "resourceRef": {"name": "weights"},
                    },
                    "by": {
                        "apiVersion": "modelplane.ai/v1alpha1",
                        "kind": "ModelPlacement",
                        "resourceRef": {"name": "chat-east"},
                    },
                    "reason": "ModelPlacement chat-east serves from it",
                },
            },
            ready=True,
        )
    }


def test_names_usage_by_placement_and_cache() -> None:
    mine = name_usage(MINE, "weights")
    assert mine.startswith("chat-east-")
    assert mine != name_usage(MINE, "other")
    long, longer = (name_usage(replace(MINE, name="x" * 250 + last), "weights") for last in "ab")
    assert long != longer, "truncated names stay distinct"


def test_carries_over_usage_until_service_has_moved() -> None:
    there = build_usage(MINE, "before")[USAGE_KEY].manifest
    uid: Manifest = {"uid": "1", "resourceVersion": "7"}
    observed: Manifest = {**there, "metadata": {**uid, "name": "u"}, "status": {"conditions": []}}
    before, after = build_usage(MINE, "before"), build_usage(MINE, "after")

    def decide(cache: str, seen: Manifest | None, *, may_read_previous: bool = True) -> Desired:
        existing = {USAGE_KEY: seen} if seen else {}
        return decide_usage(MINE, cache, existing, may_read_previous=may_read_previous)

    (kept,) = decide("after", observed).composed.values()
    assert kept.ready is True
    assert kept.manifest["spec"] == there["spec"]
    assert decide("", observed).composed.keys() == {USAGE_KEY}, (
        "the Usage stays, although the placement no longer names a cache"
    )
    assert decide("before", observed) == Desired(before), "the Usage is composed unchanged"
    assert decide("after", None) == decide("after", observed, may_read_previous=False) == Desired(after)
    assert [drop.key for drop in decide("", observed, may_read_previous=False).drops] == [USAGE_KEY]
