"""The Deployment that KServe creates for a service, and whether all its pods have the service's current spec.

If each replica runs on one node, KServe reports the service Ready while enough pods of the earlier spec serve, even if
the new pods never start. The Deployment tells the pods apart (decision 35). It is observed only if environments change
one by one.
"""

from dataclasses import replace

from function.contract import Desired, Drop
from function.domain.records.rollout import PendingUpdate
from function.kube.manifests import Manifest, condition, integer, mapping, strings, text
from function.kube.messages import truncate_middle
from function.kube.names import ANNOTATION_SPEC_DIGEST
from function.remote.health import is_current
from function.remote.object_writer import ManagementPolicy, ObjectWriter, reapply_observed
from function.remote.observed_object import ObservedObject

POD_DEPLOYMENT = "workload"  # composition-resource-name
PRIMARY_WORKLOAD = "status.workloads.primary"  # of a service: kind and name of the workload that has its pods
_MAX_CAUSE = 256  # bytes of what a Deployment says


def observe_pod_deployment(service: Manifest, writer: ObjectWriter, *, is_needed: bool) -> Desired:
    """Returns the Object that observes the Deployment of a service; none if its pods do not belong to a Deployment.

    While the workload of the service is not known, an earlier Object stays. The Object always counts as ready, because
    a placement can be ready although its Deployment cannot be read.
    """
    if not is_needed:
        return Desired(drops=(Drop(POD_DEPLOYMENT, "the deployment changes all environments at once"),))
    kind = text(service, f"{PRIMARY_WORKLOAD}.kind")
    observed = writer.observed.get(POD_DEPLOYMENT)
    if not kind:
        return Desired({POD_DEPLOYMENT: replace(reapply_observed(observed), ready=True)} if observed else {})
    if kind != "Deployment":
        return Desired(drops=(Drop(POD_DEPLOYMENT, "the pods of the service are not those of a Deployment"),))
    metadata: Manifest = {
        "name": text(service, f"{PRIMARY_WORKLOAD}.name"),
        "namespace": text(service, "metadata.namespace"),
    }
    manifest: Manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    return Desired(
        {POD_DEPLOYMENT: replace(writer.compose(POD_DEPLOYMENT, manifest, ManagementPolicy.OBSERVE_ONLY), ready=True)}
    )


def find_update(service: Manifest, workload: ObservedObject) -> PendingUpdate | None:
    """Returns why not all pods of a service run its current spec; None if they do.

    The rule is that of `kubectl rollout status` (kubectl, pkg/polymorphichelpers/rollout_status.go).
    """
    name = text(service, f"{PRIMARY_WORKLOAD}.name")
    if text(service, f"{PRIMARY_WORKLOAD}.kind") != "Deployment":
        return None
    if not workload.present:
        why = f"cannot be observed: {workload.problem}" if workload.problem else "has not been observed yet"
        return PendingUpdate(f"its Deployment {name} {why}", stalled=workload.refused)
    deployment = workload.manifest
    requested_digest = strings(service, "spec.annotations").get(ANNOTATION_SPEC_DIGEST)
    digest = strings(deployment, "spec.template.metadata.annotations").get(ANNOTATION_SPEC_DIGEST)
    if digest != requested_digest or not is_current(deployment):
        return PendingUpdate(f"its Deployment {name} does not have the current spec yet")
    replicas = integer(deployment, "spec.replicas")
    status = mapping(deployment, "status")
    total = integer(status, "replicas")
    updated = integer(status, "updatedReplicas")
    available = integer(status, "availableReplicas")
    if replicas <= updated and total <= updated <= available:
        return None
    progressing = condition(deployment, "Progressing")
    is_stalled = progressing.get("status") == "False"
    message = f"{updated} of {replicas} pods have the current spec ({total} exist, {available} available)"
    cause = truncate_middle(text(progressing, "message"), _MAX_CAUSE)
    return PendingUpdate(f"{message}: {cause}" if is_stalled else message, stalled=is_stalled)
