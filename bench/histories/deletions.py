"""What is on the clusters, and how it goes: slowly, and only while the provider still knows the cluster.

As provider-kubernetes has it (docs/facts.md): a ClusterProviderConfig that is being deleted stays while a
ProviderConfigUsage names it. Where Crossplane deletes an Object in the foreground, its ProviderConfigUsage goes before
the remote object does. Without its ClusterProviderConfig, an Object that is being deleted stays, and what it describes
as well, until there is one of that name again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from bench.simulator.kernel import Kernel, Process
from bench.simulator.objects import Event, Version, finalizers, with_finalizers
from bench.simulator.provider import makes_nothing
from bench.simulator.server import ApiServer
from bench.simulator.settings import Settings
from function.cli.store import Ref
from function.kube.manifests import Manifest, get, mapping, text
from function.remote.composed_kinds import PROVIDER_USAGE_KIND
from function.remote.object_writer import PROVIDER_CONFIG_LABELS, ManagementPolicy, deletes

IN_USE = "in-use.crossplane.io"
_CONFIG, _USAGE = "ClusterProviderConfig", PROVIDER_USAGE_KIND
_SLOW_SECONDS = 2.0, 90.0
_USED, _USED_KIND = PROVIDER_CONFIG_LABELS  # by which the provider finds usages


class RemoteRef(NamedTuple):
    """An object on a cluster."""

    cluster: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, version: Version) -> "RemoteRef":
        """Returns what an Object describes."""
        manifest = mapping(version.manifest, "spec.forProvider.manifest")
        config = text(version.manifest, "spec.providerConfigRef.name")
        return cls(
            config, text(manifest, "kind"), text(manifest, "metadata.namespace"), text(manifest, "metadata.name")
        )


class Deletions:
    """Deletes remote objects. `remote`: those that exist, each with the Object that described it last; `reaches` tells
    whether a cluster answers, and `again` has the deletion of an Object begin again.
    """

    def __init__(self, kernel: Kernel, settings: Settings, server: ApiServer) -> None:
        self._kernel, self._settings, self._server = kernel, settings, server
        self._drawn = Random(f"{settings.seed} deletions")  # noqa: S311  # the same history for the same seed
        self._waiting: dict[str, list[Version]] = defaultdict(list)  # Objects, by the provider config that they lack
        self.remote: dict[RemoteRef, Version] = {}
        self._retained = set[RemoteRef]()  # that no Object deletes, as a user or this function said when it was written
        self._unprotected = set[RemoteRef]()  # its deployment went, with its usage, while it went
        self.is_slow = False
        self.reaches: Callable[[str], bool] = lambda _: True
        self.again: Callable[[Version], None] = lambda _: None
        server.watchers.append(self._watch)

    def slow_down(self) -> None:
        """Lets remote objects go slowly from now on."""
        if not self.is_slow:
            self.is_slow = True
            for version in list(self._server.latest.values()):
                self._take_into_use(version)

    def note_created(self, version: Version) -> None:
        """Takes note that the provider has created, or found, what an Object describes."""
        if not makes_nothing(version.manifest) and get(version.manifest, "spec.managementPolicies") != ["Observe"]:
            self._note(version)

    def _note(self, version: Version) -> None:
        """Takes note of the Object that describes a remote object, and whether it deletes that; one that only observes
        what is there says nothing of it.
        """
        remote = RemoteRef.of(version)
        self.remote[remote] = version
        if deletes(version.manifest):
            self._retained.discard(remote)
        elif get(version.manifest, "spec.managementPolicies") == [*ManagementPolicy.RETAIN.value]:
            self._retained.add(remote)
        elif remote.kind == "Job" and get(version.manifest, "spec.managementPolicies") == ["Observe"]:
            self._retained.add(remote)  # a finished Job is only observed, and stays (JobDecision.OBSERVE)

    def delete(self, marked: Version) -> "Process[bool]":
        """Deletes the remote object of an Object, and tells whether the Object may go."""
        if not deletes(marked.manifest):
            return True
        if self.is_slow:
            if RemoteRef.of(marked) in self.remote:
                yield self._drawn.uniform(*_SLOW_SECONDS)
            config = RemoteRef.of(marked).cluster
            if not self._connects(config):
                self._waiting[config].append(marked)
                return False
        self.remote.pop(RemoteRef.of(marked), None)
        return True

    def try_again(self) -> None:
        """Has the deletions go on that waited for a cluster."""
        for config in [config for config in sorted(self._waiting) if self._connects(config)]:
            for marked in self._waiting.pop(config):
                self.again(marked)

    def find_left(self) -> Iterator[tuple[RemoteRef, Version]]:
        """Yields what is on a cluster although no Object describes it and none was to keep it."""
        described = {RemoteRef.of(v) for v in self._server.latest.values() if v.ref.kind == "Object" and not v.deleting}
        for remote, version in sorted(self.remote.items()):
            if remote not in described | self._retained | self._unprotected:
                yield remote, version

    def _connects(self, config: str) -> bool:
        return Ref(_CONFIG, "", config) in self._server.latest and self.reaches(config)

    def _watch(self, event: Event) -> None:
        before, now = event.before, event.now
        if now and event.ref.kind == "Object" and (held := self.remote.get(RemoteRef.of(now))) and held.uid == now.uid:
            self._note(now)
        if event.ref.kind == "ModelDeployment" and before and not before.deleting and (now is None or now.deleting):
            self._unprotect(before)
        if not self.is_slow:
            return
        if before is None and now:
            self._take_into_use(now)
        if event.ref.kind == _USAGE and now is None and before:
            self._release_later(before.labels.get(_USED, ""))
        elif event.ref.kind == _CONFIG:
            self._release_later(event.ref.name)

    def _unprotect(self, deployment: Version) -> None:
        """Notes what an environment that is deleted in the same minute may leave (docs/troubleshooting.md)."""
        versions = self._server.latest.values()
        own = {v.uid for v in versions if text(v.controller, "uid") == deployment.uid}
        leaving = (v for v in versions if v.ref.kind == "Object" and v.deleting and text(v.controller, "uid") in own)
        self._unprotected.update(map(RemoteRef.of, leaving))

    def _take_into_use(self, version: Version) -> None:
        """Lets the provider keep a ClusterProviderConfig, or count an Object that uses one."""
        if version.ref.kind == _CONFIG and not version.deleting:
            names = {*map(str, finalizers(version.manifest)), IN_USE}
            self._server.put(version.ref, with_finalizers(version.manifest, sorted(names)))
            self.try_again()
        elif version.ref.kind == "Object" and version.controller and not version.deleting:
            self._server.create(_usage(version))

    def _release_later(self, config: str) -> None:
        self._kernel.at(self._drawn.uniform(0.05, 1.0), lambda: self._release(config))

    def _release(self, config: str) -> None:
        """Lets a ClusterProviderConfig go that nothing uses."""
        there = self._server.latest.get(Ref(_CONFIG, "", config))
        usages = (v for v in self._server.latest.values() if v.ref.kind == _USAGE)
        if there and there.deleting and not any(v.labels.get(_USED) == config for v in usages):
            self._server.release(there.ref, IN_USE)


def _usage(version: Version) -> Manifest:
    owner: Manifest = {
        "kind": "Object",
        "name": version.ref.name,
        "uid": version.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": _USAGE,
        "metadata": {
            "name": version.uid,
            "namespace": version.ref.namespace,
            "labels": {_USED: RemoteRef.of(version).cluster, _USED_KIND: _CONFIG},
            "ownerReferences": [owner],
        },
    }
