"""Claims that outlive the deployments which filled them, as the Objects of their environments show them."""

from collections.abc import Iterable
from dataclasses import dataclass

from function.cli.live import Cluster
from function.kube.manifests import Manifest, listing, strings, text
from function.kube.names import LABEL_CACHE_KEY, LABEL_KEPT_FOR, LABEL_MODEL, LABEL_OWNER
from function.remote.composed_kinds import OBJECT_VERSION
from function.remote.observed_object import State, read_object, read_written

_PATH = f"/apis/{OBJECT_VERSION}/objects?labelSelector={LABEL_KEPT_FOR.replace('/', '%2F')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptClaim:
    name: str
    namespace: str  # of the deployments that kept it, on the control plane
    remote_namespace: str
    environment: str
    model: str  # as its label has it; empty: not observed yet
    key: str
    size: str
    created: str
    labels: dict[str, str]

    @property
    def advice(self) -> str:
        """What is to be done to delete it, on the cluster of its environment."""
        jobs = f"its Jobs with -l {LABEL_CACHE_KEY}={self.key}" if self.key else "its Jobs"
        command = f"kubectl delete pvc {self.name} -n {self.remote_namespace}"
        return f"To delete it, run '{command}' on the cluster of {self.environment}, and delete {jobs}"


def find_kept_claims(cluster: Cluster, namespace: str = "") -> list[KeptClaim]:
    """Returns the kept claims of a namespace, or of all; none if the caller may not read Objects."""
    found = listing(cluster.fetch(_PATH) or {}, "items")
    return sorted(
        (claim for claim in _parse(found) if namespace in ("", claim.namespace)),
        key=lambda claim: (claim.namespace, claim.name, claim.environment),
    )


def _parse(objects: Iterable[Manifest]) -> Iterable[KeptClaim]:
    for manifest in objects:
        labels = strings(manifest, "metadata.labels")
        remote = read_object(manifest)
        if LABEL_KEPT_FOR not in labels or remote.state is State.ABSENT:
            continue
        written = read_written(manifest)
        claim_labels = dict(strings(remote.manifest, "metadata.labels"))
        yield KeptClaim(
            name=text(written, "metadata.name"),
            namespace=labels[LABEL_KEPT_FOR],
            remote_namespace=text(written, "metadata.namespace"),
            environment=labels.get(LABEL_OWNER, ""),
            model=claim_labels.get(LABEL_MODEL, ""),
            key=claim_labels.get(LABEL_CACHE_KEY, ""),
            size=text(remote.manifest, "status.capacity.storage"),
            created=text(remote.manifest, "metadata.creationTimestamp"),
            labels=claim_labels,
        )
