"""Scenario 25: the roles that we ship are what is used. All kinds are made, edited and deleted; then the audit logs say
which requests were denied (none) and which rights were not used.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from function.kube.manifests import Manifest, listing, text
from tests.e2e.objects import cache, deployment, environment, model, pool, spanning
from tests.e2e.world import World
from tools.stack import audit, upstream
from tools.stack.audit import Request
from tools.stack.layout import SOURCE
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e
TEAM, MODEL = "audited", "audited"


def _granted(path: Path, role: str) -> set[Request]:
    """Return what a ClusterRole grants, one by one; `*` stays."""
    (found,) = (
        doc for doc in upstream.read(path) if text(doc, "metadata.name") == role and doc["kind"] == "ClusterRole"
    )
    return {
        Request(str(verb), str(group), str(resource))
        for rule in listing(found, "rules")
        for group in _texts(rule, "apiGroups")
        for resource in _texts(rule, "resources")
        for verb in _texts(rule, "verbs")
    }


def _texts(rule: Manifest, key: str) -> Iterator[str]:
    found = rule[key]
    assert isinstance(found, list)
    return map(str, found)


def _covers(right: Request, used: Request) -> bool:
    return all(
        mine in ("*", theirs)
        for mine, theirs in ((right.verb, used.verb), (right.group, used.group), (right.resource, used.resource))
    )


def _silent(right: Request) -> bool:
    """Tell whether an API server asks for a right without a request of its own that it would note.

    Where an apply makes an object it asks for `create` beside `patch`; where it protects owners that block their
    deletion, for `update` of finalizers. And the provider asks whether it may `get` CRDs before it watches them.
    """
    asked = Request("get", "apiextensions.k8s.io", "customresourcedefinitions")
    return (
        right == asked
        or right.verb == "create"
        or (right.verb, right.resource.rpartition("/")[2]) == ("update", "finalizers")
    )


@pytest.fixture(scope="module")
def lived(world: World, empty: None) -> str:  # noqa: ARG001  # it comes first
    """Make, edit and delete one of each kind, and return when that began: other scenarios take rights away."""
    began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    world.team(TEAM)
    audited: Manifest = {"name": TEAM, "labels": {"pod-security.kubernetes.io/audit": "restricted"}}
    world.stack.remote.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": audited})
    profile = spanning(2, 8)
    secret: Manifest = {"secretRef": {"name": "hf-token", "namespace": "modelplane-system"}}
    own: Manifest = {**model("mine"), "kind": "Model", "metadata": {"name": "mine", "namespace": TEAM}}
    sized: Manifest = {"disk": "100Gi"}
    source: Manifest = {"repo": f"example/{MODEL}", **secret}
    world.apply(
        environment("audited", pool("gpus", maxNodeCount=6)),
        model(MODEL, profile=profile, huggingFace=source, resources=sized),
        own,
        cache(TEAM, "kept", MODEL, ["audited"]),
        deployment(TEAM, "managed", MODEL, on="audited"),
        deployment(TEAM, "reader", MODEL, on="audited", modelCache={"name": "kept"}),
        # Without a gateway in the platform settings it composes nothing, and reports that in its status.
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelService",
            "metadata": {"name": "one-url", "namespace": TEAM},
            "spec": {"backends": [{"deployment": "managed"}]},
        },
    )
    for name in ("managed", "reader"):
        world.ready(TEAM, name)
    before = world.service(world.placement(TEAM, "managed"))["spec"]
    world.apply(
        environment("audited", pool("gpus", maxNodeCount=7)),
        model(MODEL, profile=profile, huggingFace={**source, "revision": "edited"}, resources=sized),
        {**own, "spec": {**model("mine")["spec"], "resources": {"disk": "2Gi"}}},  # type: ignore[dict-item]  # a mapping
        cache(TEAM, "kept", MODEL, ["audited"], retry="1"),
        deployment(TEAM, "managed", MODEL, on="audited", replicas=2),
    )
    until("the edit to arrive", lambda: world.service(world.placement(TEAM, "managed")).get("spec") != before)
    world.ready(TEAM, "managed")
    world.remove(TEAM, "managed", "reader")
    world.delete_cache(TEAM, "kept")
    # Without its environment the provider could not finish what it deletes.
    until("Objects of the team to go", lambda: not world.stack.hub.find("Object", TEAM))
    world.clear()
    until("every Object to go", lambda: not world.stack.hub.find("Object"))
    return began


ROLES = (
    ("hub", "core", "hub-rbac.yaml", "modelplane:aggregate-to-crossplane"),
    ("hub", "provider", "hub-rbac.yaml", "modelplane:provider-kubernetes"),
    ("remote", "executor", "remote-rbac.yaml", "modelplane"),
)


@pytest.mark.parametrize(("server", "identity", "file", "role"), ROLES, ids=[row[1] for row in ROLES])
def test_nothing_is_denied_and_every_right_is_used(  # a row of the table
    world: World, lived: str, server: str, identity: str, file: str, role: str
) -> None:
    found = [*audit.events(world.stack.home, server, identity)]
    assert audit.denied(e for e in found if text(e, "requestReceivedTimestamp") >= lived) == set()
    used = {audit.request(event) for event in found}
    unused = {right for right in _granted(SOURCE / "install" / file, role) if not any(_covers(right, u) for u in used)}
    assert sorted(right for right in unused if not _silent(right)) == []


@pytest.mark.usefixtures("lived")
def test_what_pod_security_refuses_is_what_is_documented(world: World) -> None:
    """Downloads pass; pods of several nodes, which no preset of KServe's starts, break four rules."""
    (said,) = {said for _, said in audit.violations(world.stack.home, "remote", TEAM)}
    assert re.findall(r"[:,] ([^,:(]+) \(", said) == [
        "allowPrivilegeEscalation != false", "unrestricted capabilities", "runAsNonRoot != true", "seccompProfile",
    ]  # fmt: skip
    assert 'container "main" must not include "IPC_LOCK"' in said
