"""A control plane whose processes die between any two steps, and whose every answer is looked at twice."""

from collections.abc import Callable, Iterable, Mapping
from random import Random

from crossplane.function import resource
from crossplane.function.proto.v1.run_function_pb2 import (
    SEVERITY_FATAL,
    Resource,
    RunFunctionRequest,
    RunFunctionResponse,
)
from google.protobuf.struct_pb2 import Struct, Value

from bench.histories.cloud import Cloud
from bench.histories.clusters import Clusters
from bench.histories.nodes import Nodes
from bench.simulator import plane
from bench.simulator.core import Core
from bench.simulator.kernel import Kernel, Process
from bench.simulator.measured import Function, Remembering
from bench.simulator.objects import Version
from bench.simulator.server import ApiServer, ConflictError
from bench.simulator.settings import Settings
from function.api.inference_environment import ENVIRONMENT_CACHE
from function.api.model_deployment import PLACEMENT_CACHE
from function.cli.store import Ref
from function.composers import model_deployment
from function.kube.manifests import Manifest, get, mapping
from function.kube.messages import LIMIT
from function.reasons import OPTIONAL, OWNED
from tools.world import SECRET_VALUE

# One write in so many is core's last before it starts again, and one answer in so many is asked for a second time.
DIES, TWICE = 0.01, 0.03
# Three rounds of requirements, and the call that asks for no more, where what is required stays meanwhile.
MOST_ROUNDS = 3 + 1


class Watched(Remembering):
    """The function. `say` receives what is wrong with its answers."""

    say: Callable[[str], None]
    twice = TWICE

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._drawn = random

    def configure(self, said: Manifest) -> None:
        """Call the function with an input of the pipeline step."""
        self.input = RunFunctionRequest(input=resource.dict_to_struct(said)).SerializeToString()

    def call(self, xr: Ref, request: bytes) -> RunFunctionResponse:
        """Return the response, once it was looked at. Every second request was made before, byte for byte."""
        self.meter.calls[xr.kind] += 1
        key = self._key(request)
        if xr.kind == "ModelService":
            self._answers.pop(key, None)  # its answers depend on the time, to the second
        first = key not in self._answers
        response = self._answer(request)
        for wrong in (*(_wrong(xr, response) if first else ()), *self._differs(request, response if first else None)):
            self.say(f"{xr}: {wrong}")
        return response

    def _differs(self, request: bytes, response: RunFunctionResponse | None) -> Iterable[str]:
        """Yield that the function answers differently when asked again; `response`: None if it was given earlier.

        An orphan counts as gone after a while, so an earlier answer may be another one.
        """
        if self._drawn.random() < self.twice:
            response = response or Function._answer(self, request)  # noqa: SLF001  # asked, not remembered
            forget()
            again = Function._answer(self, shuffled(request, self._drawn))  # noqa: SLF001  # asked, not remembered
            if again.SerializeToString(deterministic=True) != response.SerializeToString(deterministic=True):
                yield "the same state in another order, with nothing remembered, has another answer"


def _wrong(xr: Ref, response: RunFunctionResponse) -> Iterable[str]:
    """Yield what no answer may be."""
    if any(result.severity == SEVERITY_FATAL for result in response.results):
        yield "a fatal result"
    if {c.type for c in response.conditions} - OPTIONAL != {*OWNED.get(xr.kind, ())} - OPTIONAL:
        yield f"conditions are {[condition.type for condition in response.conditions]}"
    if any(condition.reason == "InternalError" for condition in response.conditions):
        yield "an internal error"
    said = [*(c.message for c in response.conditions), *(r.message for r in response.results)]
    if any(len(message.encode()) > LIMIT for message in said):
        yield "a message without bound"
    if SECRET_VALUE.encode() in response.SerializeToString():
        yield "the value of a Secret"
    for name, item in response.desired.resources.items():
        if xr.namespace and _namespace(item.resource) not in ("", xr.namespace):
            yield f"{name} is composed in another namespace"


def _namespace(manifest: Struct) -> str:
    """Return the namespace of a manifest, of which nothing else is looked at; a map that is indexed would grow."""
    metadata = manifest.fields.get("metadata") or Value()
    found: str = (metadata.struct_value.fields.get("namespace") or Value()).string_value
    return found


def shuffled(request: bytes, random: Random) -> bytes:
    """Return the same request with its lists of required resources in another order."""
    message = RunFunctionRequest.FromString(request)
    for found in message.required_resources.values():
        items = [*found.items]
        random.shuffle(items)
        del found.items[:]
        found.items.extend(items)
    found_bytes: bytes = message.SerializeToString()
    return found_bytes


def forget() -> None:
    """Let nothing be remembered from earlier calls, as after a restart."""
    ENVIRONMENT_CACHE.__init__(ENVIRONMENT_CACHE._parse)  # type: ignore[misc]  # noqa: SLF001  # as it was made
    PLACEMENT_CACHE.__init__(PLACEMENT_CACHE._parse)  # type: ignore[misc]  # noqa: SLF001  # as it was made
    model_deployment.VERDICT_CACHE.__init__()  # type: ignore[misc]  # as it was made
    model_deployment.WAYS_OUT.__init__()  # type: ignore[misc]  # as it was made


class DyingCore(Core):
    """Crossplane's core, which may end between any two of its writes and begin again with what is there."""

    function: Watched

    def __init__(self, kernel: Kernel, settings: Settings, random: Random, server: ApiServer) -> None:
        drawn = Random(settings.seed)  # noqa: S311  # the same history for the same seed
        super().__init__(kernel, settings, random, server, Watched(drawn))
        self._dying, self.deaths = Random(f"{settings.seed} dies"), 0  # noqa: S311  # likewise

    def _dies(self) -> bool:
        dies = self._dying.random() < DIES
        self.deaths += dies
        return dies

    def _wanted(self, xr: Version, name: str, item: Resource, observed: Version | None) -> Manifest:
        """What the provider wrote into a Secret stays: it is not core's (docs/facts.md, provider-kubernetes)."""
        wanted = super()._wanted(xr, name, item, observed)
        there = self._server.latest.get(Ref.of(wanted))
        data = get(there.manifest, "spec.forProvider.manifest.data") if there else None
        if data:
            mapping(wanted, "spec.forProvider.manifest")["data"] = data
        return wanted

    def _patch(self, xr: Version, change: Callable[[Manifest], Manifest], version: str = "") -> "Process[Version]":
        if self._dies():
            raise ConflictError("died")
        return (yield from super()._patch(xr, change, version))

    def _apply(self, xr: Version, wanted: Mapping[str, Manifest]) -> "Process[list[str]]":
        if wanted and self._dies():
            some = self._dying.sample(sorted(wanted), self._dying.randint(0, len(wanted) - 1))
            yield from super()._apply(xr, {name: wanted[name] for name in some})
            raise ConflictError("died")
        return (yield from super()._apply(xr, wanted))


class Plane(plane.Plane):
    """A control plane, with clusters on which not all goes well."""

    provider: Clusters
    core: DyingCore

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        random = Random(settings.seed)  # noqa: S311  # the same history for the same seed
        self.server = ApiServer(self.kernel, self.settings)
        self.core = DyingCore(self.kernel, settings, random, self.server)
        self.provider = Clusters(self.kernel, settings, random, self.server)
        self.nodes = Nodes(self.server, self.provider)
        self.cloud = Cloud(self.kernel, settings, self.server)
        self.server.watchers.append(self._count)
