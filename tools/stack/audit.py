"""What API servers log of the requests of core, of provider-kubernetes, and of its identity on the remote cluster.

`Metadata`: who, which verb on what, and what was decided; no bodies, so no Secret is written to a file. Requests for
pods are logged for every identity, with the violations that Pod Security finds.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from function.kube.manifests import JSON, Manifest, mapping, text
from tools.stack import certificates
from tools.stack.layout import Home

WATCHED = ("core", "provider", "executor")
_MEGABYTES = 200


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """One kind of request: the verb as RBAC has it, the API group, the resource with its subresource."""

    verb: str
    group: str
    resource: str


def arguments(home: Home, server: str) -> tuple[str, ...]:
    """Return the options of an API server, whose policy this writes."""
    once: Manifest = {"level": "Metadata", "omitStages": ["RequestReceived"]}
    watched: Manifest = {**once, "users": [user(who) for who in WATCHED]}
    pods: Manifest = {**once, "verbs": ["create"], "resources": [{"group": "", "resources": ["pods"]}]}
    rules: list[JSON] = [watched, pods, {"level": "None"}]
    policy: Manifest = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    path = home.manifests / "audit-policy.yaml"
    path.write_text(json.dumps(policy))
    return (
        f"--audit-policy-file={path}",
        f"--audit-log-path={_log(home, server)}",
        f"--audit-log-maxsize={_MEGABYTES}",
    )


def user(identity: str) -> str:
    """Return the name by which an API server knows one of the stack's identities."""
    return certificates.IDENTITIES[identity][1].rpartition("/CN=")[2]


def events(home: Home, server: str, identity: str) -> Iterator[Manifest]:
    """Yield what a server noted of an identity so far, oldest first."""
    return (event for event in _events(home, server) if text(event, "user.username") == user(identity))


def violations(home: Home, server: str, namespace: str) -> set[tuple[str, str]]:
    """Return what Pod Security found in the pods of a namespace whose label asks for an audit, by who made them."""
    return {
        (text(event, "user.username"), str(said))
        for event in _events(home, server)
        if text(event, "objectRef.resource") == "pods" and text(event, "objectRef.namespace") == namespace
        for key, said in mapping(event, "annotations").items()
        if key == "pod-security.kubernetes.io/audit-violations"
    }


def _events(home: Home, server: str) -> Iterator[Manifest]:
    with _log(home, server).open() as lines:
        for line in lines:
            if line.endswith("\n"):  # else it is being written
                yield json.loads(line)


def request(event: Manifest) -> Request:
    """Return what was asked for; a path that is no resource has only its verb."""
    what = mapping(event, "objectRef")
    resource = "/".join(part for part in (text(what, "resource"), text(what, "subresource")) if part)
    return Request(text(event, "verb"), text(what, "apiGroup"), resource)


def denied(found: Iterable[Manifest]) -> set[Request]:
    """Return what the authorizer forbade."""
    return {
        request(event)
        for event in found
        if mapping(event, "annotations").get("authorization.k8s.io/decision") == "forbid"
    }


def _log(home: Home, server: str) -> Path:
    return home.logs / f"{server}-audit.log"
