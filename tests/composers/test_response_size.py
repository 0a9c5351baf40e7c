"""Crossplane limits the size of a response, and the response of every composite is within this limit."""

import asyncio
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from bench import sizes
from bench.fleet import CACHE, MODEL, environment
from function import composers
from function.composers import model_cache as composer
from function.contract import RESPONSE_BYTES, Call, Composed, Outcome
from function.kube.manifests import JSON, Manifest, condition, get, listing, mapping, text
from function.reasons import CallFailure
from function.runner import Runner
from function.status import weights
from tests.support.plane import only, plane, request_of
from tools.control_plane import ControlPlane, Round
from tools.remote_stages import StepByStep

# What is beyond it is composed in parts, which costs a minute: see the tests with a smaller bound.
STORIES = {name: story for name, story in sizes.STORIES.items() if "selected" not in name}
ENVIRONMENTS = 12


@pytest.mark.parametrize("name", STORIES)
def test_largest_response_of_kind_is_read_by_crossplane(name: str) -> None:
    kind, story = STORIES[name]
    measured = sizes.Sizes()
    story(measured)
    assert 0 < measured.responses[kind] < RESPONSE_BYTES
    assert measured.refused == 0


def bounded(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let Crossplane read so many bytes of what a ModelCache composes."""
    for module in (composer, weights):
        monkeypatch.setattr(module, "RESPONSE_BYTES", size)


def rows(control: ControlPlane) -> dict[str, tuple[str, str]]:
    """Return phase and message of each environment of the cache."""
    status = listing(control.composites[only(control, "ModelCache")], "status.environments")
    return {text(row, "name"): (text(row, "phase"), text(row, "message")) for row in status}


def reason(control: ControlPlane) -> str:
    return text(condition(control.composites[only(control, "ModelCache")], "Hydrated"), "reason")


def remotes(made: Round, kind: str) -> list[Manifest]:
    """Return the remote manifests of a kind that composites compose in a round."""
    return [m for rendered in made.rendered.values() for m in rendered.remote.values() if m["kind"] == kind]


def mounted(resource: Manifest) -> set[str]:
    """Return the ConfigMaps that the pods of a Job mount which is not complete."""
    if get(resource, "spec.managementPolicies") != ["*"]:
        return set()
    volumes = listing(resource, "spec.forProvider.manifest.spec.template.spec.volumes")
    return {text(volume, "configMap.name") for volume in volumes} - {""}


@pytest.mark.parametrize("named", [True, False], ids=["named", "selected"])
def test_hydrates_environments_in_parts(monkeypatch: pytest.MonkeyPatch, named: bool) -> None:
    bound = 300_000  # 128 KiB of it for what is not composed, and some 32 kB for each environment with a download
    bounded(monkeypatch, bound)
    measured = sizes.Sizes()
    control = sizes.cached(measured, ENVIRONMENTS, named=named, world=StepByStep())
    assert measured.responses["ModelCache"] <= bound
    composed = [made.rendered[only(control, "ModelCache")].composed for made in control.rounds]
    scripts = [sum("/scripts-" in key for key in each) for each in composed]
    assert 0 < max(scripts) < ENVIRONMENTS
    assert scripts[-1] == 0
    assert reason(control) == "Hydrated"
    for each in control.rounds:
        for resource in each.rendered[only(control, "ModelCache")].composed.values():
            assert mounted(resource) <= {text(made, "metadata.name") for made in remotes(each, "ConfigMap")}
    for earlier, later in itertools.pairwise(composed):
        assert all("/scripts-" in key for key in earlier.keys() - later.keys()), (
            "only ConfigMaps with scripts are removed"
        )
    before = {key for key in composed[-1] if "/claim-" in key}
    sizes.revise(control)
    assert measured.responses["ModelCache"] <= bound
    assert reason(control) == "Hydrated"
    after = {key for key in control.rounds[-1].rendered[only(control, "ModelCache")].composed if "/claim-" in key}
    assert (len(before), len(after), before & after) == (ENVIRONMENTS, ENVIRONMENTS, set())


def test_counts_all_that_an_environment_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uncounted bytes of one environment add up over hundreds, and the whole response would be too large."""
    few, many = (measure_full(monkeypatch, count) for count in (2, 2 + ENVIRONMENTS))
    taken, counted = (more - less for less, more in zip(few, many, strict=True))
    assert taken <= counted <= taken + ENVIRONMENTS * 1024


def measure_full(monkeypatch: pytest.MonkeyPatch, count: int) -> tuple[int, int]:
    """Return the bytes of the response with so many hydrated environments, and as counted with one that waits."""
    monkeypatch.setattr(sizes, "environment", lambda number: named_at_length(environment(number)))
    measured = sizes.Sizes()
    with monkeypatch.context() as patch:
        control = sizes.cached(measured, count, named=False, world=StepByStep())
        size = measured.last["ModelCache"][1]
        bounded(patch, 1)
        waiting = named_at_length(environment(count))
        control.apply([waiting])
        control.advance()
        _, message = rows(control)[text(waiting, "metadata.name")]
    (would_be,) = re.findall("would have ([0-9,]+) bytes", message)
    return size, int(would_be.replace(",", ""))


def named_at_length(manifest: Manifest) -> Manifest:
    mapping(manifest, "metadata")["name"] = f"{text(manifest, 'metadata.name')}-{'x' * 48}"
    return manifest


@dataclass(frozen=True, kw_only=True)
class Broken(StepByStep):
    """Clusters on which downloads of the first revision end as `status` says."""

    status: Manifest

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return the Object; the Job in it has this status."""
        observed = StepByStep.advance(self, resource, step)
        job = mapping(observed, "status.atProvider.manifest")
        if job.get("kind") == "Job" and "main" in str(listing(job, "spec.template.spec.containers")[0]["args"]):
            job["status"] = self.status
        return observed


RUNS: Manifest = {"active": 1}
FAILED: Manifest = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
COMPLETE: Manifest = {"conditions": [{"type": "Complete", "status": "True"}]}


@pytest.mark.parametrize(
    ("status", "then", "begun"), [(FAILED, FAILED, 12), (RUNS, COMPLETE, 5)], ids=["failed", "running"]
)
def test_downloads_new_revision_where_earlier_one_is_missing(
    monkeypatch: pytest.MonkeyPatch, status: Manifest, then: Manifest, begun: int
) -> None:
    """Failed downloads leave room for others; those that run leave it once they end."""
    bounded(monkeypatch, 350_000)
    measured, world = sizes.Sizes(), Broken(status={**status})
    control = sizes.cached(measured, ENVIRONMENTS, named=True, world=world)
    assert sum(phase in ("Failed", "Downloading") for phase, _ in rows(control).values()) == begun
    world.status.clear()
    world.status.update(then)
    sizes.revise(control)
    assert reason(control) == "Hydrated"
    assert measured.responses["ModelCache"] <= 350_000


def on_two_environments() -> ControlPlane:
    environments: list[Manifest] = [environment(number) for number in range(2)]
    names: list[JSON] = [text(each, "metadata.name") for each in environments]
    spec: Manifest = {**mapping(CACHE, "spec"), "environments": names}
    return sizes.plane(sizes.Sizes(), StepByStep(), ("ModelCache",), MODEL, *environments, {**CACHE, "spec": spec})


def test_environment_beyond_response_size_reports_why(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(monkeypatch, 180_000)
    control = on_two_environments()
    control.advance()
    first, second = rows(control).values()
    assert "waiting" not in first[1]
    assert second[0] == "Pending"
    assert second[1].startswith("waiting for other environments: the response would have ")
    assert second[1].endswith(" bytes, the limit is 180,000")
    assert reason(control) == "Downloading", "the other download continues"


def test_full_response_delays_only_what_would_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is composed already stays as it is, and its row says so, even where it alone exceeds the limit."""
    bounded(monkeypatch, 180_000)
    control = on_two_environments()
    control.advance()
    first, second = rows(control).values()
    assert (first[0], second[0]) == ("Downloading", "Pending")
    bounded(monkeypatch, 100_000)
    control.advance()
    unchanged, waiting = rows(control).values()
    assert unchanged == first
    assert waiting[1].endswith(" bytes, the limit is 100,000")


def test_condition_names_both_sizes_when_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(monkeypatch, 140_000)
    control = sizes.cached(sizes.Sizes(), 1, named=True)
    found = condition(control.composites[only(control, "ModelCache")], "Hydrated")
    assert (text(found, "status"), text(found, "reason")) == ("False", "ResponseTooLarge")
    assert "the limit is 140,000" in text(found, "message")
    assert control.store.owned(only(control, "ModelCache")) == {}


def answered(runner: Runner, request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
    return asyncio.run(runner.RunFunction(request.SerializeToString(), None))


def larger(call: Call) -> Outcome:
    """Composes more than Crossplane reads."""
    outcome = composers.compose(call)
    large: Mapping[str, Composed] = {"large": Composed(manifest={"data": "x" * RESPONSE_BYTES}, ready=True)}
    return Outcome(composed={**outcome.composed, **large})


def test_keeps_observed_resources_when_response_is_too_large() -> None:
    control = plane("kimi-k2-two-nodes")
    request = request_of(control, only(control, "ModelPlacement"))
    response = answered(Runner(compose=larger), request)
    assert response.ByteSize() < RESPONSE_BYTES
    assert response.desired.resources.keys() == request.observed.resources.keys()
    assert {c.reason for c in response.conditions} == {"ResponseTooLarge"}
    (message,) = {c.message for c in response.conditions}
    assert message.startswith(
        "The response for this object is larger than Crossplane reads. Running workloads are not affected. It has "
    )
    assert message.endswith(" bytes; Crossplane reads at most 4,194,304")


def test_fatal_result_when_observed_resources_are_too_large() -> None:
    control = plane("kimi-k2-two-nodes")
    request = request_of(control, only(control, "ModelPlacement"))

    def kept(call: Call, _: CallFailure, __: str) -> Outcome:
        return larger(call)

    response = answered(Runner(compose=larger, recover=kept), request)
    (result,) = response.results
    assert result.severity == fnv1.SEVERITY_FATAL
    assert result.message.startswith("ResponseTooLarge: It has 4,")
    assert not response.desired.resources
