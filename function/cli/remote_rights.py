"""What the identity of an environment's kubeconfig must be allowed to do: install/remote-rbac.yaml, as questions."""

from dataclasses import dataclass

from function.kube.manifests import Manifest

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WRITES = ("get", "list", "watch", "create", "patch")
_ALL = (*_WRITES, "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What must be allowed on a resource in all namespaces. `without`: when one does without it, if one can."""

    group: str = ""
    resource: str
    verbs: tuple[str, ...]
    without: str = ""


RIGHTS = (
    Right(resource="namespaces", verbs=_WRITES),
    Right(resource="secrets", verbs=_ALL),
    Right(resource="persistentvolumeclaims", verbs=_ALL),
    Right(resource="configmaps", verbs=_ALL),
    Right(group="batch", resource="jobs", verbs=_ALL),
    Right(group="serving.kserve.io", resource="llminferenceservices", verbs=_ALL),
    Right(group="serving.kserve.io", resource="llminferenceserviceconfigs", verbs=_WRITES),
    Right(
        group="storage.k8s.io",
        resource="storageclasses",
        verbs=("get", "list", "watch", "patch"),
        without="patch may be left out where provider-kubernetes runs with --enable-server-side-apply=false",
    ),
    Right(
        resource="nodes",
        verbs=("get", "list", "patch"),
        without="may be left out where spec.hardware.observe of the environment is Never",
    ),
)


def review(right: Right, verb: str) -> Manifest:
    """Return the question whether who asks may do something. The API server answers it and stores nothing."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"group": right.group, "resource": right.resource, "verb": verb}},
    }
