"""The Deployments that KServe creates for services on one node: which spec their pods have.

A new pod starts before an old one ends. A service whose new pods do not start therefore stays Ready on its old ones.
"""

from bench.simulator.objects import Version
from function.kube.manifests import Manifest, get, integer, mapping, strings, text
from function.kube.names import ANNOTATION_SPEC_DIGEST

_SUFFIX = "-kserve"
_READY = 3  # the step in which the pods of a service are ready


class Deployments:
    """The pods of all services on one node. `behind`: since when a service has pods of an earlier spec, by uid."""

    def __init__(self) -> None:
        self.behind: dict[str, float] = {}
        self._running: dict[str, str] = {}  # spec digest of the pods that are available, by uid of the Object

    def update(self, service: Version, step: int, now: float, *, starts: bool) -> int:
        """Lets new pods start or not, and returns the step at which KServe shows the service."""
        digest = _read_digest(service)
        if starts and step >= _READY:
            self._running[service.uid] = digest
        if self._running.get(service.uid) == digest:
            self.behind.pop(service.uid, None)
        else:
            self.behind.setdefault(service.uid, now)
        return step if starts or service.uid in self._running else min(step, _READY - 1)

    def show(self, deployment: Manifest, service: Version) -> Manifest:
        """Returns a Deployment as observed."""
        digest, replicas = _read_digest(service), integer(_remote(service), "spec.replicas")
        running = self._running.get(service.uid)
        is_updated, available = running == digest, replicas if running else 0
        status: Manifest = {
            "observedGeneration": 1,
            "replicas": available if is_updated else available + 1,
            "updatedReplicas": replicas if is_updated else 1,
            "availableReplicas": available,
        }
        template: Manifest = {"metadata": {"annotations": {ANNOTATION_SPEC_DIGEST: digest}}}
        return {**deployment, "spec": {"replicas": replicas, "template": template}, "status": status}


def is_on_one_node(manifest: Manifest) -> bool:
    """Tells whether a remote manifest is a service for which KServe creates a Deployment."""
    return text(manifest, "kind") == "LLMInferenceService" and get(manifest, "spec.worker") is None


def name_deployment(service: Manifest) -> str:
    """Returns the name of a service's Deployment."""
    return text(service, "metadata.name") + _SUFFIX


def _remote(version: Version) -> Manifest:
    return mapping(version.manifest, "spec.forProvider.manifest")


def _read_digest(service: Version) -> str:
    return strings(_remote(service), "spec.annotations").get(ANNOTATION_SPEC_DIGEST, "")
