"""The largest request and response of each kind, in bytes, against what Crossplane reads of a response.

Composites at the maxima of their schemas are brought from their creation to rest, and then changed once. Every call
passes through protobuf, and the largest message of each kind counts.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import click
from crossplane.function import logging
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from bench.fleet import CACHE, DEPLOYMENT, MODEL, MODEL_REF, environment
from function.cli.store import Ref, Store
from function.composers import COMPOSERS
from function.contract import RESPONSE_BYTES
from function.kube.manifests import JSON, Manifest, listing, mapping, text
from function.reasons import CallFailure
from function.runner import Runner
from tools.control_plane import ControlPlane, Rendered, UnsettledError
from tools.engine import Engine
from tools.remote_stages import Clusters, StepByStep

NAMED, SELECTED, POOLS, LEDGER = 100, 300, 32, 4_000
# A round brings remote objects one stage further, and a ModelCache that waits for room composes a part in each.
_ROUNDS = 40


_LAST = 9  # no remote object has more stages


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOnce(StepByStep):
    """Everything is up as soon as it is composed."""

    def advance(self, resource: Manifest, step: int) -> Manifest:
        """Return a resource as observed in the end, whatever the step."""
        return StepByStep.advance(self, resource, max(step, _LAST))


_AT_ONCE = AtOnce()


@dataclass(frozen=True, slots=True)
class _Only:
    """Reconciles composites of some kinds, and leaves others as they are."""

    engine: Engine
    kinds: Sequence[str]

    def render(self, store: Store, refs: Sequence[Ref]) -> list[Rendered]:
        """Return what a reconcile makes of each of some composites."""
        reconciled = [ref for ref in refs if ref.kind in self.kinds]
        made = dict(zip(reconciled, self.engine.render(store, reconciled), strict=True))
        return [made.get(ref) or Rendered(composite=store[ref], composed={}) for ref in refs]


@dataclass(slots=True)
class Sizes:
    """A function that measures: the largest request and response, and those of the last call, by kind.

    `refused` counts responses that were replaced because they were too large.
    """

    requests: dict[str, int] = field(default_factory=dict)
    responses: dict[str, int] = field(default_factory=dict)
    last: dict[str, tuple[int, int]] = field(default_factory=dict)
    refused: int = 0

    def __call__(self, request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
        """Answer one call."""
        kind = request.observed.composite.resource["kind"]
        sent = request.SerializeToString()
        response = _answer(sent)
        self.refused += any(c.reason == CallFailure.TOO_LARGE for c in response.conditions if c.type != "Hydrated")
        self.last[kind] = len(sent), response.ByteSize()
        self.requests[kind] = max(len(sent), self.requests.get(kind, 0))
        self.responses[kind] = max(response.ByteSize(), self.responses.get(kind, 0))
        return response


def _answer(request: bytes) -> fnv1.RunFunctionResponse:
    answering = Runner().RunFunction(request, None)
    try:
        answering.send(None)
    except StopIteration as answered:
        response: fnv1.RunFunctionResponse = answered.value
        return response
    raise AssertionError("the function awaits something")


def plane(sizes: Sizes, world: Clusters, kinds: Sequence[str], *objects: Manifest) -> ControlPlane:
    """Return a control plane with objects, of which those of some kinds are reconciled."""
    control = ControlPlane(renderer=_Only(Engine(sizes), kinds), world=world)
    control.apply(objects)
    return control


def rest(control: ControlPlane) -> ControlPlane:
    """Reconcile until nothing changes, or often enough."""
    for _ in range(_ROUNDS):
        before = dict(control.store)
        control.advance()
        if before == dict(control.store):
            return control
    raise UnsettledError(f"still changing after {_ROUNDS} rounds")


def cached(sizes: Sizes, count: int, *, named: bool, world: Clusters = _AT_ONCE) -> ControlPlane:
    """Return a plane with a ModelCache of so many environments, hydrated."""
    environments = [environment(number) for number in range(count)]
    names: list[JSON] = [text(each, "metadata.name") for each in environments]
    labels: Manifest = {"matchLabels": {"modelplane.ai/tier": "production"}}
    where: Manifest = {"environments": names} if named else {"environmentSelector": labels}
    spec: Manifest = {"modelRef": MODEL_REF, "storage": {"size": "1Ti"}, **where}
    return rest(plane(sizes, world, ("ModelCache",), MODEL, *environments, {**CACHE, "spec": spec}))


def revise(control: ControlPlane) -> ControlPlane:
    """Give the model another revision: other bytes, on a claim of their own."""
    model = copy.deepcopy(MODEL)
    mapping(model, "spec.huggingFace")["revision"] = "another"
    control.apply([model])
    return rest(control)


def deployed(sizes: Sizes, count: int, *kinds: str) -> ControlPlane:
    """Return a plane with a deployment on so many environments, serving, with the most flags and variables."""
    model = copy.deepcopy(MODEL)
    (profile,) = listing(model, "spec.serving")
    env: list[JSON] = [{"name": f"VARIABLE_{n:02}", "value": "v" * 200} for n in range(64)]
    arguments: list[JSON] = [f"--argument-{n:03}={'v' * 200}" for n in range(128 - 2)]
    mapping(profile, "engine").update({"args": arguments, "env": env})
    environments = [_new(number) if "InferenceEnvironment" in kinds else environment(number) for number in range(count)]
    deployment: Manifest = {**DEPLOYMENT, "spec": {"modelRef": {"name": "kimi-k2"}, "environments": count}}
    return rest(plane(sizes, StepByStep(), kinds, model, *environments, deployment))


def ledger(sizes: Sizes) -> ControlPlane:
    """Return a plane with an environment of the most pools and the most placements that are admitted."""
    found = environment(0)
    (pool,) = listing(found, "spec.nodePools")
    pools: list[JSON] = [{**pool, "name": f"pool-{n:02}", "labels": {"pool": f"{n:02}"}} for n in range(POOLS)]
    for each in pools:
        assert isinstance(each, dict)
        each["maxNodeCount"] = 2 * LEDGER // POOLS
    mapping(found, "spec")["nodePools"] = pools
    placements = [_placed(n) for n in range(LEDGER)]
    control = plane(sizes, _AT_ONCE, ("InferenceEnvironment",), MODEL, found, *placements)
    control.advance()
    return control


def _placed(number: int) -> Manifest:
    name = f"{'placement-of-a-long-name' * 2}-{number:04}"
    return {
        "apiVersion": DEPLOYMENT["apiVersion"],
        "kind": "ModelPlacement",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"00000007-0000-4000-8000-{number:012}",
            "creationTimestamp": "2026-10-01T12:00:00Z",
            "labels": {"modelplane.ai/environment": "environment-0000"},
        },
        "spec": {
            "modelRef": MODEL_REF,
            "deploymentRef": {"name": name},
            "inferenceEnvironmentRef": {"name": "environment-0000"},
            "profile": "multinode",
            "pool": f"pool-{number % POOLS:02}",
            "topology": {"nodes": 2, "gpusPerNode": 8, "parallelism": {"tensor": 8, "pipeline": 2}},
            "replicas": 1,
        },
    }


def _cache(count: int, *, named: bool) -> Callable[[Sizes], object]:
    return lambda sizes: revise(cached(sizes, count, named=named))


STORIES: dict[str, tuple[str, Callable[[Sizes], object]]] = {
    f"{NAMED} named environments, then another revision": ("ModelCache", _cache(NAMED, named=True)),
    f"{SELECTED} selected environments, then another revision": ("ModelCache", _cache(SELECTED, named=False)),
    "100 environments": ("ModelDeployment", lambda sizes: deployed(sizes, 100, "ModelDeployment")),
    "128 arguments, 64 variables": ("ModelPlacement", lambda sizes: deployed(sizes, 1, *COMPOSERS)),
    f"{POOLS} pools, {LEDGER:,} placements": ("InferenceEnvironment", ledger),
}


def steady() -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield request and response of a call at rest, of a placement whose weights are on a claim and of a cache."""
    sizes = Sizes()
    rest(plane(sizes, StepByStep(), tuple(COMPOSERS), MODEL, *map(_new, range(3)), DEPLOYMENT))
    yield "ModelPlacement", sizes.last["ModelPlacement"]
    cached(sizes, 1, named=True)
    yield "ModelCache", sizes.last["ModelCache"]


def _new(number: int) -> Manifest:
    return {key: value for key, value in environment(number).items() if key != "status"}


def main() -> None:
    """Measure and print."""
    logging.configure(logging.Level.DISABLED)
    click.echo(f"Crossplane reads {RESPONSE_BYTES:,} bytes of a response")
    for name, (kind, story) in STORIES.items():
        sizes = Sizes()
        story(sizes)
        click.echo(f"{kind:<22}{name:<56}request {sizes.requests[kind]:>11,}   response {sizes.responses[kind]:>11,}")
    for kind, (request, response) in steady():
        click.echo(f"{kind:<22}{'at rest':<56}request {request:>11,}   response {response:>11,}")


if __name__ == "__main__":
    main()
