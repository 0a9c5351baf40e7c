"""What a gateway controller and a storage system would do, played, because none of them runs here.

Gateways of the played class are Accepted and Programmed. Their routes are Accepted with their references resolved, each
generation of those that KServe does not own, and so are InferencePools, unless a label of their namespace says that the
gateway knows none. A volume whose claim is gone is free again.
Runs as a process of its own: `python -m tools.stack.players HOME CLUSTER`.
"""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

from function.kube.manifests import JSON, Manifest, integer, listing, text
from tools.stack import inventory, layout
from tools.stack.api import Api
from tools.stack.layout import Cluster, Home
from tools.stack.processes import Program

REFUSES_POOLS = "e2e-pools=refused"  # label of a namespace whose InferencePools no gateway accepts
_NOW = "2026-01-01T00:00:00Z"


def program(home: Home, cluster: Cluster = layout.EAST) -> Program:
    """Return the players of a GPU cluster."""
    argv = (sys.executable, "-m", "tools.stack.players", str(home.root), cluster.name)
    return Program(name=f"{cluster.prefix}players", argv=argv)


def play(remote: Api) -> None:
    """Do one round."""
    played = [each for each in remote.find("Gateway") if text(each, "spec.gatewayClassName") == inventory.PLAYED]
    for gateway in played:
        if not listing(gateway, "status.addresses"):
            _patch_status(remote, gateway, _gateway_status())
    for route in remote.find("HTTPRoute") if played else ():
        if not _is_observed(route):
            _patch_status(remote, route, _route_status(route))
    for pool in remote.find("InferencePool") if played else ():
        refusing = {text(each, "metadata.name") for each in remote.find("Namespace", labels=REFUSES_POOLS)}
        if not listing(pool, "status.parents") and text(pool, "metadata.namespace") not in refusing:
            _patch_status(remote, pool, _pool_status(played))
    for volume in remote.find("PersistentVolume"):
        if text(volume, "status.phase") == "Released":
            remote.patch("PersistentVolume", text(volume, "metadata.name"), {"spec": {"claimRef": None}})


def _patch_status(remote: Api, manifest: Manifest, status: Manifest) -> None:
    remote.patch(
        text(manifest, "kind"),
        text(manifest, "metadata.name"),
        {"status": status},
        text(manifest, "metadata.namespace"),
        part="status",
    )


def _is_observed(route: Manifest) -> bool:
    """Tells whether a status is up to date. Those of KServe's own routes stay: KServe would not be Ready meanwhile."""
    found = [c for parent in listing(route, "status.parents") for c in listing(parent, "conditions")]
    generation = integer(route, "metadata.generation")
    is_current = all(integer(each, "observedGeneration") == generation for each in found)
    return bool(found) and (_is_of_kserve(route) or is_current)


def _is_of_kserve(route: Manifest) -> bool:
    return any(text(each, "kind") == "LLMInferenceService" for each in listing(route, "metadata.ownerReferences"))


def _gateway_status() -> Manifest:
    return {
        "addresses": [{"type": "IPAddress", "value": "127.0.0.1"}],
        "conditions": [*_conditions("Accepted", "Programmed")],
    }


def _route_status(route: Manifest) -> Manifest:
    conditions = _conditions("Accepted", "ResolvedRefs")
    if not _is_of_kserve(route):
        conditions = [{**each, "observedGeneration": integer(route, "metadata.generation")} for each in conditions]
    parents: list[JSON] = [
        {"parentRef": parent, "controllerName": inventory.PLAYER, "conditions": [*conditions]}
        for parent in listing(route, "spec.parentRefs")
    ]
    return {"parents": parents}


def _pool_status(gateways: Iterable[Manifest]) -> Manifest:
    parents: list[JSON] = [
        {
            "parentRef": {
                "group": "gateway.networking.k8s.io",
                "kind": "Gateway",
                "name": text(gateway, "metadata.name"),
                "namespace": text(gateway, "metadata.namespace"),
            },
            "controllerName": inventory.PLAYER,
            "conditions": [*_conditions("Accepted", "ResolvedRefs")],
        }
        for gateway in gateways
    ]
    return {"parents": parents}


def _conditions(*types: str) -> list[Manifest]:
    return [
        {"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": _NOW} for type_ in types
    ]


def main() -> None:
    """Play until ended; an API server that is away is waited for."""
    remote = Api(Home(Path(sys.argv[1])), sys.argv[2])
    while True:
        try:
            play(remote)
        except OSError as error:
            print(error, flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main()
