"""Crossplane core's reconcile of one XR, in its order, with its conflicts.

What it composed it knows from the references of the XR as it sees it; such a resource is read from the cache, or from
the API server where the cache has none. What is no longer desired is deleted first, in the foreground, by a write that
conflicts if it was seen too late; then references, then what is desired in random order, status, conditions. Only a
reconcile that came to its end changes what the XR depends on.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from random import Random

from crossplane.function.proto.v1.run_function_pb2 import Resource, RunFunctionResponse

from bench.simulator import writes
from bench.simulator.cache import Cache
from bench.simulator.kernel import Kernel, Process, Servers
from bench.simulator.measured import Function
from bench.simulator.objects import Event, Version, finalizers, with_finalizers
from bench.simulator.rounds import FailedError, Rounds
from bench.simulator.server import ApiServer, ConflictError
from bench.simulator.settings import Settings
from bench.simulator.tracker import Tracker
from bench.simulator.workqueue import WorkQueue
from function.cli.store import Ref
from function.composers import COMPOSERS
from function.kube.manifests import Manifest, integer, listing, mapping, strings, text
from function.wire import read_struct as as_manifest

FINALIZER = "composite.apiextensions.crossplane.io"
PAUSED = "crossplane.io/paused"


class Core:
    """The XR controllers. `quiet`: who asks for every object of a kind is not woken by one."""

    def __init__(
        self, kernel: Kernel, settings: Settings, random: Random, server: ApiServer, function: Function | None = None
    ) -> None:
        self._kernel, self._settings, self._random, self._server = kernel, settings, random, server
        self.function = function or Function()
        self.function.clock = server.now
        self.cache = Cache(kernel, settings, random, self._wake)
        server.watchers.append(self.cache.receive)
        self._processors = Servers(settings.core_processors)
        self._rounds = Rounds(kernel, settings, self.cache, self.function, self._processors)
        self._trackers = {kind: Tracker() for kind in COMPOSERS}
        self._queues = {kind: WorkQueue(kernel, settings.workers, self._reconcile) for kind in COMPOSERS}
        self._applied: dict[str, dict[Ref, Manifest]] = defaultdict(dict)
        self.quiet = False

    def wake(self, ref: Ref) -> None:
        """Have an XR reconciled."""
        self._queues[ref.kind].add(ref)

    def _wake(self, event: Event) -> None:
        """Old and new version both wake, once for an event (controller-runtime, `EnqueueRequestsFromMapFunc`), and each
        is a token of the circuit breaker unless the object is going.
        """
        woken: dict[Ref, None] = {}
        for version in filter(None, (event.before, event.now)):
            for kind, tracker in self._trackers.items():
                found = tracker.dependants(version, quiet=self.quiet)
                if kind == version.ref.kind:
                    found.append(version.ref)
                for ref in found:
                    self.function.meter.tokens[ref] += not version.deleting
                    woken[ref] = None
        for ref in woken:
            self.wake(ref)

    def _reconcile(self, ref: Ref) -> "Process[float | None]":
        yield from self._kernel.busy(self._processors, self._settings.core_seconds)
        seen = self.cache.get(ref)
        if seen is None:
            self._trackers[ref.kind].forget(ref)
            return 0.0
        if strings(seen.manifest, "metadata.annotations").get(PAUSED) == "true":
            return 0.0
        try:
            if seen.deleting:
                yield from self._release(seen)
                return 0.0
            return (yield from self._compose(seen))
        except (ConflictError, FailedError) as error:
            self.function.meter.failed["conflict" if isinstance(error, ConflictError) else str(error)] += 1
            return None

    def _release(self, seen: Version) -> "Process[None]":
        if FINALIZER in finalizers(seen.manifest):
            yield self._settings.api_seconds
            left = [name for name in finalizers(seen.manifest) if name != FINALIZER]
            self._server.update(seen, with_finalizers(seen.manifest, left))
        self._trackers[seen.ref.kind].forget(seen.ref)
        self._applied.pop(seen.uid, None)

    def _compose(self, seen: Version) -> "Process[float]":
        xr = yield from self._initialised(seen)
        observed = self._observed(xr)
        tracker = self._trackers[xr.ref.kind]
        response, asked = yield from self._rounds.run(xr, observed, tracker.required(xr.ref))
        desired = response.desired.resources
        yield from self._collect({name: version for name, version in observed.items() if name not in desired})
        wanted = {name: self._wanted(xr, name, item, observed.get(name)) for name, item in desired.items()}
        yield from self._patch(xr, lambda now: writes.with_references(now, wanted.values()))
        unsynced = yield from self._apply(xr, wanted)
        tracker.track(xr.ref, map(Ref.of, wanted.values()), asked)
        yield from self._report(xr, response, unsynced)
        ttl = float(response.meta.ttl.seconds) if self._settings.ttl else 0.0
        return ttl * self._random.uniform(0.9, 1.1)

    def _initialised(self, xr: Version) -> "Process[Version]":
        """Give a new XR its finalizer and its composition, each a write that may conflict."""
        manifest = xr.manifest
        if FINALIZER not in finalizers(manifest):
            manifest = with_finalizers(manifest, [*finalizers(manifest), FINALIZER])
            yield self._settings.api_seconds
            xr = self._server.update(xr, manifest)
        for field in ("compositionRef", "compositionRevisionRef"):
            if field not in mapping(xr.manifest, "spec.crossplane"):
                yield self._settings.api_seconds
                xr = self._server.update(xr, writes.with_core(xr.manifest, field, f"{xr.ref.kind.lower()}s-1234567"))
        return xr

    def _observed(self, xr: Version) -> dict[str, Version]:
        observed: dict[str, Version] = {}
        for reference in listing(xr.manifest, "spec.crossplane.resourceRefs"):
            namespace = xr.ref.namespace or text(reference, "namespace")
            ref = Ref(text(reference, "kind"), namespace, text(reference, "name"))
            there = self.cache.get(ref) or self._server.latest.get(ref)
            if there and not writes.is_anothers(there, xr):
                observed[there.key] = there
        return observed

    def _collect(self, undesired: Mapping[str, Version]) -> "Process[None]":
        for name in self._shuffled(undesired):
            seen = undesired[name]
            if not seen.controller:
                continue
            yield self._settings.api_seconds
            if seen.ref in self._server.latest:
                self._server.update(seen, writes.unlabelled(seen.manifest))
                self._server.delete(seen.ref, foreground=True)

    def _wanted(self, xr: Version, name: str, item: Resource, observed: Version | None) -> Manifest:
        manifest = as_manifest(item.resource)
        return writes.composed(xr, name, observed.ref if observed else writes.child(xr.ref, manifest), manifest)

    def _apply(self, xr: Version, wanted: Mapping[str, Manifest]) -> "Process[list[str]]":
        """Apply in random order; return what an API server refuses as it is another's."""
        unsynced = []
        for name in self._shuffled(wanted):
            yield self._settings.api_seconds
            manifest, ref = wanted[name], Ref.of(wanted[name])
            there = self._server.latest.get(ref)
            version = text(manifest, "metadata.resourceVersion")
            assert "uid" not in mapping(manifest, "metadata"), "core would list it, and the list's schema knows none"
            if there and version not in ("", str(there.number)):
                raise ConflictError(str(ref))  # as the API server; a version of what is not there is made
            if there is None:
                self._server.create(manifest)
                self.function.meter.made[ref.kind] += 1
            elif writes.is_anothers(there, xr):
                unsynced.append(name)
                continue
            else:
                before = self._applied[xr.uid].get(ref, {})
                self._server.put(ref, writes.applied(there.manifest, manifest, before))
            self._applied[xr.uid][ref] = manifest
        return unsynced

    def _report(self, xr: Version, response: RunFunctionResponse, unsynced: list[str]) -> "Process[None]":
        composite = as_manifest(response.desired.composite.resource)
        status = mapping(composite, "status")
        version = text(composite, "metadata.resourceVersion")
        patched = yield from self._patch(xr, lambda now: writes.with_status(now, status), version)
        generation = integer(patched.manifest, "metadata.generation")
        conditions = writes.conditions(response, generation, unsynced)
        final = writes.with_conditions(patched.manifest, conditions, self._server.time())
        if writes.changed(xr.manifest, final):
            yield self._settings.api_seconds
            self._server.update(patched, final)

    def _patch(self, xr: Version, change: Callable[[Manifest], Manifest], version: str = "") -> "Process[Version]":
        """Change the XR as it is by then: a server-side apply conflicts only where it names a version."""
        yield self._settings.api_seconds
        now = self._server.latest.get(xr.ref)
        if now is None or now.uid != xr.uid or version not in ("", str(now.number)):
            raise ConflictError(str(xr.ref))
        return self._server.put(xr.ref, change(now.manifest))

    def _shuffled(self, names: Mapping[str, object]) -> list[str]:
        return self._random.sample(sorted(names), len(names))
