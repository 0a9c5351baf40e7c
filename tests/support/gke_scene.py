"""An environment whose cluster is created on GKE, and a control plane that creates what is composed."""

import copy
import json

from function.composers import compose
from function.contract import Call, Outcome
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from tests.support.gke import build_definitions, established
from tests.support.plane import reconciled

ENV, NAMESPACE = "gke-us", "modelplane-system"
CLUSTER, SYSTEM, A100, USAGE = "gke-cluster", "gke-pool-system", "gke-pool-a100", "kubeconfig-usage"
KEEP = ["Observe", "Create", "Update", "LateInitialize"]
# As provider-upjet-gcp wraps what Google answers.
FORBIDDEN = (
    "async create failed: failed to create the resource: [{0 Error creating NodePool: googleapi: Error 403: "
    "Insufficient regional quota to satisfy request: resource NVIDIA_A100_GPUS, forbidden  []}]"
)


def environment(**provision: JSON) -> Manifest:
    pools: list[JSON] = [
        {
            "name": "a100",
            "acceleratorType": "nvidia-a100-80gb",
            "acceleratorCount": 4,
            "nodeCount": 4,
            "gke": {"machineType": "a2-ultragpu-4g", "zones": ["us-central1-a"], "reservation": "block"},
            "capabilities": {"memoryPerGpu": "80Gi", "multiNodeCapable": True},
        }
    ]
    gke: Manifest = {
        "project": "my-project",
        "region": "us-central1",
        "identitySecretRef": {"name": "gcp-credentials"},
        "provision": provision,
    }
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceEnvironment",
        "metadata": {"name": ENV, "uid": "uid-of-the-environment", "generation": 1},
        "spec": {"cluster": {"source": "GKE", "gke": gke}, "nodePools": pools},
    }


class Scene:
    """A control plane with the provider's kinds; each reconcile creates what is composed."""

    def __init__(self, xr: Manifest | None = None, definitions: list[Manifest] | None = None) -> None:
        self.xr = xr or environment()
        served = [established(d) for d in build_definitions()] if definitions is None else definitions
        names = {text(definition, "metadata.name") for definition in served}
        # The store of the command line assumes definitions that it does not have; these are not established.
        self.definitions = [*served, *(d for d in build_definitions() if text(d, "metadata.name") not in names)]
        self.placements: list[Manifest] = []
        self.observed: dict[str, Manifest] = {}

    def reconcile(self, *, unanswered: str = "") -> Outcome:
        call = Call(xr=self.xr, observed=self.observed)
        call, outcome = reconciled(call, [*self.definitions, *self.placements])
        if unanswered:
            answers = {key: answer for key, answer in call.answers.items() if not key.startswith(unanswered)}
            outcome = compose(Call(xr=self.xr, observed=self.observed, answers=answers))
        self.xr = {**self.xr, "status": {**mapping(self.xr, "status"), **outcome.status}}
        before, self.observed = self.observed, {}
        for key, item in outcome.composed.items():
            manifest: Manifest = json.loads(json.dumps(item.manifest, sort_keys=True))  # as an API server keeps it
            mapping(manifest, "metadata").update({"resourceVersion": "7", "uid": f"uid-{key}"})
            if "status" in before.get(key, {}):
                manifest["status"] = before[key]["status"]
            self.observed[key] = manifest
        return outcome

    def report(self, key: str, reported: Manifest | None = None, **conditions: str) -> None:
        """Let the provider report a managed resource; by default, as it is sent and Ready."""
        sent = mapping(self.observed[key], "spec.forProvider")
        rows = {"Ready": "True", "Synced": "True", **conditions}
        self.observed[key]["status"] = {
            "atProvider": {"id": key, **copy.deepcopy(sent)} if reported is None else reported,
            "conditions": [
                {
                    "type": type_,
                    "status": word if word in {"True", "False"} else "False",
                    "message": word,
                    "reason": "R",
                }
                for type_, word in rows.items()
            ],
        }

    def bring_up(self) -> Outcome:
        """Reconcile until the cluster and its pools are Ready and connected."""
        self.reconcile()
        self.report(CLUSTER)
        self.reconcile()
        for key in (SYSTEM, A100):
            self.report(key)
        return self.reconcile()

    def place(self, pool: str = "a100") -> None:
        """Put a placement on a pool."""
        topology: Manifest = {"nodes": 2, "gpusPerNode": 4}
        self.placements = [
            {
                "apiVersion": "modelplane.ai/v1alpha1",
                "kind": "ModelPlacement",
                "metadata": {
                    "name": "kimi-1",
                    "namespace": "research",
                    "uid": "uid-kimi",
                    "labels": {"modelplane.ai/environment": ENV},
                },
                "spec": {
                    "inferenceEnvironmentRef": {"name": ENV},
                    "deploymentRef": {"name": "kimi"},
                    "modelRef": {"kind": "ClusterModel", "name": "kimi"},
                    "pool": pool,
                    "profile": "p",
                    "topology": topology,
                    "replicas": 1,
                },
            }
        ]

    def pool(self) -> Manifest:
        (found,) = listing(self.xr, "spec.nodePools")
        return found


def said(outcome: Outcome, type_: str) -> tuple[str, str, str]:
    found = next(c for c in outcome.conditions if c.type == type_)
    return found.status, found.reason, found.message


def policies(outcome: Outcome) -> dict[str, object]:
    return {
        key: get(item.manifest, "spec.managementPolicies")
        for key, item in outcome.composed.items()
        if key.startswith("gke-")
    }
