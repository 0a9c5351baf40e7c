"""provider-kubernetes and the clusters behind it: an Object's remote object comes up in the stages of its kind."""

from random import Random

from bench.simulator.kernel import Kernel, Process
from bench.simulator.objects import Event, Version, finalizers, with_annotations, with_finalizers
from bench.simulator.server import ApiServer
from bench.simulator.settings import Settings
from function.kube.manifests import Manifest, get, mapping, text
from function.remote.object_writer import ManagementPolicy
from tools.remote_stages import STAGES, reported

FINALIZER = "finalizer.managedresource.crossplane.io"
_MARKS = "crossplane.io/external-create-pending", "crossplane.io/external-create-succeeded"


class Provider:
    """Looks at each Object when it is made or changed, and deletes the remote object before it goes."""

    def __init__(self, kernel: Kernel, settings: Settings, random: Random, server: ApiServer) -> None:
        self._kernel, self._settings, self._random, self._server = kernel, settings, random, server
        self._steps: dict[str, int] = {}
        self._idle: set[str] = set()  # Objects that were made when they were to make nothing
        server.watchers.append(self._watch)

    def _watch(self, event: Event) -> None:
        before, now = event.before, event.now
        if event.ref.kind != "Object" or now is None:
            return
        if before is None:
            self._kernel.spawn(self._create(now))
        elif now.deleting and not before.deleting:
            self._kernel.spawn(self._delete(now))
        elif get(now.manifest, "spec") != get(before.manifest, "spec"):
            self._kernel.spawn(self._update(now))

    def _create(self, made: Version) -> "Process[None]":
        yield self._jitter(self._settings.provider_seconds)
        if makes_nothing(made.manifest):
            self._idle.add(made.uid)
            return
        if get(made.manifest, "spec.managementPolicies") != ["Observe"]:
            for mark in _MARKS:
                now = self._alive(made)
                if now is None:
                    return
                self._server.put(now.ref, _hold(with_annotations(now.manifest, {mark: self._server.time()})))
                yield self._settings.api_seconds
        for step in range(1, 1 + _stages(made)):
            now = self._alive(made)
            if now is None:
                return
            self._steps[made.uid] = step
            self._observe(now, step)
            yield self._jitter(self._settings.stage_seconds)

    def _update(self, changed: Version) -> "Process[None]":
        yield self._jitter(self._settings.provider_seconds)
        now = self._alive(changed)
        if now is not None and changed.uid in self._steps:
            only_observes = get(now.manifest, "spec.managementPolicies") == ["Observe"]
            if not only_observes and FINALIZER not in finalizers(now.manifest):
                self._server.put(now.ref, _hold(now.manifest))
                now = self._server.latest[now.ref]
            self._observe(now, self._steps[changed.uid])
        elif now is not None and changed.uid in self._idle and not makes_nothing(now.manifest):
            self._idle.discard(changed.uid)
            yield from self._create(now)

    def _delete(self, marked: Version) -> "Process[None]":
        yield self._jitter(self._settings.provider_seconds)
        self._steps.pop(marked.uid, None)
        if marked.ref in self._server.latest:
            self._server.release(marked.ref, FINALIZER)

    def _observe(self, now: Version, step: int) -> None:
        self._server.put(now.ref, reported(now.manifest, step))

    def _alive(self, made: Version) -> Version | None:
        now = self._server.latest.get(made.ref)
        return now if now and now.uid == made.uid and not now.deleting else None

    def _jitter(self, seconds: float) -> float:
        return seconds * self._random.uniform(0.5, 1.5)


def makes_nothing(manifest: Manifest) -> bool:
    """Tell whether an Object neither makes what it describes nor is of something that others made."""
    return get(manifest, "spec.managementPolicies") == [*ManagementPolicy.OBSERVE_DELETE.value]


def _stages(made: Version) -> int:
    """Return in how many steps the remote object is up."""
    manifest = mapping(made.manifest, "spec.forProvider.manifest")
    stages = STAGES.get(text(manifest, "kind"))
    return len(stages(manifest)) if stages else 1


def _hold(manifest: Manifest) -> Manifest:
    """Returns an Object with the finalizer by which the provider holds it; one that only observes never has it."""
    others = [name for name in finalizers(manifest) if name != FINALIZER]
    return with_finalizers(manifest, [*others, FINALIZER])
