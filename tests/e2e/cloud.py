"""Google Cloud and provider-gcp-container, played: what would exist in the cloud, and what the provider would report.

The provider itself cannot be fetched here (docs/gke.md). What is played comes from its sources at v3.0.0 and from those
of upjet and of the Terraform provider inside it:

- A managed resource that may observe adopts what has its name. One that may only observe reports what does not exist.
- A NodePool cannot resolve its Cluster before this has an ID.
- Words of Google arrive in LastAsyncOperation. A stock-out does not: the pool exists, is Ready, and lacks nodes.
- A change of a field that cannot change is refused, and changes nothing. A change of other fields replaces nodes.
- The provider writes what Google has chosen into the spec where it was left out (LateInitialize).
- Without the Delete policy, a deleted managed resource leaves everything in the cloud. The kubeconfig goes with it.

Nodes are nodes of the remote cluster, so that a replaced or deleted node takes its pods with it.
"""

import base64
import copy
import threading
from dataclasses import dataclass, field
from typing import Self

from urllib3.exceptions import HTTPError

from function.kube.manifests import JSON, Manifest, get, integer, list_texts, listing, mapping, strings, text
from tools.stack import inventory
from tools.stack.api import Api, RefusedError
from tools.stack.stack import Stack

GROUP_VERSION = "container.gcp.m.upbound.io/v1beta1"
_FINALIZER = "finalizer.managedresource.crossplane.io"
_ROUNDS = 3  # until something that is created is Ready
_NOW = "2026-01-01T00:00:00Z"
# ForceNew in the Terraform provider, and updated by replacing nodes (docs/facts.md, GKE).
_REFUSED = (
    "project",
    "location",
    "network",
    "subnetwork",
    "ipAllocationPolicy",
    "placementPolicy",
    "nodeConfig.guestAccelerator",
    "nodeConfig.reservationAffinity",
    "nodeConfig.spot",
)
_REPLACES = ("nodeConfig.machineType", "nodeConfig.diskSizeGb", "nodeConfig.imageType", "nodeLocations")
# What Google chooses where it is left out.
_CHOSEN: dict[str, Manifest] = {
    "Cluster": {"subnetwork": "projects/my-project/regions/us-central1/subnetworks/default"},
    "NodePool": {"nodeLocations": ["us-central1-a", "us-central1-f"]},
}


@dataclass(slots=True)
class Thing:
    """A cluster or node pool in the cloud."""

    spec: Manifest
    rounds: int = 0


@dataclass(slots=True)
class Cloud:
    stack: Stack
    things: dict[str, Thing] = field(default_factory=dict)  # by the name in the cloud
    faults: dict[str, str] = field(default_factory=dict)  # name: what Google says of its creation
    stock: dict[str, int] = field(default_factory=dict)  # name of a pool: how many nodes there are at most
    replaced: list[str] = field(default_factory=list)  # names of nodes
    deleted: list[str] = field(default_factory=list)  # names in the cloud
    down: bool = False  # the provider does not run
    errors: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join(15)

    def _run(self) -> None:
        hub, remote = Api(self.stack.home, "hub"), Api(self.stack.home, "remote")
        while not self._stop.wait(0.5):
            if self.down:
                continue
            for kind in ("Cluster", "NodePool"):
                try:
                    for found in hub.find(kind):
                        self._reconcile(hub, remote, kind, found)
                except RefusedError as refused:
                    # Not served yet, or changed meanwhile: the next round looks again.
                    if refused.code not in {404, 409}:
                        self.errors.append(str(refused))
                except (OSError, HTTPError) as error:
                    self.errors.append(str(error))

    def _reconcile(self, hub: Api, remote: Api, kind: str, found: Manifest) -> None:
        name = strings(found, "metadata.annotations")["crossplane.io/external-name"]
        policies = {*list_texts(found, "spec.managementPolicies")}
        if text(found, "metadata.deletionTimestamp"):
            if policies & {"*", "Delete"}:
                self._delete(remote, kind, name)
            hub.patch(kind, text(found, "metadata.name"), {"metadata": {"finalizers": None}}, _namespace(found))
            return
        if _FINALIZER not in list_texts(found, "metadata.finalizers"):
            metadata: Manifest = {"metadata": {"finalizers": [_FINALIZER]}}
            hub.patch(kind, text(found, "metadata.name"), metadata, _namespace(found))
        self._report(hub, kind, found, *self._act(remote, kind, found, name, may_write=policies != {"Observe"}))
        if name in self.things and policies & {"*", "LateInitialize"}:
            _initialize(hub, kind, found)
        if kind == "Cluster" and name in self.things and self.things[name].rounds >= _ROUNDS:
            self._write_kubeconfig(hub, found)

    def _act(
        self, remote: Api, kind: str, found: Manifest, name: str, *, may_write: bool
    ) -> tuple[Thing | None, dict[str, str]]:
        """Do in the cloud what the provider would, and return what exists with the conditions that are not True."""
        wish = _CHOSEN[kind] | mapping(found, "spec.forProvider")
        if kind == "NodePool" and not self._has_cluster(hub_name=text(wish, "clusterRef.name")):
            message = "cannot resolve references: mg.Spec.ForProvider.Cluster: referenced field was empty"
            return None, {"Synced": message, "Ready": "Creating"}
        thing = self.things.get(name)
        if thing is None:
            if not may_write:
                return None, {"Synced": "observe failed: external resource does not exist", "Ready": "Creating"}
            if fault := self.faults.get(name):
                wrapped = f"async create failed: failed to create the resource: [{{0 {fault}  []}}]"
                return None, {"LastAsyncOperation": wrapped, "Ready": "Creating"}
            thing = self.things[name] = Thing(copy.deepcopy(wish))
        conditions: dict[str, str] = {}
        if may_write:
            refused = [path for path in _REFUSED if get(wish, path) != get(thing.spec, path)]
            if refused:
                conditions["LastAsyncOperation"] = (
                    "async update failed: refuse to update the external resource because the following update requires "
                    f"replacing it: cannot change the value of the argument {refused[0]}"
                )
            else:
                if kind == "NodePool" and any(get(wish, path) != get(thing.spec, path) for path in _REPLACES):
                    self._remove_nodes(remote, name, self.replaced)
                thing.spec = copy.deepcopy(wish)
        thing.rounds += 1
        if thing.rounds < _ROUNDS:
            conditions["Ready"] = "Creating"
        elif kind == "NodePool":
            self._add_nodes(remote, name, thing.spec)
        return thing, conditions

    def _has_cluster(self, hub_name: str) -> bool:
        found = Api(self.stack.home, "hub").find("Cluster")
        mine = next((one for one in found if text(one, "metadata.name") == hub_name), None)
        return bool(text(mine, "status.atProvider.id"))

    def nodes(self, pool: str, remote: Api | None = None) -> list[str]:
        """Return the names of the nodes of a pool."""
        api = remote or self.stack.remote
        return sorted(
            text(n, "metadata.name") for n in api.find("Node", labels=f"cloud.google.com/gke-nodepool={pool}")
        )

    def _add_nodes(self, remote: Api, pool: str, spec: Manifest) -> None:
        # Per zone. The autoscaler adds nodes for pods that wait, which are not played.
        wanted = integer(spec, "nodeCount") * len(list_texts(spec, "nodeLocations"))
        wanted = min(wanted, self.stock.get(pool, 1000))
        there = self.nodes(pool, remote)
        gpus = sum(integer(row, "count") for row in listing(spec, "nodeConfig.guestAccelerator"))
        for number in range(len(there), wanted):
            labels = {"cloud.google.com/gke-nodepool": pool}
            name = f"gke-{pool}-{len(self.replaced)}-{number}"
            remote.apply(inventory.build_node(name, labels, gpus))

    def _remove_nodes(self, remote: Api, pool: str, into: list[str]) -> None:
        for name in self.nodes(pool, remote):
            remote.delete("Node", name)
            into.append(name)

    def _delete(self, remote: Api, kind: str, name: str) -> None:
        if self.things.pop(name, None) is not None:
            self.deleted.append(name)
        if kind == "NodePool":
            self._remove_nodes(remote, name, [])

    def _write_kubeconfig(self, hub: Api, found: Manifest) -> None:
        """Write the kubeconfig as crossplane-runtime does: it belongs to the managed resource, and goes with it."""
        name, namespace = text(found, "spec.writeConnectionSecretToRef.name"), _namespace(found)
        if hub.get("Secret", name, namespace) is not None:
            return
        config = base64.b64encode(self.stack.home.kubeconfig("executor").read_bytes()).decode()
        owner: Manifest = {
            "apiVersion": GROUP_VERSION,
            "kind": "Cluster",
            "name": text(found, "metadata.name"),
            "uid": text(found, "metadata.uid"),
            "controller": True,
            "blockOwnerDeletion": True,
        }
        hub.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "connection.crossplane.io/v1alpha1",
                "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
                "data": {"kubeconfig": config},
            }
        )

    def _report(self, hub: Api, kind: str, found: Manifest, thing: Thing | None, failed: dict[str, str]) -> None:
        rows = {"Synced": "", "Ready": "", **failed}
        conditions: list[JSON] = [
            {
                "type": type_,
                "status": "False" if message else "True",
                "reason": "ReconcileError" if message else "ReconcileSuccess",
                "message": message,
                "lastTransitionTime": _NOW,
                "observedGeneration": get(found, "metadata.generation"),
            }
            for type_, message in rows.items()
        ]
        reported: Manifest = {"conditions": conditions}
        if thing is not None:
            fields = {key: value for key, value in thing.spec.items() if key != "clusterRef"}
            if kind == "Cluster":  # Google reports the paths of networks
                fields["network"] = f"projects/my-project/global/networks/{text(thing.spec, 'network')}"
            reported["atProvider"] = {"id": text(found, "metadata.name"), **fields}
        if mapping(found, "status") != reported:
            hub.patch(kind, text(found, "metadata.name"), {"status": reported}, _namespace(found), part="status")


def _initialize(hub: Api, kind: str, found: Manifest) -> None:
    """Write what Google has chosen into the spec where it was left out, as the provider does (LateInitialize)."""
    missing: Manifest = {key: v for key, v in _CHOSEN[kind].items() if get(found, f"spec.forProvider.{key}") is None}
    if missing:
        hub.patch(kind, text(found, "metadata.name"), {"spec": {"forProvider": missing}}, _namespace(found))


def _namespace(found: Manifest) -> str:
    return text(found, "metadata.namespace")
