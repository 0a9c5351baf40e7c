"""The API server and its garbage collector: one truth, versions that conflict, deletion that waits for finalizers.

Deletion is as Kubernetes has it: what has finalizers stays until the last is gone; in the background dependents are
deleted once their owner is gone; in the foreground the owner stays until they are.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from bench.simulator.kernel import Kernel
from bench.simulator.objects import Event, Version, finalizers, with_finalizers, with_metadata
from bench.simulator.settings import Settings
from function.cli.store import CLUSTER_SCOPED, Ref
from function.kube.manifests import Manifest, get, integer, listing, text
from tools.remote_stages import uid

FOREGROUND = "foregroundDeletion"
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
# One count for all servers of a process: the function remembers items by uid and version.
_VERSIONS = itertools.count(1_000_000)


class ConflictError(Exception):
    """The object has changed since it was read, or is gone."""


class ApiServer:
    """The latest version of every object. Watchers receive each write before the next."""

    def __init__(self, kernel: Kernel, settings: Settings) -> None:
        self.latest: dict[Ref, Version] = {}
        self.watchers: list[Callable[[Event], None]] = []
        self._kernel, self._settings = kernel, settings
        self._born: dict[Ref, int] = defaultdict(int)
        self._dependents: dict[str, dict[Ref, None]] = defaultdict(dict)
        self._told: list[Event] = []
        self._telling = False

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        return _BEGAN.timestamp() + self._kernel.now

    def time(self) -> str:
        """Return the time in whole seconds, as metadata has it."""
        return (_BEGAN + timedelta(seconds=int(self._kernel.now))).strftime("%Y-%m-%dT%H:%M:%SZ")

    def create(self, manifest: Manifest) -> Version:
        """Create an object; uid, time and generation are the server's.

        Raises:
            ConflictError: There is one of that name.
        """
        ref = Ref.of(manifest)
        if ref in self.latest:
            raise ConflictError(str(ref))
        self._born[ref] += 1
        identity = uid(f"{self._settings.seed} {ref} {self._born[ref]}")
        made: Manifest = {"uid": identity, "creationTimestamp": self.time(), "generation": 1}
        return self._store(ref, None, with_metadata(manifest, made))

    def update(self, seen: Version, manifest: Manifest) -> Version:
        """Replace an object that has not changed since it was seen.

        Raises:
            ConflictError: It has changed, or is gone.
        """
        now = self.latest.get(seen.ref)
        if now is None or now.number != seen.number:
            raise ConflictError(str(seen.ref))
        return self.put(seen.ref, manifest)

    def put(self, ref: Ref, manifest: Manifest) -> Version:
        """Replace an object whatever was seen, as a patch does; what changes nothing is no write."""
        now = self.latest[ref]
        identity = {key: get(now.manifest, f"metadata.{key}") for key in ("uid", "creationTimestamp", "generation")}
        identity["resourceVersion"] = str(now.number)
        made = with_metadata(manifest, identity)
        if made == now.manifest:
            return now
        desired = [{k: v for k, v in m.items() if k not in {"metadata", "status"}} for m in (made, now.manifest)]
        if desired[0] != desired[1]:
            made = with_metadata(made, {"generation": integer(made, "metadata.generation") + 1})
        return self._store(ref, now, made)

    def delete(self, ref: Ref, *, foreground: bool = False) -> None:
        """Delete an object: at once where nothing holds it."""
        now = self.latest.get(ref)
        if now is None or now.deleting:
            return
        held = finalizers(now.manifest)
        if foreground and self._dependents.get(now.uid):
            held.append(FOREGROUND)
            self._collect(now)
        marked = with_metadata(now.manifest, {"deletionTimestamp": self.time()})
        self.put(ref, with_finalizers(marked, held))

    def release(self, ref: Ref, finalizer: str) -> None:
        """Take a finalizer off; the last one takes the object with it once it is being deleted."""
        now = self.latest[ref]
        self.put(ref, with_finalizers(now.manifest, [f for f in finalizers(now.manifest) if f != finalizer]))

    def _store(self, ref: Ref, before: Version | None, manifest: Manifest) -> Version:
        number = next(_VERSIONS)
        made = Version(ref, with_metadata(manifest, {"resourceVersion": str(number)}), number)
        if made.deleting and not finalizers(manifest):
            del self.latest[ref]
            self._removed(made)
            self._tell(Event(ref, before, None))
        else:
            self.latest[ref] = made
            for owner in listing(manifest, "metadata.ownerReferences"):
                self._dependents[text(owner, "uid")][ref] = None
            self._tell(Event(ref, before, made))
        return made

    def _tell(self, event: Event) -> None:
        """Notify all watchers in the order of the writes, also where a watcher writes in turn."""
        self._told.append(event)
        if self._telling:
            return
        self._telling = True
        while self._told:
            following = self._told.pop(0)
            for watcher in self.watchers:
                watcher(following)
        self._telling = False

    def _removed(self, gone: Version) -> None:
        for owner in listing(gone.manifest, "metadata.ownerReferences"):
            identity, ref = text(owner, "uid"), _owner(gone.ref, owner)
            self._dependents[identity].pop(gone.ref, None)
            there = self.latest.get(ref)
            if there and there.uid == identity and FOREGROUND in finalizers(there.manifest):
                self._collect(there)
        if self._dependents.get(gone.uid):
            self._collect(gone)

    def _collect(self, owner: Version) -> None:
        """Delete, in a moment, what an owner leaves; where nothing is left it may go itself.

        What goes before its owner goes in the foreground as well.
        """

        def collect() -> None:
            there = self.latest.get(owner.ref)
            waits = there is not None and there.uid == owner.uid
            for ref in list(self._dependents.get(owner.uid, ())):
                self.delete(ref, foreground=waits)
            there = self.latest.get(owner.ref)
            if there and there.uid == owner.uid and not self._dependents.get(owner.uid):
                self.release(owner.ref, FOREGROUND)

        self._kernel.at(self._settings.collector_seconds, collect)


def _owner(dependent: Ref, reference: Manifest) -> Ref:
    kind = text(reference, "kind")
    return Ref(kind, "" if kind in CLUSTER_SCOPED else dependent.namespace, text(reference, "name"))
