"""The Usage that keeps a ModelCache from being deleted under a placement that reads from it."""

from dataclasses import replace

from function.contract import Composed
from function.kube.manifests import Manifest
from function.weights.cache_usage import KEY, until_moved, usage, usage_name
from tests.builders import placement

MINE = replace(placement(namespace="team"), name="chat-east")


def test_the_whole_of_it() -> None:
    assert usage(MINE, "weights") == {
        "cache-usage": Composed(
            manifest={
                "apiVersion": "protection.crossplane.io/v1beta1",
                "kind": "Usage",
                "metadata": {
                    "name": usage_name(MINE, "weights"),
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


def test_its_name_is_the_placements_and_another_for_each_cache() -> None:
    mine = usage_name(MINE, "weights")
    assert mine.startswith("chat-east-")
    assert mine != usage_name(MINE, "other")
    long, longer = (usage_name(replace(MINE, name="x" * 250 + last), "weights") for last in "ab")
    assert long != longer, "names that are cut stay apart"


def test_that_of_another_cache_stays_until_the_service_has_moved() -> None:
    there = usage(MINE, "before")[KEY].manifest
    uid: Manifest = {"uid": "1", "resourceVersion": "7"}
    observed: Manifest = {**there, "metadata": {**uid, "name": "u"}, "status": {"conditions": []}}
    (kept,) = until_moved({KEY: observed}, usage(MINE, "after")).values()
    assert kept.ready is True
    assert kept.manifest["spec"] == there["spec"]
    assert until_moved({KEY: observed}, {}).keys() == {KEY}, "also where no cache is wanted any more"
    assert until_moved({KEY: observed}, usage(MINE, "before")) == {}, "it is composed as ever"
    assert until_moved({}, usage(MINE, "after")) == {}
