"""Remote clusters on which not all goes well: what becomes of a remote object follows from the seed and its name.

Jobs fail or vanish, claims bind late or never, services come slowly and roll when their pods change, the provider
misses an event and looks again later, a cluster does not answer for a while.
"""

import copy
from collections import Counter
from collections.abc import Callable, Collection
from random import Random
from typing import TypeAlias

from bench.histories.deletions import Deletions
from bench.histories.deployments import Deployments, is_on_one_node, name_deployment
from bench.histories.gateways import Gateways
from bench.simulator.kernel import Kernel, Process
from bench.simulator.objects import Event, Version
from bench.simulator.provider import FINALIZER, Provider
from bench.simulator.server import ApiServer
from bench.simulator.settings import Settings
from function.kube.manifests import JSON, Manifest, get, integer, listing, mapping, text
from tools.remote_stages import condition, uid
from tools.world import World

# How much slower than usual something late comes, and after how long a missed event is made up for.
LATE, POLL_SECONDS = 8.0, 60.0
OUTAGE = (
    f"cannot get object: Get https://10.0.0.1:6443/{'a' * 3000}: dial tcp 10.0.0.1:6443: connect: connection refused"
)

FORBIDDEN = (
    'create failed: cannot apply object: {kind}s "{name}" is forbidden: unable to create new content in namespace '
    "because it is being terminated"
)
Place: TypeAlias = tuple[str, str]
_MIRRORED = "status.atProvider.manifest"
_COMPLETED = "status.atProvider.manifest.status.completionTime"


class Clusters(Provider):
    """provider-kubernetes and what is behind it. `out`: the provider configs whose cluster does not answer; `faults`
    counts what went wrong, by kind. `slow_downloads`: half of the Jobs come late and one in six fails.
    """

    def __init__(self, kernel: Kernel, settings: Settings, random: Random, server: ApiServer) -> None:
        super().__init__(kernel, settings, random, server)
        own = Random(f"{settings.seed} gateways")  # noqa: S311  # the same history for the same seed
        self.gateways = Gateways(kernel, own, server)
        self.gateways.look = lambda version: self._look(version, self._steps.get(version.uid, 1))
        self.out: set[str] = set()
        self.deletions = Deletions(kernel, settings, server)
        self.deletions.reaches = lambda config: config not in self.out
        self.deletions.again = lambda marked: self._kernel.spawn(self._delete(marked))
        self.deployments = Deployments()
        self.faults: Counter[str] = Counter()
        self.slow_downloads = False
        self._world, self._rolling = World(), set[str]()
        self.ending: set[Place] = set()
        self.gone: set[str] = set()  # whose remote objects went with their namespace, and are not made again yet
        self._lives: Counter[Place] = Counter()
        self._completed: dict[tuple[str, int], str] = {}
        self._stopping: dict[str, float] = {}  # until when the pods of a service without replicas end, by uid

    def fate(self, version: Version) -> str:
        """Return what becomes of a remote object: `late`, `fails`, `never`, `vanishes`, or nothing odd."""
        manifest = remote(version)
        kind, name = text(manifest, "kind"), text(manifest, "metadata.name")
        fates = {
            "Job": ("fails", "late", "vanishes"),
            "PersistentVolumeClaim": ("never", "late", "late"),
            "LLMInferenceService": ("late", "late", "never"),
        }.get(kind)
        drawn = Random(f"{self._settings.seed} {config(version)} {kind} {name}").random()  # noqa: S311  # of the seed
        if kind == "Job" and self.slow_downloads:
            return ("fails", "late", "late", "late", "", "")[int(drawn * 6)]
        return "" if fates is None or drawn > 0.3 else fates[int(drawn * 10)]  # three in ten

    def answers(self, configs: Collection[str]) -> None:
        """Let these clusters be out of reach, and all others answer."""
        before, self.out = self.out, set(configs)
        for version in [v for v in self._server.latest.values() if v.ref.kind == "Object"]:
            if config(version) in before ^ self.out and version.uid in self._steps:
                self._observe(version, self._steps[version.uid])
        self.deletions.try_again()

    def stumble(self, version: Version) -> None:
        """Let a service lose its pods for a while: a node went."""
        self.faults["node gone"] += 1
        self._kernel.spawn(self._roll(version))

    def soon(self, what: Callable[[], None]) -> None:
        """Do something when the provider looks next."""
        self._kernel.at(self._jitter(self._settings.stage_seconds), what)

    def end_namespace(self, place: Place) -> None:
        """Let a user of a cluster delete a namespace with its contents; the provider creates it again."""
        self.faults["namespace ended"] += 1
        self.ending.add(place)
        self._lives[place] += 1
        for version in self._within(place):
            self.gone.add(version.uid)
            self._observe(version, 1)
        self.soon(lambda: self._ended(place))

    def _ended(self, place: Place) -> None:
        self.ending.discard(place)
        for version in self._within(place):
            self._kernel.spawn(self._again(version))

    def _within(self, place: Place) -> list[Version]:
        every = [v for v in self._server.latest.values() if v.ref.kind == "Object"]
        return [v for v in every if place_of(v) == place and v.uid in self._steps and not v.deleting]

    def vanish(self, version: Version) -> None:
        """Let a user of a cluster delete a remote object; the provider creates it again."""
        if version.uid in self._steps:
            self.faults["Job vanished"] += 1
            self._kernel.spawn(self._again(version))

    def _watch(self, event: Event) -> None:
        if event.now and text(remote(event.now), "kind") == "Node":
            return  # see nodes.py
        missed = event.before is not None and event.now is not None and not event.now.deleting
        if event.ref.kind == "Object" and missed and event.now and self._random.random() < 0.03:
            if get(event.now.manifest, "spec") != get(event.before.manifest if event.before else {}, "spec"):
                self.faults["event missed"] += 1
                changed = event.now
                self._kernel.at(POLL_SECONDS, lambda: self._kernel.spawn(self._update(changed)))
            return
        super()._watch(event)

    def _create(self, made: Version) -> "Process[None]":
        if self.fate(made) in {"late", "never"}:
            self.faults[f"{text(remote(made), 'kind')} {self.fate(made)}"] += 1
        if self.fate(made) == "late":
            yield self._jitter(LATE * self._settings.stage_seconds)
        yield from super()._create(made)
        if self.fate(made) == "vanishes" and (now := self._alive(made)):
            yield self._jitter(LATE * self._settings.stage_seconds)
            self.vanish(now)

    def _delete(self, marked: Version) -> "Process[None]":
        yield self._jitter(self._settings.provider_seconds)
        self._steps.pop(marked.uid, None)
        now = self._server.latest.get(marked.ref)
        if now is not None and now.uid == marked.uid and (yield from self.deletions.delete(now)):
            self._server.release(now.ref, FINALIZER)

    def _update(self, changed: Version) -> "Process[None]":
        now = self._alive(changed)
        if now is not None and changed.uid in self._steps and self._pods_differ(now):
            yield from self._roll(now)
        else:
            yield from super()._update(changed)

    def _pods_differ(self, now: Version) -> bool:
        wanted, seen = pods(remote(now)), pods(mapping(now.manifest, "status.atProvider.manifest"))
        return text(remote(now), "kind") == "LLMInferenceService" and bool(seen) and wanted != seen

    def _roll(self, version: Version) -> "Process[None]":
        steps = self._steps.get(version.uid, 0)
        self._rolling.add(version.uid)
        for step in (min(steps, 2), steps):
            yield self._jitter(self._settings.stage_seconds)
            now = self._alive(version)
            if now is None or version.uid not in self._steps:
                return
            self._observe(now, step)
        self._rolling.discard(version.uid)

    def _again(self, version: Version) -> "Process[None]":
        for step in (1, 2, 3):
            yield self._jitter(self._settings.stage_seconds)
            now = self._alive(version)
            if now is None:
                return
            self.gone.discard(version.uid)
            self._observe(now, step)

    def _observe(self, now: Version, step: int) -> None:
        self.deletions.note_created(now)
        self._look(now, step)
        # What else changes with it.
        dependent = {"PersistentVolumeClaim": "Job", "LLMInferenceService": "Deployment"}.get(text(remote(now), "kind"))
        for other in [v for v in self._within(place_of(now)) if text(remote(v), "kind") == dependent]:
            self._look(other, self._steps[other.uid])

    def _refuses_bad_images(self, service: Version) -> bool:
        drawn = Random(f"{self._settings.seed} {config(service)} bad")  # noqa: S311  # of the seed
        return drawn.random() < 0.5

    def _mounts(self, job: Version) -> bool:
        """Tell whether the claim is bound that a Job's pod mounts: no kubelet starts it before."""
        volumes = listing(remote(job), "spec.template.spec.volumes")
        names = {text(volume, "persistentVolumeClaim.claimName") for volume in volumes} - {""}
        there = [mapping(v.manifest, "status.atProvider.manifest") for v in self._within(place_of(job))]
        bound = {text(m, "metadata.name") for m in there if text(m, "status.phase") == "Bound"}
        return names <= bound

    def _look(self, now: Version, step: int) -> None:
        fate = self.fate(now)
        if text(remote(now), "kind") == "Job" and not self._mounts(now):
            step = min(step, 1)
        is_bad = "-bad" in str(get(remote(now), "spec.template.containers")) and self._refuses_bad_images(now)
        self.faults["image does not start"] += is_bad
        if is_on_one_node(remote(now)):
            starts = not is_bad and fate != "never"
            self._let_pods_end(now)
            step = self.deployments.update(now, step, self._kernel.now, starts=starts)
        elif is_bad:
            step = min(step, 2)
        observed = self._world.advance(now.manifest, 1 if fate == "never" else step)
        if get(observed, _MIRRORED) is not None:
            observed = self._with_deployment(now, observed)
        if fate == "fails" and step >= 3:  # the step in which a Job completes
            self.faults["Job failed"] += text(mapping(now.manifest, "status"), "failed") == ""
            observed = {**observed, "status": _failed(mapping(observed, "status"))}
        if get(observed, _COMPLETED):
            observed = self._in_its_time(now, observed)
        if config(now) not in self.out:
            observed = self.gateways.observe(now, observed)
        if life := self._lives[place_of(now)]:
            observed = self._of_another_life(now, observed, life)
        if config(now) in self.out:
            observed = _unsynced(now, OUTAGE)
        self._server.put(now.ref, observed)

    def _let_pods_end(self, now: Version) -> None:
        """Lets the pods of a service that has lost all its replicas end a while later."""
        if integer(remote(now), "spec.replicas"):
            self._stopping.pop(now.uid, None)
        elif now.uid not in self._stopping and integer(mapping(now.manifest, _MIRRORED), "spec.replicas"):
            drawn = Random(f"{self._settings.seed} {now.ref} {now.number}")  # noqa: S311  # the same for the same seed
            seconds = drawn.uniform(0.5, 1.5) * self._settings.stage_seconds
            self._stopping[now.uid] = self._kernel.now + seconds
            self._kernel.at(seconds, lambda: self._show_again(now))

    def _show_again(self, version: Version) -> None:
        now = self._alive(version)
        if now is not None and version.uid in self._steps:
            self._look(now, self._steps[version.uid])

    def _with_deployment(self, now: Version, observed: Manifest) -> Manifest:
        """Returns an Object that also shows what becomes of a Deployment, or of the service that has one."""
        manifest = mapping(observed, _MIRRORED)
        if is_on_one_node(manifest) and get(manifest, "status.conditions"):
            primary: Manifest = {"kind": "Deployment", "name": name_deployment(manifest)}
            manifest = {**manifest, "status": {**mapping(manifest, "status"), "workloads": {"primary": primary}}}
            if self._stopping.get(now.uid, 0.0) > self._kernel.now:
                manifest = _unseen_by_kserve(manifest)
        elif text(manifest, "kind") == "Deployment":
            services = [v for v in self._within(place_of(now)) if is_on_one_node(remote(v))]
            name = text(manifest, "metadata.name")
            owner = next((v for v in services if name_deployment(remote(v)) == name), None)
            manifest = self.deployments.show(manifest, owner) if owner else manifest
        status = mapping(observed, "status")
        return {**observed, "status": {**status, "atProvider": {**mapping(status, "atProvider"), "manifest": manifest}}}

    def _in_its_time(self, now: Version, observed: Manifest) -> Manifest:
        """Return what is reported of a Job that has completed: each at a time of its own."""
        when = self._completed.setdefault((now.uid, self._lives[place_of(now)]), self._server.time())
        seen = copy.deepcopy(observed)
        mapping(seen, _COMPLETED.rpartition(".")[0])["completionTime"] = when
        return seen

    def _of_another_life(self, now: Version, observed: Manifest, life: int) -> Manifest:
        """Return what is reported in a namespace that ends, or was made again."""
        kind, name = text(remote(now), "kind"), text(remote(now), "metadata.name")
        seen = copy.deepcopy(mapping(observed, "status.atProvider.manifest"))
        policies = get(now.manifest, "spec.managementPolicies")
        if place_of(now) in self.ending:
            if kind == "Namespace":
                seen["status"] = {"phase": "Terminating"}
                return {**observed, "status": {**mapping(observed, "status"), "atProvider": {"manifest": seen}}}
            return _unsynced(now, FORBIDDEN.format(kind=kind.lower(), name=name))
        if kind == "Job" and isinstance(policies, list) and not {"*", "Create"} & {*map(str, policies)}:
            return _unsynced(now, "observe failed: external resource does not exist")
        mapping(seen, "metadata")["uid"] = uid(f"{place_of(now)} {kind} {name} {life}")
        return {**observed, "status": {**mapping(observed, "status"), "atProvider": {"manifest": seen}}}


def place_of(version: Version) -> Place:
    """Return the cluster and the namespace in which a remote object is; a namespace is in itself."""
    manifest = remote(version)
    of_its_own = text(manifest, "kind") == "Namespace"
    return config(version), text(manifest, "metadata.name" if of_its_own else "metadata.namespace")


def _unseen_by_kserve(service: Manifest) -> Manifest:
    """Return a service of which KServe has not reported the last generation."""
    metadata: Manifest = {**mapping(service, "metadata"), "generation": 2}
    return {**service, "metadata": metadata, "status": {**mapping(service, "status"), "observedGeneration": 1}}


def _unsynced(now: Version, said: str) -> Manifest:
    """Return an Object whose provider fails; what is mirrored tells the past."""
    conditions: list[JSON] = [condition("Synced", ok=False, reason="ReconcileError", message=said)]
    return {
        **now.manifest,
        "status": {"atProvider": mapping(now.manifest, "status.atProvider"), "conditions": conditions},
    }


def remote(version: Version) -> Manifest:
    """Return the remote manifest that an Object describes."""
    return mapping(version.manifest, "spec.forProvider.manifest")


def config(version: Version) -> str:
    """Return the name of the cluster's provider config."""
    return text(version.manifest, "spec.providerConfigRef.name")


def pods(service: Manifest) -> Manifest:
    """Return what the pods of a service see of it: all but how many there are."""
    return {key: value for key, value in mapping(service, "spec").items() if key != "replicas"}


def _failed(status: Manifest) -> Manifest:
    manifest = mapping(status, "atProvider.manifest")
    said = condition(
        "Failed", ok=True, reason="PodFailurePolicy", message="failed with exit code 41 matching FailJob rule"
    )
    ended: Manifest = {**manifest, "status": {"failed": 1, "conditions": [said]}}
    ready = condition("Ready", ok=False, reason="Unavailable")
    return {"atProvider": {"manifest": ended}, "conditions": [condition("Synced", ok=True, reason="Success"), ready]}
