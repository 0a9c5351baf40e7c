"""The complete Object for a remote manifest."""

from dataclasses import replace

from function.domain.model import SecretKey
from function.domain.pods import PullSecret
from function.kube.manifests import JSON, Manifest
from function.remote.composed_kinds import GPU_CLUSTER_KINDS
from function.remote.object_writer import (
    NAMESPACE,
    ManagementPolicy,
    ObjectWriter,
    compose_namespace,
    find_remote_namespace,
    object_name,
)
from function.weights.credentials import SecretCopy, list_pull_secret_copies

WRITER = ObjectWriter(owner="chat-env", namespace="team", provider_config="east", watch=False, observed={})
US: JSON = {"app.kubernetes.io/managed-by": "modelplane"}
MAP: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}}

READINESS = {row.kind: row.readiness for row in GPU_CLUSTER_KINDS}


def an_object(key: str, manifest: Manifest, policies: list[JSON], **spec: JSON) -> Manifest:
    """Return the Object for a manifest, as it is specified."""
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "metadata": {
            "name": object_name("chat-env", key),
            "namespace": "team",
            "labels": {"app.kubernetes.io/managed-by": "modelplane", "modelplane.ai/owner": "chat-env"},
        },
        "spec": {
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "east"},
            "managementPolicies": policies,
            "forProvider": {"manifest": manifest},
            **spec,
        },
    }


def test_composes_object_for_manifest() -> None:
    made = WRITER.compose("job-a", MAP, ManagementPolicy.OBSERVE_DELETE)
    assert (made.manifest, made.ready) == (an_object("job-a", MAP, ["Observe", "Delete"]), False)
    watched = replace(WRITER, watch=True).compose("job-a", MAP, ManagementPolicy.OBSERVE_ONLY)
    assert watched.manifest == an_object("job-a", MAP, ["Observe"], watch=True)
    job: Manifest = {"apiVersion": "batch/v1", "kind": "Job"}
    query: JSON = {"policy": "DeriveFromCelQuery", "celQuery": READINESS["Job"]}
    assert WRITER.compose("job-a", job, ManagementPolicy.FULL).manifest == an_object(
        "job-a", job, ["*"], readiness=query
    )
    claim: Manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    query = {"policy": "DeriveFromCelQuery", "celQuery": READINESS["PersistentVolumeClaim"]}
    assert WRITER.compose("a", claim, ManagementPolicy.FULL).manifest == an_object("a", claim, ["*"], readiness=query)
    scoped = replace(WRITER, scope="west").compose("job-a", MAP, ManagementPolicy.FULL)
    assert scoped.manifest["metadata"] != made.manifest["metadata"], (
        "the Objects of one composite have different names for different clusters"
    )


def test_object_is_ready_when_remote_object_is_healthy() -> None:
    claim: Manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Bound"}}
    there: Manifest = {"status": {"atProvider": {"manifest": claim}}}
    assert replace(WRITER, observed={"a": there}).compose("a", MAP, ManagementPolicy.FULL).ready
    lost: JSON = [{"type": "Synced", "status": "False", "message": "dial tcp: i/o timeout"}]
    silent: Manifest = {"status": {"atProvider": {"manifest": claim}, "conditions": lost}}
    assert not replace(WRITER, observed={"a": silent}).compose("a", MAP, ManagementPolicy.FULL).ready


def test_namespace_is_created_and_never_deleted() -> None:
    manifest: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}
    kept: list[JSON] = ["Observe", "Create", "Update", "LateInitialize"]
    assert compose_namespace("lab", WRITER).manifest == an_object(NAMESPACE, manifest, kept)


def test_secret_copy_holds_reference_and_no_data() -> None:
    source = SecretKey(name="hf", namespace="builds", key="HF_TOKEN")
    secret: Manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": "copy", "namespace": "lab", "labels": US},
    }
    for whole, field in ((False, "data[HF_TOKEN]"), (True, "data")):
        origin: JSON = {"apiVersion": "v1", "kind": "Secret", "name": "hf", "namespace": "builds", "fieldPath": field}
        copy = SecretCopy(name="copy", origin=source, all_keys=whole)
        made = copy.compose(WRITER, "token-copy", "lab", ManagementPolicy.FULL).manifest
        references: JSON = [{"patchesFrom": origin, "toFieldPath": field}]
        assert made == an_object("token-copy", secret, ["*"], references=references)
        assert copy.label == "builds/hf (key HF_TOKEN)"


def test_copies_only_secrets_of_the_control_plane() -> None:
    source = SecretKey(name="mirror", namespace="builds", key=".dockerconfigjson")
    pulled = list_pull_secret_copies([PullSecret(name="copy", source=source), PullSecret(name="there")])
    assert pulled == (SecretCopy(name="copy", origin=source, type="kubernetes.io/dockerconfigjson"),)


def _in(name: str) -> Manifest:
    return {"spec": {"forProvider": {"manifest": {"metadata": {"namespace": name}}}}} if name else {"spec": {}}


def test_remote_namespace_is_that_of_the_first_observed_object_that_has_one() -> None:
    assert find_remote_namespace({"z": _in("new"), "a": _in(""), "b": _in("old"), "usage": {"spec": {}}}) == "old"
    assert find_remote_namespace({"namespace": _in("")}) == ""
