"""The control plane and the remote cluster as scenarios see them: set up, apply, look, wait.

Everything that a user or an administrator would do is a verb here; everything that they would look at is a
reader.
"""

import base64
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from function.kube.manifests import Manifest, condition, listing, mapping, text
from tools.stack import inventory, upstream
from tools.stack.stack import Stack
from tools.stack.waiting import PATIENCE, until

ACCEPTANCE = Path(__file__).parents[1] / "acceptance"
TEAMS = ("research", "assistants")
KUBECONFIGS = ("dallas-kubeconfig", "gke-europe-kubeconfig")
_MODELS = ("ClusterModel", "Model")
_DELETED_LATER = ("InferenceEnvironment", "ClusterModel")
_REMOTE_KINDS = (
    "Namespace",
    "Secret",
    "PersistentVolumeClaim",
    "Job",
    "LLMInferenceService",
    "LeaderWorkerSet",
    "Deployment",
    "Pod",
)


@dataclass(frozen=True, slots=True)
class World:
    """Both clusters of one stack."""

    stack: Stack

    def prepare(self) -> None:
        """Do what an administrator does first: namespaces, kubeconfigs, a token."""
        self.stack.kubectl.apply(inventory.namespaces(*TEAMS))
        for name in KUBECONFIGS:
            self.kubeconfig(name)
        self.secret("hf-token", {"HF_TOKEN": "hf_not_a_token"})

    def kubeconfig(self, name: str) -> None:
        """Store a kubeconfig of the remote cluster, with the rights that we ask for and no more."""
        self.secret(name, {"kubeconfig": self.stack.home.kubeconfig("executor").read_text()})

    def secret(self, name: str, data: dict[str, str]) -> None:
        """Store a Secret where environments and models look for theirs."""
        encoded: Manifest = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        self.stack.hub.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": "modelplane-system"},
                "data": encoded,
            }
        )

    def team(self, name: str) -> str:
        """Return a namespace on the hub, made now."""
        self.stack.kubectl.apply(inventory.namespaces(name))
        return name

    def apply(self, *manifests: Manifest) -> None:
        """Apply manifests as `kubectl apply` does, once none of those names is on its way out."""
        for manifest in manifests:
            until(f"the earlier {text(manifest, 'metadata.name')} to go", partial(self._stays, manifest))
        self.stack.kubectl.apply(list(manifests))

    def apply_file(self, path: Path) -> None:
        """Apply a file as it is."""
        for manifest in upstream.read(path):
            until(f"the earlier {text(manifest, 'metadata.name')} to go", partial(self._stays, manifest))
        self.stack.kubectl("apply", "-f", str(path))

    def _stays(self, manifest: Manifest) -> bool:
        if manifest["kind"] not in _DELETED_LATER:
            return True
        there = self.stack.hub.get(text(manifest, "kind"), text(manifest, "metadata.name"))
        return not text(there, "metadata.deletionTimestamp")

    def deployment(self, namespace: str, name: str) -> Manifest:
        """Return a ModelDeployment."""
        return self._hub("ModelDeployment", namespace, name)

    def placements(self, namespace: str, deployment: str) -> list[Manifest]:
        """Return the placements of a deployment by name."""
        return [
            placement
            for placement in self.stack.hub.find("ModelPlacement", namespace)
            if text(placement, "spec.deploymentRef.name") == deployment
        ]

    def placement(self, namespace: str, deployment: str) -> Manifest:
        """Return the only placement of a deployment."""
        (found,) = self.placements(namespace, deployment)
        return found

    def wait_placed(self, namespace: str, deployment: str) -> str:
        """Wait until a deployment has its only placement, and return its name."""
        found = until("a placement", lambda: self.placements(namespace, deployment))
        return text(found[0], "metadata.name")

    def wait(
        self, kind: str, name: str, type_: str, want: str, namespace: str = "", seconds: float = PATIENCE
    ) -> Manifest:
        """Wait until a condition reads `True` or `False/SomeReason`, and return the object."""

        def reads() -> Manifest | None:
            found = self.stack.hub.get(kind, name, namespace) or {}
            said = condition(found, type_)
            if f"{text(said, 'status')}/{text(said, 'reason')}".startswith(want):
                return found
            raise LookupError(f"{text(said, 'status')}/{text(said, 'reason')}: {text(said, 'message')}")

        return until(f"{kind} {name}: {type_}={want}", reads, seconds=seconds)

    def ready(self, namespace: str, name: str) -> Manifest:
        """Wait until a deployment is Ready on all its environments, with its URL where that is one, in one reading.

        Crossplane may write earlier conditions once more, from a cache that is older than its own last write.
        """

        def up() -> Manifest | None:
            found = self.deployment(namespace, name)
            counts = mapping(found, "status.environments")
            has_url = bool(text(found, "status.url")) or counts.get("desired") != 1
            if (
                condition(found, "Ready").get("status") == "True"
                and counts.get("ready") == counts.get("desired")
                and has_url
            ):
                return found
            raise LookupError(str(found.get("status")))

        return until(f"{namespace}/{name} to be Ready", up)

    def service(self, placement: Manifest) -> Manifest:
        """Return the remote service of a placement."""
        where = mapping(placement, "status.service")
        found = self.stack.remote.get("LLMInferenceService", text(where, "name"), text(where, "namespace"))
        if found is None:
            raise LookupError(f"no service {where}")
        return found

    def pods(self, service: Manifest) -> list[Manifest]:
        """Return the engine pods of a service."""
        found = self.stack.remote.find(
            "Pod", text(service, "metadata.namespace"), f"app.kubernetes.io/name={text(service, 'metadata.name')}"
        )
        return sorted(found, key=lambda pod: text(pod, "metadata.name"))

    def pool_of(self, pod: Manifest) -> str:
        """Return the value of the pool label of the node that a pod runs on."""
        node = self.stack.remote.get("Node", text(pod, "spec.nodeName")) or {}
        labels = mapping(node, "metadata.labels")
        return str(labels.get("modelplane.ai/pool") or labels.get("cloud.google.com/gke-nodepool") or "")

    def remote_uids(self, *namespaces: str) -> dict[str, str]:
        """Return the uid of everything of ours on the remote cluster in these namespaces."""
        uids = {}
        for kind in _REMOTE_KINDS:
            for found in self.stack.remote.find(kind):
                name, namespace = text(found, "metadata.name"), text(found, "metadata.namespace")
                if (namespace or name) in namespaces:
                    uids[f"{kind} {namespace}/{name}"] = text(found, "metadata.uid")
        return uids

    def remove(self, namespace: str, *deployments: str) -> None:
        """Delete deployments and wait until they and their placements are gone."""
        for name in deployments:
            self.stack.hub.delete("ModelDeployment", name, namespace)

        def gone() -> bool:
            left = [d for d in deployments if self.stack.hub.get("ModelDeployment", d, namespace)]
            return not left and not any(self.placements(namespace, d) for d in deployments)

        until(f"{', '.join(deployments)} to be gone", gone)

    def delete_cache(self, namespace: str, name: str) -> None:
        """Delete a ModelCache as soon as no Usage of a placement that is being deleted refuses it."""
        cache: Manifest = {"metadata": {"name": name, "namespace": namespace}}
        until(f"ModelCache {name} to be deleted", partial(self._try_delete, "ModelCache", cache))

    def clear(self) -> None:
        """Delete everything of ours, deployments first; what an earlier scenario made takes no GPUs then."""
        self.clear_services()
        # The provider may let go of a ClusterProviderConfig before it has deleted the last Object (docs/facts.md).
        until("every Object that is being deleted to go", self._none_is_being_deleted, seconds=120)
        self._delete(("InferenceEnvironment", *_MODELS))

    def clear_services(self) -> None:
        """Delete deployments, placements and caches, and wait until their services and pods are gone."""
        for kinds in (("ModelService", "ModelDeployment"), ("ModelPlacement", "ModelCache")):
            self._delete(kinds)
            until("everything to go", partial(self._none_of, kinds))
        # The scenario that creates services by hand deletes them.
        until("every service and its pods to go", self._nothing_serves, seconds=120)

    def _delete(self, kinds: tuple[str, ...]) -> None:
        for kind in kinds:
            for found in self.stack.hub.find(kind):
                # A Usage refuses it while a placement reads from the cache, and the placement is being deleted.
                until(f"{kind} {text(found, 'metadata.name')} to be deleted", partial(self._try_delete, kind, found))

    def _try_delete(self, kind: str, found: Manifest) -> bool:
        self.stack.hub.delete(kind, text(found, "metadata.name"), text(found, "metadata.namespace"))
        return True

    def _none_of(self, kinds: tuple[str, ...]) -> bool:
        return not any(self.stack.hub.find(kind) for kind in kinds)

    def _none_is_being_deleted(self) -> bool:
        objects = self.stack.hub.find("Object")
        if left := [text(each, "metadata.name") for each in objects if text(each, "metadata.deletionTimestamp")]:
            raise LookupError(", ".join(left))
        return True

    def _nothing_serves(self) -> bool:
        services = self.stack.remote.find("LLMInferenceService")
        pods = self.stack.remote.find("Pod", labels="app.kubernetes.io/part-of=llminferenceservice")
        if left := [f"{text(each, 'metadata.namespace')}/{text(each, 'metadata.name')}" for each in services + pods]:
            raise LookupError(", ".join(left))
        return True

    def overview(self) -> str:
        """Return what `kubectl get` shows of our kinds, and every condition that is not True."""
        kinds = "clustermodels,models,inferenceenvironments,modeldeployments,modelplacements,modelcaches,modelservices"
        try:
            lines = [self.stack.kubectl("get", f"{kinds},objects", "-A")]
        except ChildProcessError as none:  # of our kinds, while scenario 19 is at it
            return str(none)
        for kind in (
            "InferenceEnvironment",
            "ModelDeployment",
            "ModelPlacement",
            "ModelCache",
            "ModelService",
            "Object",
        ):
            for found in self.stack.hub.find(kind):
                name = f"{kind} {text(found, 'metadata.namespace')}/{text(found, 'metadata.name')}"
                lines += [
                    f"{name}: {text(c, 'type')}={text(c, 'status')}/{text(c, 'reason')} {text(c, 'message')[:300]}"
                    for c in listing(found, "status.conditions")
                    if text(c, "status") != "True"
                ]
        return "\n".join(lines)

    def _hub(self, kind: str, namespace: str, name: str) -> Manifest:
        found = self.stack.hub.get(kind, name, namespace)
        if found is None:
            raise LookupError(f"no {kind} {namespace}/{name}")
        return found


def main_container(pod: Manifest) -> Manifest:
    """Return the container that serves."""
    return next(c for c in listing(pod, "spec.containers") if c["name"] == "main")


def gpus(pod: Manifest) -> str:
    """Return the GPU limit of the container that serves."""
    return str(mapping(main_container(pod), "resources.limits").get("nvidia.com/gpu", ""))


def claims_mounted(pod: Manifest) -> dict[str, bool]:
    """Return the claims that the serving container mounts, and whether it does so read-only."""
    claims = {
        text(volume, "name"): text(volume, "persistentVolumeClaim.claimName")
        for volume in listing(pod, "spec.volumes")
        if mapping(volume, "persistentVolumeClaim")
    }
    return {
        claims[text(mount, "name")]: mount.get("readOnly") is True
        for mount in listing(main_container(pod), "volumeMounts")
        if text(mount, "name") in claims
    }


def running(pod: Manifest) -> bool:
    """Return whether a pod runs and is Ready."""
    return text(pod, "status.phase") == "Running" and condition(pod, "Ready").get("status") == "True"
