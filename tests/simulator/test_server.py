"""The API server: versions that conflict, deletion that waits."""

import pytest

from bench.simulator.kernel import Kernel
from bench.simulator.objects import Event, Version
from bench.simulator.server import ApiServer, ConflictError
from bench.simulator.settings import Settings
from function.kube.manifests import Manifest, get


def _manifest(name: str, owner: Version | None = None, **metadata: list[str]) -> Manifest:
    made: Manifest = {"name": name, "namespace": "team", **metadata}  # type: ignore[dict-item]  # lists of text
    if owner:
        reference: Manifest = {"kind": "Thing", "name": owner.ref.name, "uid": owner.uid, "controller": True}
        made["ownerReferences"] = [reference]
    return {"apiVersion": "v1", "kind": "Thing", "metadata": made, "spec": {"size": 1}}


class Served:
    """A server, and every write that it announced."""

    def __init__(self) -> None:
        self.kernel, self.events = Kernel(), list[Event]()
        self.server = ApiServer(self.kernel, Settings())
        self.server.watchers.append(self.events.append)

    def names(self) -> list[str]:
        return sorted(ref.name for ref in self.server.latest)


def test_identity_is_the_servers() -> None:
    served = Served()
    made = served.server.create(_manifest("a"))
    now = served.server.put(made.ref, {**_manifest("a"), "spec": {"size": 2}})
    kept = {field: get(made.manifest, f"metadata.{field}") for field in ("uid", "creationTimestamp")}
    assert {field: get(now.manifest, f"metadata.{field}") for field in kept} == kept
    assert (get(made.manifest, "metadata.generation"), get(now.manifest, "metadata.generation")) == (1, 2)
    assert get(now.manifest, "metadata.resourceVersion") != get(made.manifest, "metadata.resourceVersion")
    status = served.server.put(made.ref, {**now.manifest, "status": {"ready": True}})
    assert get(status.manifest, "metadata.generation") == 2, "a status is no new generation"
    assert served.server.put(made.ref, status.manifest) is status, "what changes nothing is no write"
    assert len(served.events) == 3


def test_what_was_seen_too_late_conflicts() -> None:
    served = Served()
    seen = served.server.create(_manifest("a"))
    served.server.update(seen, {**_manifest("a"), "spec": {"size": 2}})
    with pytest.raises(ConflictError):
        served.server.update(seen, {**_manifest("a"), "spec": {"size": 3}})
    with pytest.raises(ConflictError):
        served.server.create(_manifest("a"))


def test_a_finalizer_holds_what_is_deleted() -> None:
    served = Served()
    made = served.server.create(_manifest("a", finalizers=["mine"]))
    served.server.delete(made.ref)
    assert served.server.latest[made.ref].deleting
    served.server.release(made.ref, "mine")
    assert served.names() == []
    again = served.server.create(_manifest("a"))
    assert again.uid != made.uid, "a name that returns is another object"


def test_in_the_background_dependents_follow_their_owner() -> None:
    served = Served()
    owner = served.server.create(_manifest("owner"))
    served.server.create(_manifest("child", owner))
    served.server.delete(owner.ref)
    assert served.names() == ["child"]
    assert served.kernel.run(10)
    assert served.names() == []


def test_in_the_foreground_an_owner_waits_for_its_dependents() -> None:
    served = Served()
    owner = served.server.create(_manifest("owner"))
    held = served.server.create(_manifest("held", owner, finalizers=["mine"]))
    served.server.delete(owner.ref, foreground=True)
    served.server.create(_manifest("late", owner))
    assert served.kernel.run(10)
    assert served.names() == ["held", "owner"]
    served.server.release(held.ref, "mine")
    assert served.kernel.run(10)
    assert served.names() == []


def test_watchers_are_told_in_the_order_of_the_writes() -> None:
    served = Served()

    def chatter(event: Event) -> None:
        if event.before is None and event.now:
            served.server.put(event.ref, {**event.now.manifest, "spec": {"size": 2}})

    served.server.watchers.insert(0, chatter)
    served.server.create(_manifest("a"))
    assert [event.now and get(event.now.manifest, "spec.size") for event in served.events] == [1, 2]
