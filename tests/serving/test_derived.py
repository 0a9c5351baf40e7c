"""What is derived stays as it is observed; what somebody said, or says no longer, does not."""

from dataclasses import replace

import pytest

from function.domain.model import Engine, Parallelism, Shape, Spread
from function.kube.manifests import JSON, Manifest, listing, mapping
from function.serving.derived import as_observed, spread_as_observed
from function.serving.request import ServingRequest
from function.serving.service import build
from tests.builders import GIB, shape
from tests.serving.requests import (
    DATA,
    ONE_NODE,
    PIPELINE,
    SGLANG,
    VLLM_DRAINS,
    VLLM_OLD,
    VLLM_RANKS,
    engine,
    request,
)

RANKS = shape(1, 8, Parallelism(tensor=1, data=8, data_local=8))
READY = "VLLM_ENGINE_READY_TIMEOUT_S"


def built(asked: ServingRequest) -> Manifest:
    service = build(asked)
    assert isinstance(service, dict), service
    return service


def kept(asked: ServingRequest, observed: Manifest) -> JSON:
    """Return the spec of a service with what is derived as observed."""
    return as_observed(built(asked), observed, asked)["spec"]


@pytest.mark.parametrize(
    ("shape", "engine"),
    [
        (ONE_NODE, engine()),
        (ONE_NODE, engine(image=SGLANG)),
        (RANKS, engine()),
        (DATA, engine()),
        (DATA, engine(image=VLLM_RANKS)),
        (PIPELINE, engine(image=VLLM_DRAINS)),
        (PIPELINE, engine(image=VLLM_OLD)),
        (PIPELINE, engine(image=SGLANG)),
    ],
)
def test_another_size_changes_nothing(shape: Shape, engine: Engine) -> None:
    before = request(shape, engine, weights=100 * GIB)
    assert kept(replace(before, weights=900 * GIB), built(before)) == built(before)["spec"]


def test_another_script_of_ours_stays_and_another_way_does_not() -> None:
    by_ray = request(PIPELINE, engine(image=VLLM_OLD))
    earlier = built(by_ray)
    for part in ("template", "worker"):
        (main,) = listing(earlier, f"spec.{part}.containers")
        main["command"] = ["/bin/bash", "-c", "of another release", *(["leader"] if part == "template" else [])]
    assert kept(by_ray, earlier) == earlier["spec"]
    itself = request(PIPELINE, engine())
    assert "of another release" not in str(kept(itself, earlier))


def test_a_variable_that_is_said_no_longer_is_ours_again() -> None:
    said = request(RANKS, engine(env=({"name": READY, "value": "7"},)))
    unsaid = request(RANKS, engine())
    assert "7" not in _value(kept(unsaid, built(said)))
    assert _value(kept(said, built(unsaid))) == "7", "and what is said counts at once"


def _value(spec: JSON) -> str:
    (main,) = listing(spec, "template.containers")
    return str(next(entry["value"] for entry in listing(main, "env") if entry["name"] == READY))


@pytest.mark.parametrize(
    ("reason", "pods", "before", "same"),
    [
        ("nobody said anything, and they may", None, Spread.NONE, True),
        ("nobody said anything, and they may not", None, Spread.REQUIRED, False),
        ("somebody says that they may not", Spread.REQUIRED, Spread.NONE, False),
    ],
)
def test_pods_that_may_share_a_node(reason: str, pods: Spread | None, before: Spread, same: bool) -> None:
    asked, observed = request(PIPELINE, pods=pods), built(request(PIPELINE, pods=before))
    spread = spread_as_observed(built(asked), observed, asked)
    assert ("affinity" not in mapping(spread, "spec.worker")) is same, reason
    assert (spread == built(asked)) is not same, reason
