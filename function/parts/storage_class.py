"""The storage class of an environment, which is only observed: whether it exists on the cluster."""

from dataclasses import replace

from function.contract import Desired, Drop
from function.kube.manifests import Manifest
from function.parts.environment import EnvironmentContext
from function.parts.part import Decisions, Part, PartOutcome
from function.remote.composed_kinds import OBJECT
from function.remote.object_writer import ManagementPolicy
from function.remote.observed_object import ObservedObject, State
from function.status import inference_environment as report

CLASS = "storage-class"


def _observe_storage_class(context: EnvironmentContext, _: Decisions) -> PartOutcome[ObservedObject]:
    name = context.environment.storage.class_name
    observed = context.writer.read(CLASS)
    if name:
        manifest: Manifest = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        item = context.writer.compose(CLASS, manifest, ManagementPolicy.OBSERVE_ONLY)
        # A missing class refuses models that need a claim of this class (weights/faults.py). Other models do not wait.
        desired = Desired({CLASS: replace(item, ready=item.ready or observed.state is State.ABSENT)})
    else:
        desired = Desired(drops=(Drop(CLASS, "spec.storage names no class"),))
    ready = report.build_storage_ready(name, observed)
    return PartOutcome(decision=observed, desired=desired, conditions=(ready,))


STORAGE_CLASS_PART = Part(run=_observe_storage_class, names={OBJECT: CLASS})
