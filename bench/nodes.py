"""Measures observed nodes: one call of an environment with so many, each time another of them with a new heartbeat.

Nodes are those of a kubelet as provider-kubernetes copies them: 50 images, conditions with times, who manages which
field. Calls an hour are what a poll of ten minutes makes of them at rest, one for each node that has changed.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click

from bench import wire
from bench.decide import ECHO, ORDER, Scene, measure
from bench.fleet import environment
from bench.servers import Server, serving
from function.kube.manifests import JSON, Manifest, listing, mapping
from function.parts.requirements import NODES
from function.remote.node_collection import MEMBERSHIP, name_collection
from tests.server import certificates

COUNTS = (16, 64, 200, 600)
ROUNDS = 20
_POLLS_AN_HOUR = 6
_IMAGES = 50
_LABEL = {"node.kubernetes.io/instance-type": "gd-8xh200ib-i128"}
_COLLECTION_UID = "00000000-0000-4000-8000-000000000003"


def node(number: int, beat: int) -> Manifest:
    """Return the Object of a node after so many heartbeats."""
    name = f"gpu-{number:04}"
    time = f"2026-10-01T12:{beat % 60:02}:00Z"
    images: list[JSON] = [
        {"names": [f"registry.example.org/team/image-{n}@sha256:{'0' * 64}", f"image-{n}:v1"], "sizeBytes": 10**9 + n}
        for n in range(_IMAGES)
    ]
    fields: Manifest = {f"f:label-{n}": {} for n in range(120)}
    managed: list[JSON] = [
        {"manager": manager, "operation": "Update", "time": time, "fieldsV1": {"f:metadata": {"f:labels": fields}}}
        for manager in ("kubelet", "nfd-master")
    ]
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions: list[JSON] = [
        {"type": kind, "status": str(kind == "Ready"), "reason": "KubeletSays", "lastHeartbeatTime": time}
        for kind in kinds
    ]
    labels = {f"feature.node.kubernetes.io/label-{n}": "true" for n in range(60)}
    remote: Manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, **_LABEL}, "managedFields": managed},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "128", "memory": "2000Gi", "nvidia.com/gpu": "8"},
            "conditions": conditions,
            "images": images,
        },
    }
    return _object(number, beat, name, remote)


def _object(number: int, beat: int, name: str, remote: Manifest) -> Manifest:
    synced: Manifest = {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"}
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "metadata": {
            "name": f"nodes-{number:07x}",
            "namespace": "modelplane-system",
            "uid": f"00000004-0000-4000-8000-{number:012}",
            "resourceVersion": str(1_000_000 + 1_000 * beat + number),
            "labels": {MEMBERSHIP: name_collection("environment-0001")},
            "ownerReferences": [{"kind": "ObservedObjectCollection", "uid": _COLLECTION_UID}],
        },
        "spec": {"forProvider": {"manifest": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}}},
        "status": {"atProvider": {"manifest": remote}, "conditions": [synced]},
    }


def looking(count: int) -> Manifest:
    """Return an environment that looks at so many nodes."""
    found = environment(1)
    (pool,) = listing(found, "spec.nodePools")
    pool |= {"nodeCount": count, "maxNodeCount": count}
    return {**found, "spec": {**mapping(found, "spec"), "hardware": {"observe": "Always"}}}


def scene(count: int) -> Scene:
    """Return what such an environment is asked at rest."""
    collection: Manifest = {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "ObservedObjectCollection",
        "metadata": {
            "name": name_collection("environment-0001"),
            "namespace": "modelplane-system",
            "uid": _COLLECTION_UID,
            "labels": {"app.kubernetes.io/managed-by": "modelplane"},
        },
        "status": {"membershipLabel": {MEMBERSHIP: name_collection("environment-0001")}},
    }
    return Scene(looking(count), {NODES: [node(n, 0) for n in range(count)]}, {NODES: collection})


def beating(rest: Scene, count: int) -> Iterator[bytes]:
    """Yield calls of which each finds one more node with a new heartbeat."""
    nodes = [wire.item(wire.resource(item)) for item in rest.required[NODES]]
    head = wire.request(rest.xr, {}, ORDER, rest.observed)
    for beat in range(ROUNDS):
        number = beat % count
        nodes[number] = wire.item(wire.resource(node(number, beat + 1)))
        yield head + wire.entry(wire.REQUIRED, NODES, b"".join(nodes))


def tell(servers: tuple[Server, Server], count: int) -> None:
    """Print what a call costs with so many nodes."""
    rest = scene(count)
    requests = list(beating(rest, count))
    for server in servers:
        server.call(requests[0])
    (time, echoed), (spent, _) = measure(servers, iter(requests[1:]))
    click.echo(
        f"{count:4} nodes  {len(requests[0]) / 1e6:5.2f} MB  {time:6.1f} ms ({spent:5.1f} of processor), echo "
        f"{echoed:5.1f} ms  {count * _POLLS_AN_HOUR:5} calls an hour"
    )


def main() -> None:
    """Measure and print."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificates.write(folder)
        ours = stack.enter_context(serving(folder / "ours", folder))
        echo = stack.enter_context(serving(folder / "echo", folder, ECHO))
        for count in COUNTS:
            tell((ours, echo), count)


if __name__ == "__main__":
    main()
